"""What is printed is what is proved: addresses and expressions, read back from C text, agree with the IR's own."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Elem, Expr, Var, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.layout import linear, strides
from amk.dsl.nodes import Barrier, Param, Statement
from amk.dsl.types import nbytes
from amk.synth.print_address import AddressPrinter
from amk.synth.print_expr import ExprPrinter
from amk.synth.print_rows import _NUMBERS
from amk.synth.print_stmt import StatementPrinter
from amk.synth.render import _templates, text_of

sys.path.insert(0, str(Path(__file__).parent))
from kernels import GOLDEN

# ------------------------------------------------------------------------------------------- a reader of C expressions
_LEVELS = [x.split() for x in ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")]
_C_TOKEN = re.compile(r"\s*(0x[0-9a-f]+|\d+|amk_\w+<[a-z ]+>|\w+|\|\||&&|[<>=!]=|<<|>>|[-+*/%&|^<>()?:,!])")
_CALLS = {"amk_min": min, "amk_max": max, "amk_cdiv": lambda a, b: -(-a // b)}


class Reader:
    """Evaluates a C expression of integers by C's own precedence (`/` truncates)."""

    def __init__(self, text: str, env: dict[str, int]) -> None:
        text = re.sub(r"\((long long|int)\)", "", text)
        text = re.sub(r"(\d)(LL|ULL|u)\b", r"\1", text)
        self.tokens, self.env, self.at = _C_TOKEN.findall(text), env, 0
        assert "".join(self.tokens) == re.sub(r"\s", "", text).replace("longlong", "long long"), text

    def value(self) -> int:
        out = self.ternary()
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return out

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def ternary(self) -> int:
        cond = self.binary(0)
        if self.peek() != "?":
            return cond
        self.take()
        yes = self.ternary()
        assert self.take() == ":"
        no = self.ternary()
        return yes if cond else no

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            left = _operate(self.take(), left, self.binary(level + 1))
        return left

    def unary(self) -> int:
        token = self.take()
        if token in ("-", "!"):
            inner = self.unary()
            return -inner if token == "-" else int(not inner)
        if token == "(":
            out = self.ternary()
            assert self.take() == ")"
            return out
        if token.startswith("amk_"):
            assert self.take() == "("
            a = self.ternary()
            assert self.take() == ","
            b = self.ternary()
            assert self.take() == ")"
            return _CALLS[token.split("<")[0]](a, b)
        return int(token, 0) if token[0].isdigit() else self.env[token]


def _operate(op: str, a: int, b: int) -> int:
    if op in ("/", "%"):
        q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return q if op == "/" else a - q * b
    table = {
        "||": lambda: a or b, "&&": lambda: a and b, "|": lambda: a | b, "^": lambda: a ^ b, "&": lambda: a & b,
        "==": lambda: a == b, "!=": lambda: a != b, "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b,
        ">=": lambda: a >= b, "<<": lambda: a << b, ">>": lambda: a >> b, "+": lambda: a + b, "-": lambda: a - b,
        "*": lambda: a * b,
    }  # fmt: skip
    return int(table[op]())


# ----------------------------------------------------------------------------------------------------------- addresses
def operands(kernel: KernelDescriptor) -> list[Elem]:
    """Every operand in memory that is printed (a view of a swizzled array is no pointer: its uses are printed)."""
    p = AddressPrinter(kernel)
    shown = [s for _, s in walk(kernel.body) if s.kind != "let" or s.view is None or p.is_pointer(s.name)]
    found = [(s, e) for s in shown for _, e in expressions(s) if isinstance(e, Elem)]
    return [e for s, e in found if kernel.space(e) in ("global", "shared") and not by_number(kernel, s, e)]


def by_number(kernel: KernelDescriptor, s: Statement, e: Elem) -> bool:
    """Whether a statement takes an operand in shared memory as a number, and not through a pointer."""
    d = kernel.find(e.buffer)
    if isinstance(d, Barrier) or (s.kind in ("load", "store") and s.peer is not None and kernel.space(e) == "shared"):
        return True
    return s.kind == "call" and kernel.space(e) == "shared" and s.row.startswith((*_NUMBERS, "wgmma"))


def proved(kernel: KernelDescriptor, ref: Elem) -> Expr:
    """The byte that the checker sees: in the shared segment, or from the start of the tensor."""
    if kernel.space(ref) == "shared":
        return kernel.shared_byte(ref)
    e, d = kernel.resolve(ref), kernel.find(ref.buffer)
    assert isinstance(d, Param)
    return linear(e.index, kernel.strides_of(d)) * nbytes(d.dtype)


def printed(kernel: KernelDescriptor, p: AddressPrinter, text: str, ref: Elem, env: dict[str, int]) -> int:
    """The byte that the text means: the offset in brackets, added to where its pointer points."""
    element = p.element(ref)
    assert element in text
    base, _, offset = element.partition("[")
    size = nbytes(p.element_type(ref))
    here = Reader(offset.removesuffix("]"), env).value() * size
    if base in p.view_lets:
        pointer = re.search(rf"\* const {base} = &([^;]*);", text)
        assert pointer is not None and pointer[1] == p.element(p.view_lets[base])
        return here + printed(kernel, p, text, p.view_lets[base], env)
    start = re.search(rf"\* const {base} = \([^)]*\)\(smem \+ (\d+)\);", text)
    return here + (int(start[1]) if start else 0)


NUMBERS = ("wgmma", "wgmma_cluster", "mma_gemm", "peers")  # instructions of theirs take shared addresses as numbers


@pytest.mark.parametrize("name", NUMBERS)
def test_addresses_as_numbers_agree_at_random_points(name: str) -> None:
    """Of copies, matrices and mbarriers; tiles of wgmma start at their byte before the swizzle, in units of 16."""
    kernel = GOLDEN[name]()
    text, rng = text_of(kernel), random.Random(5)
    p = StatementPrinter(kernel, _templates()[1])
    used, shown = tuple(sorted(set(p.types))), 0
    for _, s in walk(kernel.body):
        for _, ref in expressions(s):
            if not isinstance(ref, Elem) or not by_number(kernel, s, ref):
                continue
            d = kernel.find(ref.buffer)
            tile = s.kind == "call" and s.row.startswith("wgmma")
            start = kernel.shared_offsets[d.name]
            if isinstance(d, Barrier):
                printed_, wanted = p.shared_at(ref), ref.index[0] * 8 + start
            elif tile:
                o = next(o for o in ROWS[s.row].operands if s.refs.get(o.role) == ref)
                printed_ = p._tile(o, ref).partition("(")[2][:-1]
                wanted = linear(ref.index, strides(d.shape, d.layout)) * nbytes(d.dtype) + start
            else:
                printed_, wanted = p.shared_at(ref), kernel.shared_byte(ref)
            assert printed_ in text
            shown += 1
            for _ in range(10):
                env = {n: rng.randrange(0, 1 << rng.randrange(1, 12)) for n in used}
                byte = Reader(printed_, {**env, "shared_": 0, "tiles_": 0}).value() * (16 if tile else 1)
                assert byte == function_of((wanted,), used)(*env.values())[0], (ref, env)
    assert shown > 8


@pytest.mark.parametrize("name", GOLDEN)
def test_addresses_agree_at_random_points(name: str) -> None:
    kernel = GOLDEN[name]()
    text, p, rng = text_of(kernel), AddressPrinter(kernel), random.Random(7)
    for ref in operands(kernel):
        wanted = proved(kernel, ref)
        used = tuple(sorted(set(p.types)))
        for _ in range(20):
            env = {n: rng.randrange(0, 1 << rng.randrange(1, 20)) for n in used}
            assert printed(kernel, p, text, ref, env) == function_of((wanted,), used)(*env.values())[0], (ref, env)


@pytest.mark.parametrize("name", GOLDEN)
def test_conditions_and_loops_agree_at_random_points(name: str) -> None:
    kernel = GOLDEN[name]()
    text, p, rng = text_of(kernel), AddressPrinter(kernel), random.Random(11)
    used = tuple(sorted(set(p.types)))
    terms = [(e, t) for s in map(lambda x: x[1], walk(kernel.body)) for e, t in _scalars(s)]
    assert terms
    for e, dtype in terms:
        c = p.expr(e, dtype)
        assert c in text
        for _ in range(20):
            env = {n: rng.randrange(1, 1 << rng.randrange(1, 20)) for n in used}
            assert Reader(c, env).value() == function_of((e,), used)(*env.values())[0], (e, env)


def _scalars(s) -> list[tuple[Expr, str]]:  # type: ignore[no-untyped-def]
    if s.kind == "if":
        return [(s.cond, "bool")]
    if s.kind == "for":
        return [(s.lo, "i32"), (s.hi, "i32")]
    return [(s.value, s.dtype)] if s.kind == "let" and s.value is not None and not s.uniform else []


def test_a_wrong_stride_would_be_seen() -> None:
    kernel = GOLDEN["gemm"]()
    text = text_of(kernel).replace("va[q * 8 + kk]", "va[q * 4 + kk]")
    p = AddressPrinter(kernel)
    with pytest.raises(AssertionError):
        for ref in operands(kernel):
            printed(kernel, p, text, ref, dict.fromkeys(p.types, 3))


def test_offsets_beyond_32_bits_are_summed_in_64() -> None:
    """Each product has a 64-bit factor, strides included: evaluated in 32-bit arithmetic the text would be wrong."""
    from amk.dsl.builder import KernelBuilder

    k = KernelBuilder("wide", target="sm_80", threads=32)
    a, b, c = k.size("a"), k.size("b"), k.size("c")
    x = k.tensor("x", "f32", (a, b, c, 4), access="write")
    k.store(x[k.bx, k.by, 3, k.t % 4], 1.0)
    text = text_of(k.finish(grid=(1,)))
    product = "(long long)bx * (4LL * (long long)c * (long long)b) + (long long)by * (4LL * (long long)c)"
    assert f"x[{product} + 12LL + t % 4]" in text


# --------------------------------------------------------------------------------------------------- random expressions
_OPS = ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "min", "max", "cdiv", "select", "i64", "neg"]
_TESTS = ["<", "<=", ">", ">=", "==", "!="]


def random_term(rng: random.Random, depth: int) -> Expr:
    """An integer term whose divisors are positive and whose shifts are small."""
    if depth == 0 or rng.random() < 0.15:
        return Var(rng.choice("abcdw")) if rng.random() < 0.7 else Const(rng.randrange(0, 40))
    op = rng.choice(_OPS)
    x, y = random_term(rng, depth - 1), random_term(rng, depth - 1)
    if op in ("i64", "neg"):
        return Apply(op, (x,))
    if op == "select":
        return Apply(op, (random_test(rng, depth - 1), x, y))
    if op == "cdiv":  # of negative numbers, too
        return Apply(op, (x, Const(rng.randrange(1, 20))))
    if op in ("//", "%"):
        return Apply(op, (Apply("&", (x, Const(1023))), Const(rng.randrange(1, 20))))
    if op in ("<<", ">>"):
        return Apply(op, (Apply("&", (x, Const(255))), Const(rng.randrange(0, 8))))
    return Apply(op, (x, y))


def random_test(rng: random.Random, depth: int) -> Expr:
    if depth > 0 and rng.random() < 0.5:
        op = rng.choice(["and", "or", "not"])
        return Apply(op, tuple(random_test(rng, depth - 1) for _ in range(1 if op == "not" else 2)))
    return Apply(rng.choice(_TESTS), (random_term(rng, max(depth - 1, 0)), random_term(rng, max(depth - 1, 0))))


def _scalar_kernel() -> KernelDescriptor:
    from amk.dsl.builder import KernelBuilder

    k = KernelBuilder("scalars", target="sm_80", threads=32)
    for name in "abcd":
        k.scalar(name, "i32")
    k.scalar("w", "i64")
    return k.finish(grid=(1,))


def test_random_expressions_agree_with_the_reader() -> None:
    rng, p = random.Random(3), ExprPrinter(_scalar_kernel())
    for _ in range(2000):
        e = random_term(rng, 4)
        env = {n: rng.randrange(0, 60) for n in "abcdw"}
        assert Reader(p.expr(e), env).value() == function_of((e,), tuple("abcdw"))(*env.values())[0], str(e)


def test_the_test_of_a_loop_is_its_bound_whatever_operators_it_has() -> None:
    """A bound with a select or a bit operation once stood bare beside `<`, which binds more tightly in C."""
    from amk.dsl.nodes import For
    from amk.synth.print_stmt import Macros, StatementPrinter

    rng, p = random.Random(7), StatementPrinter(_scalar_kernel(), Macros(None, {}))
    for _ in range(400):
        hi = random_term(rng, 3)
        env = {n: rng.randrange(0, 60) for n in "abcdw"} | {"i": rng.randrange(0, 60)}
        want = env["i"] < function_of((hi,), tuple("abcdw"))(*(env[n] for n in "abcdw"))[0]
        assert Reader(p.loop_test(For(var="i", hi=hi, body=())), env).value() == want, str(hi)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_random_expressions_agree_with_a_compiler(tmp_path: Path) -> None:
    """g++ computes the printed text in C's own types; terms that leave 32 bits on the way are left out."""
    rng, p, lines, wanted = random.Random(5), ExprPrinter(_scalar_kernel()), [], []
    while len(lines) < 600:
        e = random_term(rng, 4)
        env = {n: rng.randrange(0, 60) for n in "abcdw"}
        if not _fits(e, env):
            continue
        values = ", ".join(f"{n} = {v}" for n, v in env.items() if n != "w")
        lines.append(
            f'  {{ int {values}; long long w = {env["w"]}; std::printf("%lld\\n", (long long)({p.expr(e)})); }}'
        )
        wanted.append(function_of((e,), tuple("abcdw"))(*env.values())[0])
    prelude = (Path(text_of.__code__.co_filename).parent / "prelude" / "arith.cuh").read_text()
    head = "#include <cstdio>\n#define __device__\n#define __forceinline__ inline\n#define AMK_SHIM\n"
    (tmp_path / "e.cpp").write_text(head + prelude + "int main() {\n" + "\n".join(lines) + "\n}\n")
    command = ["g++", "-std=c++17", "-O0", "-w", "-fwrapv", "e.cpp", "-o", "e"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    done = subprocess.run(["./e"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert list(map(int, done.stdout.split())) == wanted


def _fits(e: Expr, env: dict[str, int]) -> bool:
    """Whether every integer inside the term fits 32 bits."""
    numbers = (x for x in subterms(e) if isinstance(x, Apply) and x.op not in (*_TESTS, "and", "or", "not"))
    return all(-(2**31) <= function_of((x,), tuple("abcdw"))(*env.values())[0] < 2**31 for x in numbers)


@pytest.mark.parametrize("text, value", [
    ("a - b - 1", 4), ("a / b * b", 6), ("-a / b", -3), ("a & 3 == 3", 1), ("a << 1 + b", 56), ("a > b ? a : b", 7),
])  # fmt: skip
def test_the_reader_knows_c(text: str, value: int) -> None:
    assert Reader(text, {"a": 7, "b": 2}).value() == value
