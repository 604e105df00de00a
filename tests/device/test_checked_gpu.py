"""Checked builds on a GPU: what goes wrong is told and left out, nothing beside the arrays changes, nobody hangs.

No framework is needed. Broken kernels have no certificate: their text is printed and compiled here, and they are
launched behind the back of the launch checks, as are good kernels with sizes that their arrays do not have.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amk
from amk.dsl.kernel import KernelDescriptor
from amk.errors import KernelFault, LaunchError
from amk.runtime.arrays import ArrayView, view
from amk.runtime.build import Binary
from amk.runtime.device import device, driver, ensure_context, probe
from amk.runtime.kernel import CompiledKernel
from amk.runtime.launch import to_device, to_host
from amk.runtime.place import target_of
from amk.synth.compile import compile_cubin
from amk.synth.render import text_of

sys.path.insert(0, str(Path(__file__).parent.parent / "synth"))
from broken_hopper import HOPPER, spoiled_gemm
from broken_kernels import BROKEN, KEPT, Broken, copy, lazily
from kernels import GOLDEN

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not probe().available, reason="no GPU")]
EDGE, POISON = 256, 0xA5  # bytes around each array, and what they hold


def unproved(kernel: KernelDescriptor) -> CompiledKernel:
    """A checked kernel that nobody certified, compiled from its text."""
    target = target_of(0)
    text = text_of(kernel, checked=True)
    made = compile_cubin(text, device(0).target, name=kernel.name)
    out = CompiledKernel(kernel, target, 0, checked=True)
    out._binary = Binary(
        kernel, target, made.cubin, text, made.log, "{}", made.resources.registers, 0, kernel.shared_bytes, False
    )
    return out


def launched(
    kernel: CompiledKernel, arrays: dict[str, Any], sizes: dict[str, int], **strides: int
) -> KernelFault | None:
    """Runs behind the launch checks, on arrays in the middle of poison; what was raised. Arrays are updated."""
    stores, views, raised = {}, {}, None
    for name, a in arrays.items():
        raw = np.full(a.nbytes + 2 * EDGE, POISON, np.uint8)
        raw[EDGE : EDGE + a.nbytes] = a.view(np.uint8)
        stores[name] = (raw, to_device(view(raw, name), 0, 0))
        step = strides.get(name, 1)
        shape = (-(-len(a) // step),)
        views[name] = ArrayView(stores[name][1].pointer + EDGE, shape, (step,), "f32", 0, stores[name][1], "cai")
    try:
        kernel._launch(views, sizes, 0)
    except KernelFault as fault:
        raised = fault
    for name, a in arrays.items():
        raw, buffer = stores[name]
        to_host(buffer, view(raw, name), 0)
        assert (raw[:EDGE] == POISON).all() and (raw[EDGE + a.nbytes :] == POISON).all(), f"bytes beside {name} changed"
        a[...] = raw[EDGE : EDGE + a.nbytes].view(np.float32)
        buffer.close()
    return raised


def run(name: str, b: Broken) -> tuple[KernelFault | None, list[float]]:
    n, step = b.sizes["n"], b.sizes.get("step", 1)
    x, z = np.arange(b.lengths.get("x", n), dtype=np.float32), np.full(n, KEPT, np.float32)
    fault = launched(unproved(b.kernel(name)), {"x": x, "z": z}, b.sizes, x=step)
    return fault, z.tolist()


def holds(name: str, b: Broken) -> None:
    """The fault is the one that is wanted, and all else is as if the access were not there."""
    fault, z = run(name, b)
    assert fault is not None
    assert b.said in fault.message and (fault.kind, fault.block, fault.count) == (b.kind, (b.block, 0, 0), b.failed)
    assert fault.thread == b.thread or b.thread < 0
    assert z == [b.z(i) for i in range(len(z))]
    good = np.full(40, KEPT, np.float32)
    assert launched(unproved(copy()), {"x": np.arange(40, dtype=np.float32), "z": good}, {"n": 40}) is None
    assert good.tolist() == list(range(40)), "the process can still use the device"


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    holds(name, BROKEN[name])


def test_what_is_not_chosen_is_not_tested() -> None:
    z = np.full(32, KEPT, np.float32)
    assert launched(unproved(lazily()), {"x": z.copy(), "z": z}, {"n": 32}) is None
    assert z[:5].tolist() == [1, 2, 3, 4, 0.5]


def test_a_whole_grid_that_fails_is_counted() -> None:
    """A size a thousand times too large: every access beyond the arrays is left out, and each is counted."""
    n, given = 40_000, 40
    x, z = np.arange(given, dtype=np.float32), np.full(given, KEPT, np.float32)
    fault = launched(unproved(copy()), {"x": x, "z": z}, {"n": n})
    assert fault is not None and fault.count == 2 * (n - given) and "whose memory ends at byte 160" in fault.message
    assert z.tolist() == list(range(given))


def test_a_misaligned_base_does_not_end_the_process() -> None:
    """What the launcher refuses: x starts one byte late. No element of it is read."""
    kernel, z = unproved(copy()), np.full(40, KEPT, np.float32)
    with to_device(view(np.zeros(64, np.float32), "x"), 0, 0) as x, to_device(view(z, "z"), 0, 0) as out:
        views = {
            "x": ArrayView(x.pointer + 1, (40,), (1,), "f32", 0, x, "cai"),
            "z": ArrayView(out.pointer, (40,), (1,), "f32", 0, out, "cai"),
        }
        with pytest.raises(KernelFault, match=r"x\[i\] is not 4 contiguous bytes aligned to 4") as caught:
            kernel._launch(views, {"n": 40}, 0)
        to_host(out, view(z, "z"), 0)
    assert caught.value.count == 40 and (z == 0).all()


# ------------------------------------------------------------------------------------------------------- good kernels
def test_a_gemm_gives_the_same_bits_and_no_fault() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((130, 65), dtype=np.float32), rng.standard_normal((65, 97), dtype=np.float32)
    plain = amk.AutoMegaKernelGEMM(device=0).run(a, b)
    assert np.array_equal(amk.AutoMegaKernelGEMM(device=0, checked=True).run(a, b), plain)


@pytest.mark.parametrize("name", ["transpose", "block_sum"])
def test_certified_kernels_run_checked(name: str) -> None:
    kernel = GOLDEN[name]()
    call, plain = (amk.compile(kernel, device=0, checked=c) for c in (True, False))
    x = np.arange(33 * 45, dtype=np.float32) % 7
    if name == "transpose":
        given = {"x": x.reshape(33, 45)}
        out, want = {"out": np.zeros((45, 33), np.float32)}, {"out": np.zeros((45, 33), np.float32)}
    else:
        given, out, want = {"x": x}, {"total": np.zeros(1, np.float32)}, {"total": np.zeros(1, np.float32)}
    call(**given, **out)
    plain(**given, **want)
    assert all(np.array_equal(out[n], want[n]) for n in out)


def test_a_capture_is_refused() -> None:
    """On a stream that is captured nothing could be read back."""
    torch = pytest.importorskip("torch")
    kernel = amk.compile(GOLDEN["vector_add"](), device=0, checked=True)
    x, y, z = (torch.ones(40, device="cuda") for _ in range(3))
    kernel(x=x, y=y, z=z)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(LaunchError, match="graph capture"):
        kernel(x=x, y=y, z=z)
    assert (z == 2).all()  # of the call before


# ------------------------------------------------------------------------------------------------------------- Hopper
hopper = pytest.mark.skipif(
    probe().available and device(0).compute_capability != (9, 0), reason="needs a GPU with sm_90a"
)
ALONE = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
import test_checked_gpu as t
t.{what}
print("done")
"""


def alone(what: str) -> None:
    """In a process of its own, with a limit on its time: what hangs or ends the context fails here alone."""
    here = Path(__file__).parent
    code = ALONE.format(here=str(here), root=str(here.parent.parent), what=what)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0 and "done" in done.stdout, done.stdout[-2000:] + done.stderr[-4000:]


@hopper
@pytest.mark.parametrize("name", HOPPER)
def test_broken_on_hopper(name: str) -> None:
    alone(f"holds({name!r}, t.HOPPER[{name!r}])")


def wgmma(kernel: CompiledKernel, m: int, n: int, k: int, blocks: int) -> tuple[Any, Any]:
    """C and what it should be: whole numbers that bf16 holds, the sums exact in f32."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-2, 3, (m, k)).astype(np.float32), rng.integers(-2, 3, (k, n)).astype(np.float32)
    want, c = a @ b, np.zeros((m, n), np.uint16)
    bits = {"A": (a.view(np.uint32) >> 16).astype(np.uint16), "B": (b.view(np.uint32) >> 16).astype(np.uint16), "C": c}
    held = {name: to_device(view(x.view(np.float16), name), 0, 0) for name, x in bits.items()}
    views = {name: replace(h.array(bits[name].shape, "bf16"), framework="cai") for name, h in held.items()}
    try:
        with ensure_context(0):
            kernel._launch(views, {"M": m, "N": n, "K": k, "blocks": blocks}, 0)
            driver().synchronize()
        to_host(held["C"], view(c.view(np.float16), "C"), 0)
    finally:
        for h in held.values():
            h.close()
    return (c.astype(np.uint32) << 16).view(np.float32), want


def wgmma_is_right(cluster: int) -> None:
    from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

    kernel = amk.compile(wgmma_gemm(WgmmaSchedule(cluster=cluster)), device=0, checked=True)
    for m, n, k, blocks in ((300, 264, 136, 2), (1000, 1032, 520, 8)):
        got, want = wgmma(kernel, m, n, k, blocks)
        assert np.abs(got - want).max() <= np.abs(want).max() / 128, "further from the sums than bf16 rounds"


def spoiled_ends(cluster: int) -> None:
    try:
        wgmma(unproved(spoiled_gemm(cluster)), 512, 512, 1024, 2 * cluster)
    except KernelFault as fault:
        assert fault.kind == "bounds" and fault.index == fault.limit == 4, fault
        return
    raise AssertionError("nothing was told")


@hopper
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_tensor_core_gemm_runs_checked(cluster: int) -> None:
    alone(f"wgmma_is_right({cluster})")


@hopper
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_spoiled_ring_ends_instead_of_hanging(cluster: int) -> None:
    alone(f"spoiled_ends({cluster})")
