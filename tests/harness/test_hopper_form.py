"""Form of tensor maps, mbarriers, roles, barriers and rows: wgmma_gemm is fine, and each thing spoiled is said."""

from __future__ import annotations

import copy

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import as_expr
from amk.dsl.layout import Padded, Swizzle, spanned
from amk.harness.rules.examples import example

from .hopper import FORM, SCHEDULES, found, gemm, spoiled, statements


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_wgmma_gemm_has_no_form_fault(schedule, dtype):
    assert found(gemm(schedule, dtype), FORM) == []


def first(kind, **fields):
    def change(**new):
        return lambda data: statements(data, kind, **fields)[0].update(new)

    return change


def declared(group, n, **new):
    return lambda data: data[group][n].update(new)


def role(n, **new):
    return lambda data: statements(data, "team")[0]["roles"][n].update(new)


def dropped(kind, name):
    return lambda data: statements(data, kind)[0].pop(name)


load_a = first("call", row="tma.load.2d")
load_b = first("call", row="tma.load.2d.multicast")
store_c = first("call", row="tma.store.2d")
product = first("call", row="wgmma")
arrive, wait_phase = first("arrive"), first("wait", barrier="ab_full")
join, bulk, group = first("sync"), first("wait", queue="bulk"), first("wait", queue="wgmma")

SPOILED = [
    # -- names, ranks and spaces
    (load_a(refs={"dst": "a[slot3, 0, 0]", "src": "from_a[m01]", "bar": "ab_full[slot3]"}), "AMK005", "1 indices"),
    (
        load_a(refs={"dst": "a[slot3, 0, 0]", "src": "A[m01, 0]", "bar": "ab_full[slot3]"}),
        "AMK005",
        "takes a tensor map",
    ),
    (load_a(refs={"dst": "acc[0]", "src": "from_a[0, 0]", "bar": "ab_full[0]"}), "AMK005", "takes shared"),
    (load_a(refs={"dst": "a[0, 0, 0]", "src": "from_a[0, 0]", "bar": "a[0, 0, 0]"}), "AMK005", "takes a barrier"),
    (load_a(refs={"dst": "a[0, 0, 0]", "src": "from_a[0, 0]"}), "AMK006", "needs the operand 'bar'"),
    (load_a(row="tma.load.3d"), "AMK005", "rank 3"),
    (load_a(row="tma.load.6d"), "AMK006", "did you mean"),
    (arrive(barrier="acc[0]"), "AMK005", "arrive takes a barrier"),
    (arrive(barrier="ab_full[0, 0]"), "AMK005", "2 indices"),
    (arrive(barrier="nothing[0]"), "AMK002", "not defined"),
    (lambda d: d["body"].append({"kind": "let", "name": "v", "view": "from_a[0, 0]"}), "AMK005", "let takes"),
    (lambda d: d["body"].append({"kind": "let", "name": "v", "view": "ab_full[0]"}), "AMK005", "let takes"),
    (lambda d: d["body"].append({"kind": "let", "name": "v", "value": "from_a[0, 0]"}), "AMK004", "not a value"),
    (lambda d: d["body"].append({"kind": "let", "name": "v", "value": "ab_full[0]"}), "AMK004", "not a value"),
    (lambda d: d["body"].append({"kind": "load", "dst": "acc[0]", "src": "to_c[0, 0]"}), "AMK005", "a tensor map"),
    (arrive(peer="1.5"), "AMK004", "peer"),
    (wait_phase(parity="true"), "AMK004", "parity"),
    # -- tensor maps
    (declared("maps", 0, tensor="a"), "AMK005", "no tensor in global memory"),
    (declared("maps", 0, box=[64]), "AMK005", "1 dimensions"),
    (declared("maps", 0, box=[512, 64]), "AMK005", "1 to 256"),
    (declared("maps", 0, box=[128, 32]), "AMK005", "make the last extent 64"),
    (declared("maps", 0, box=[128, 4], swizzle=0), "AMK005", "multiple of 16 bytes"),
    (declared("maps", 0, swizzle=64), "AMK005", "swizzle over 64"),
    (declared("params", 4, dtype="bool"), "AMK005", "cannot hold"),
    (lambda d: d["params"][4].update(strides=["K*2", "2"]), "AMK005", "last stride"),
    (lambda d: (d["params"][4].update(dtype="i32"), d["maps"][0].update(fill="nan")), "AMK005", "no NaN"),
    # -- where boxes and tiles land
    (declared("buffers", 0, align=128), "AMK005", "1024"),
    (declared("buffers", 0, layout=None), "AMK005", "bits=3 base=3 shift=3"),
    (declared("buffers", 0, layout={"kind": "swizzle", "bits": 2, "base": 3, "shift": 3}), "AMK005", "bits=3"),
    (declared("buffers", 2, layout={"kind": "padded", "pad": 8}), "AMK005", "to_c"),
    (declared("buffers", 0, shape=[4, 256, 32]), "AMK005", "rows of 64 elements"),
    (declared("buffers", 0, dtype="f16"), "AMK005", "f16"),
    (declared("buffers", 1, shape=[4, 2, 64, 64]), "AMK005", "takes 4 x 16 x 64"),
    (declared("buffers", 0, shape=[4, 132, 64]), "AMK005", "groups of 8"),
    (declared("buffers", 3, shape=[64]), "AMK005", "takes 128"),
    (declared("buffers", 3, dtype="i32"), "AMK005", "acc acc[0] is i32"),
    (product(refs={"acc": "acc[t]", "a": "a[slot1, 0, 0]", "b": "b[slot1, 0, 0, 0]"}), "AMK005", "constant index"),
    (product(row="wgmma.m64n256k16.bf16.k.k"), "AMK005", "takes 256 x 16"),
    (product(row="wgmma.m64n256k16.f16.k.mn"), "AMK005", "takes f16"),
    (product(row="wgmma.m64n260k16.bf16.k.mn"), "AMK006", "no instruction"),
    (load_b(args={"mask": "4"}), "AMK006", "outside the cluster of 2"),
    (load_b(args={"mask": "0"}), "AMK006", "outside [1, 65535]"),
    (load_b(args={}), "AMK006", "needs the argument 'mask'"),
    # -- barriers, waits, arrivals
    (join(id=3), "AMK006", "only scope named"),
    (join(scope="block"), "AMK006", "relaxed barrier of the block"),
    (join(scope="block", relaxed=False, part="arrive"), "AMK006", "no halves"),
    (join(part="wait"), "AMK006", "relaxed wait"),
    (join(scope="named", relaxed=False, threads=64), "AMK006", "id from 1"),
    (join(scope="named", relaxed=False, id=1, threads=48), "AMK006", "48 threads"),
    (join(scope="named", relaxed=False, id=1, threads=416), "AMK006", "block of 384"),
    (join(scope="named", relaxed=False, id=1, threads=64, part="wait"), "AMK006", "arrive too"),
    (wait_phase(queue="bulk"), "AMK006", "a queue, on the phase"),
    (lambda d: statements(d, "wait", barrier="ab_full")[0].pop("parity"), "AMK006", "without its parity"),
    (wait_phase(pending=1), "AMK006", "this wait is on a phase"),
    (group(read=True), "AMK006", "read with the queue wgmma"),
    (group(pending=8), "AMK006", "at most 7"),
    (arrive(bytes="24"), "AMK006", "24 bytes"),
    (arrive(bytes="0"), "AMK006", "0 bytes"),
    (arrive(bytes="-16"), "AMK006", "-16 bytes"),
    (arrive(bytes="1048576"), "AMK006", "1048576 bytes"),
    (arrive(bytes="K"), "AMK006", "expects K bytes"),
    # -- roles
    (role(0, warps=[0, 7]), "AMK006", "no role has warp 7"),
    (role(1, warps=[7, 12]), "AMK006", "warp 7 is in role 0 and in role 1"),
    (role(1, warps=[8, 13]), "AMK006", "[8, 13) of 12"),
    (role(1, warps=[8, 8]), "AMK006", "first < end"),
    (lambda d: (role(0, warps=[0, 6])(d), role(1, warps=[6, 12])(d)), "AMK006", "multiple of 4 warps"),
    (lambda d: d.update(threads=390), "AMK006", "390 threads"),
    (lambda d: role(1, body=copy.deepcopy(statements(d, "team")))(d), "AMK006", "inside"),
]


@pytest.mark.parametrize(("edit", "code", "said"), SPOILED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_spoiled_is_said(edit, code, said):
    diagnostics = [d for d in found(spoiled(edit), FORM) if said in d.message or said in d.hint]
    assert diagnostics and {d.code for d in diagnostics} == {code}
    assert all(d.severity == "error" and d.pointer and d.hint for d in diagnostics if code != "AMK002")


def test_expecting_bytes_at_a_peer_is_one_instruction():
    """PTX has mbarrier.arrive.expect_tx for shared::cluster."""
    assert found(spoiled(arrive(bytes="32", peer="lane")), FORM) == []


def test_peers_need_a_cluster():
    one = SCHEDULES[1]
    assert "no other block" in found(spoiled(arrive(peer="0"), one), ("AMK006",))[0].hint
    k = KernelBuilder("peer", target="sm_90a", threads=32)
    s, a, x = k.shared("s", "f32", (32,)), k.registers("a", "f32", (1,)), k.tensor("x", "f32", (32,))
    k.load(a[0], s[k.t], peer=0)
    k.load(a[0], x[k.t], peer=0)
    k.store(a[0], 1.0, peer=0)
    said = [d.message for d in found(k.finish(grid=(1,)), FORM)]
    assert len(said) == 5 and sum("without a cluster" in m for m in said) == 3


@pytest.mark.parametrize(
    ("row", "layout", "size", "fault"),
    [
        ("bulk.load", None, 256, None),
        ("bulk.load", Padded(pad=4), 128, None),
        ("bulk.load", Padded(pad=4), 256, "row-major array"),
        ("bulk.load", Swizzle(bits=3, base=2, shift=3), 128, "row-major array"),
        ("bulk.load", None, 24, "multiple of 16"),
        ("bulk.load", None, 0, "outside"),
    ],
)
def test_bulk_copies(row, layout, size, fault):
    k = KernelBuilder("bulk", target="sm_90a", threads=32)
    s, x = k.shared("s", "f32", (4, 32), layout=layout), k.tensor("x", "f32", (1024,), align=16)
    bar = k.barrier("bar")
    k.call(row, {"dst": s[0, 0], "src": x[0], "bar": bar[0]}, bytes=size)
    said = [d.message for d in found(k.finish(grid=(1,)), FORM)]
    assert (not said) if fault is None else any(fault in m for m in said)


def test_matrices_take_16_bit_rows():
    k = KernelBuilder("matrix", target="sm_90a", threads=32)
    s, f = k.shared("s", "bf16", (16, 64), layout=spanned(128, 2), align=1024), k.shared("f", "f32", (16, 64))
    r, acc = k.registers("r", "u32", (8,)), k.registers("acc", "f32", (4,))
    k.call("ldmatrix.x4", {"dst": r[0], "src": s[k.t % 16, k.t // 16 * 8]})
    k.call("ldmatrix.x2.trans", {"dst": r[4], "src": s[k.t % 16, 0]})
    k.call("mma.m16n8k16.bf16", {"acc": acc[0], "a": r[0], "b": r[4]})
    assert found(k.finish(grid=(1,)), FORM) == []
    k.call("ldmatrix.x4", {"dst": acc[0], "src": f[k.t % 16, 0]})
    assert [d.code for d in found(k.finish(grid=(1,)), FORM)] == ["AMK005", "AMK005"]


@pytest.mark.parametrize(
    ("target", "lacking"),
    [("sm_80", {"tma", "cluster", "wgmma", "setmaxnreg", "multicast"}), ("sm_100a", {"wgmma"}),
     ("sm_120", {"wgmma", "multicast", "setmaxnreg"})],
)  # fmt: skip
def test_features_of_targets(target, lacking):
    said = [d.message for d in found(gemm(), ("AMK007",), target)]
    assert {
        w for w in ("tma", "cluster", "wgmma", "setmaxnreg", "multicast") if any(f"needs {w}," in m for m in said)
    } == lacking
    assert any("cluster of 2" in m for m in said) == (target == "sm_80")


@pytest.mark.parametrize(
    ("value", "within", "said"),
    [
        ("t // 32", None, None),
        ("(bx*384 + t) // 32", None, None),
        ("t // 128 + n", None, None),
        ("select(t < 64, 1, 2)", None, None),
        ("t // 32", "t < 96", None),
        ("t // 32", "n > 3", None),
        ("t", None, "between lanes"),
        ("t // 16", None, "between lanes"),
        ("(bx*100 + t) // 32", None, "between lanes"),
        ("select(t < 40, 1, 2)", None, "between lanes"),
        ("a[0]", None, "between lanes"),
        ("t // 32", "t < 40", "keep lanes"),
        ("t // 32", "a[0] > 3", "keep lanes"),
    ],
)
def test_what_is_declared_uniform_is(value, within, said):
    let = {"kind": "let", "name": "u", "value": value, "uniform": True}
    body = [let] if within is None else [{"kind": "if", "cond": within, "body": [let]}]
    a = {"kind": "buffer", "name": "a", "space": "register", "dtype": "i32", "shape": [1]}
    faults = [d.message for d in found(example(body=body, buffers=[a], threads=384), ("AMK004",))]
    assert not faults if said is None else len(faults) == 1 and said in faults[0]


@pytest.mark.parametrize(("carried", "uniform"), [("t // 32", True), ("t", False)])
def test_a_carried_value_is_as_uniform_as_what_it_becomes(carried, uniform):
    k = KernelBuilder("carried", target="sm_90a", threads=64)
    with k.loop("i", 0, k.size("n"), c=0) as i:
        k.let("u", i.c + i.var, uniform=True)
        i.next(c=i.c + as_expr(carried))
    assert (found(k.finish(grid=(1,)), ("AMK004",)) == []) == uniform
