"""Mutations of declarations: grid, threads, shapes, layouts, types, alignment, access and domains."""

from __future__ import annotations

from random import Random

from amk.dsl.expr import Apply, Const
from amk.dsl.text import parse
from amk.harness.mutation_data import Data, Draw, statements

__all__ = ["DECLARATIONS"]


def _grid(rng: Random, data: Data) -> str:
    if len(data["grid"]) > 1 and rng.random() < 0.2:
        data["grid"][:2] = data["grid"][1::-1]
        return f"{' x '.join(data['grid'])}, turned"
    i, op, by = rng.randrange(len(data["grid"])), *rng.choice((("-", 1), ("+", 1), ("*", 2), ("//", 2), ("-", 2)))
    old = parse(data["grid"][i])
    data["grid"][i] = str(Apply(op, (old, Const(by))))
    return f"{old} to {data['grid'][i]}"


def _threads(rng: Random, data: Data) -> str:
    old = data["threads"]
    data["threads"] = rng.choice((old // 2, old * 2, old - 32, old + 32, old - 1, old + 1))
    return f"{old} to {data['threads']}"


def _access(rng: Random, data: Data) -> str:
    """What a kernel says that it does with a tensor."""
    p = rng.choice([p for p in data["params"] if p.get("shape")])
    old = p.get("access", "read")
    p["access"] = rng.choice([a for a in ("read", "write", "readwrite", "add") if a != old])
    return f"{p['name']}, {old} to {p['access']}"


def _dtype(rng: Random, data: Data) -> str:
    """The type of a tensor, an array or a named value."""
    lets = [body[i] for _, body, i in statements(data, "let") if "view" not in body[i]]
    d = rng.choice([*data.get("params", ()), *data.get("buffers", ()), *lets])
    old = d.get("dtype", "i32")
    d["dtype"] = rng.choice([x for x in ("f32", "f64", "i32", "i64", "u8", "bf16") if x != old])
    return f"{d['name']}, {old} to {d['dtype']}"


def _domain(rng: Random, data: Data) -> str:
    """The smallest or the largest value of a size."""
    found = [p for p in data.get("params", ()) if not p.get("shape") and p["dtype"] in ("i32", "i64")]
    if not found:
        return ""
    p, field = rng.choice(found), rng.choice(("min", "max"))
    old = p.get(field)
    p[field] = rng.choice((-1, 2)) if field == "min" else rng.choice((1, 2**31 - 1, (old or 4) * 2, (old or 4) // 2))
    return f"{field} of {p['name']}, {old} to {p[field]}"


def _shape(rng: Random, data: Data) -> str:
    if not data.get("buffers"):
        return ""
    b = rng.choice(data["buffers"])
    i, delta = rng.randrange(len(b["shape"])), rng.choice((-1, -1, 1))
    old = list(b["shape"])
    b["shape"] = [n + delta if j == i else n for j, n in enumerate(old)]
    return f"{b['name']}{old} to {b['shape']}"


def _layout(rng: Random, data: Data) -> str:
    shared = [b for b in data.get("buffers", ()) if b["space"] == "shared"]
    if not shared:
        return ""
    b = rng.choice(shared)
    old = dict(b["layout"]) if b.get("layout") else None
    choices: list[Data | None] = [None, {"kind": "padded", "pad": rng.choice((1, 2, 4))}]
    choices.append({"kind": "swizzle", "bits": rng.choice((1, 2)), "base": rng.choice((0, 1, 2)), "shift": 3})
    if old:
        choices += [{**old, n: v + d} for n, v in old.items() if type(v) is int for d in (-1, 1)]
    b["layout"] = rng.choice(choices)
    return f"{b['name']}: {old} to {b['layout']}"


def _weaken(rng: Random, data: Data) -> str:
    """A promise about an argument that no longer holds."""
    declared = (*data.get("params", ()), *data.get("buffers", ()))
    found = [(p, n) for p in declared for n in ("multiple_of", "align") if p.get(n, 1) > 1]
    if not found:
        return ""
    p, n = rng.choice(found)
    old = p[n]
    p[n] = rng.choice((1, max(1, old // 2)))
    return f"{n} of {p['name']}, {old} to {p[n]}"


DECLARATIONS: dict[str, Draw] = {
    "grid": _grid, "threads": _threads, "shape": _shape, "layout": _layout, "access": _access, "dtype": _dtype,
    "domain": _domain, "weaken": _weaken,
}  # fmt: skip
