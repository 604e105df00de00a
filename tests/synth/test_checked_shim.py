"""Checked texts run as threads: broken kernels leave the right record and corrupt nothing, good ones leave none."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from amk.synth import render
from amk.synth.fault_record import first_fault
from amk.synth.render import text_of

sys.path.insert(0, str(Path(__file__).parent))
from broken_kernels import BROKEN, KEPT, THREADS, lazily
from test_shim import CASES, build, execute, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None or sys.platform != "linux", reason="needs g++ on Linux"),
]

# Arrays that end where their last element does, so that AddressSanitizer sees every byte beyond.
CASE = """  if (which == {number}) {{
    float *x = amk_floats({x}), *z = amk_floats({z});
    for (int i = 0; i < {x}; ++i) x[i] = i;
    for (int i = 0; i < {z}; ++i) z[i] = {kept};
    amk_launch({threads}, {{{grid}, 1, 1}}, [=] {{ {name}({scalars}x, z{hidden}); }});
    for (unsigned i = 0; i < sizeof faults; ++i) std::printf("%02x", ((unsigned char*)&faults)[i]);
    for (int i = 0; i < {z}; ++i) std::printf(" %.9g", z[i]);
  }}
"""
HIDDEN = ", &faults, 0, {x} * 4, 0, {z} * 4"
PLAIN = {"read_past": "heap-buffer-overflow", "write_past": "heap-buffer-overflow", "shared_past": "use-after-poison",
         "misaligned": "misaligned address"}  # fmt: skip
KERNELS = {name: b.kernel(name) for name, b in BROKEN.items()}
KERNELS["lazily"] = lazily().model_copy(update={"name": "lazily"})


def case(number: int, name: str, *, checked: bool = True) -> str:
    b = BROKEN.get(name)
    sizes = b.sizes if b else {"n": THREADS}
    n = sizes["n"]
    scalars = "".join(f"{sizes[p.name]}, " for p in KERNELS[name].scalars)
    blocks = -(-n // THREADS) if str(KERNELS[name].grid[0]) != "1" else 1
    x = b.lengths.get("x", n) if b else n
    return CASE.format(
        number=number, x=x, z=n, kept=KEPT, threads=THREADS, grid=blocks, name=name if checked else f"plain_{name}",
        scalars=scalars, hidden=HIDDEN.format(x=x, z=n) if checked else "",
    )  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program of all kernels: the prelude that any of them needs, then each kernel."""
    texts = [text_of(k, checked=True) for k in KERNELS.values()]
    texts += [text_of(BROKEN[name].kernel(f"plain_{name}")) for name in PLAIN]
    parts = [text.partition('extern "C"') for text in texts]
    prelude = [text for _, text in render._prelude_files() if any(text in head for head, _, _ in parts)]
    kernels = [mark + body for _, mark, body in parts]
    cases = "".join(case(i, name) for i, name in enumerate(KERNELS))
    cases += "".join(case(i, name, checked=False) for i, name in enumerate(PLAIN, len(KERNELS)))
    main = f"int main(int, char** argv) {{\n  const int which = std::atoi(argv[1]);\n{cases}}}"
    source = "\n".join([*prelude, *kernels, "static amk_faults faults;", main])
    return build(source, THREADS * 4, "address,undefined", tmp_path_factory.mktemp("checked"))


def said(program: Path, name: str) -> tuple[bytes, list[float]]:
    """The record and z after a run that no sanitizer complains of."""
    done = execute(program, str(list(KERNELS).index(name)))
    assert done.returncode == 0 and not done.stderr, done.stderr
    record, *values = done.stdout.split()
    return bytes.fromhex(record), list(map(float, values))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_corrupts_nothing_and_says_what_failed(name: str, program: Path) -> None:
    b = BROKEN[name]
    record, z = said(program, name)
    fault, count = first_fault(KERNELS[name], record) or pytest.fail("nothing failed")
    assert (fault.kind, fault.message, fault.block, count) == (b.kind, b.said, (b.block, 0, 0), b.failed)
    assert fault.threads == (b.thread,) or b.thread < 0
    assert z == [b.z(i) for i in range(len(z))]


def test_what_is_not_chosen_is_not_tested(program: Path) -> None:
    record, z = said(program, "lazily")
    assert first_fault(KERNELS["lazily"], record) is None and z[:5] == [1, 2, 3, 4, 0.5]


@pytest.mark.parametrize("name, seen", PLAIN.items())
def test_without_the_tests_memory_is_corrupted(name: str, seen: str, program: Path) -> None:
    """What the tests are there for: the plain text of the same kernels."""
    done = execute(program, str(len(KERNELS) + list(PLAIN).index(name)))
    assert seen in done.stderr


# Good kernels of every kind of statement, by their own programs, which compare the results.
GOOD = {
    "address,undefined": ("block_sum", "gemm", "gemm_tt_batch", "gemm_split"),
    "thread": ("transpose", "gemm_swizzled", "gemm_nn_ring"),
}


@pytest.mark.parametrize("sanitizer, name", [(s, n) for s, names in GOOD.items() for n in names])
def test_a_good_kernel_leaves_no_record(sanitizer: str, name: str, tmp_path: Path) -> None:
    make, main = CASES[name]
    kernel = make()
    ends = ", ".join(["-(1LL << 40), 1LL << 40"] * len(kernel.tensors))
    main, found = re.subn(
        rf"{kernel.name}\((.*?)\); }}\);",
        rf"{kernel.name}(\1, &faults, {ends}); }}); if (faults.count) return 9;",
        main,
    )
    assert found == 1
    done = run(kernel, "static amk_faults faults;\n" + main, sanitizer, tmp_path, text_of(kernel, checked=True))
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
