"""Mutations of what orders asynchronous work: mbarriers, named barriers, tensor maps, roles and matrix rows."""

from __future__ import annotations

from random import Random

from amk.dsl.expr import Apply, Const
from amk.dsl.text import parse
from amk.harness.mutation_data import Data, Draw, statements

__all__ = ["ASYNCHRONOUS"]


def _parity(rng: Random, data: Data) -> str:
    """A wait for the other phase, or for the same one again and again."""
    found = [(p, body[i]) for p, body, i in statements(data, "wait") if "barrier" in body[i]]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    old = s["parity"]
    s["parity"] = rng.choice((f"1 - ({old})", "0", "1"))
    return f"{old} to {s['parity']} at {pointer}"


def _expected(rng: Random, data: Data) -> str:
    """Bytes that an arrival expects."""
    found = [(p, body[i]) for p, body, i in statements(data, "arrive")]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    old = s.get("bytes")
    if old is None or rng.random() < 0.2:
        s["bytes"] = None if old else "16"
    else:
        s["bytes"] = str(Apply(rng.choice("+-"), (parse(old), Const(rng.choice((1, 16, 64))))))
    return f"{old} to {s['bytes']} at {pointer}"


def _mbarrier(rng: Random, data: Data) -> str:
    """The arrivals of a phase, or the slots."""
    if not data.get("barriers"):
        return ""
    b, field = rng.choice(data["barriers"]), rng.choice(("count", "count", "slots"))
    old = b.get(field, 1)
    b[field] = old + rng.choice((-1, 1))
    return f"{field} of {b['name']}, {old} to {b[field]}"


def _other(rng: Random, data: Data) -> str:
    """An arrival, a wait or a copy at another mbarrier."""
    names = [b["name"] for b in data.get("barriers", ())]
    found = [(p, body[i], "barrier") for p, body, i in statements(data, "arrive", "wait") if "barrier" in body[i]]
    calls = [(p, body[i].get("refs", {})) for p, body, i in statements(data, "call")]
    found += [(p, refs, "bar") for p, refs in calls if "bar" in refs]
    if len(names) < 2 or not found:
        return ""
    pointer, box, key = rng.choice(found)
    old = box[key]
    name = old.partition("[")[0]
    box[key] = rng.choice([n for n in names if n != name]) + old[len(name) :]
    return f"{old} to {box[key]} at {pointer}"


def _named(rng: Random, data: Data) -> str:
    """The number, the threads or the half of a named barrier."""
    found = [(p, body[i]) for p, body, i in statements(data, "sync") if body[i].get("scope") == "named"]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    field = rng.choice(("id", "threads", "part"))
    old = s.get(field, 0)
    if field == "part":
        s[field] = "both" if old == "arrive" else "arrive"
    else:
        s[field] = old + (rng.choice((-2, -1, 1, 2)) if field == "id" else rng.choice((-32, 32)))
    return f"{field} {old} to {s[field]} at {pointer}"


def _fence(rng: Random, data: Data) -> str:
    """Another fence."""
    found = [(p, body[i]) for p, body, i in statements(data, "fence")]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    old = s["what"]
    s["what"] = rng.choice([w for w in ("async", "mbarrier_init", "wgmma") if w != old])
    return f"{old} to {s['what']} at {pointer}"


def _handover(rng: Random, data: Data) -> str:
    """The order of an access that hands something over, what a flag has to reach, or how blocks are started."""
    found = [(p, body[i]) for p, body, i in statements(data, "load", "store", "atomic") if "order" in body[i]]
    flags = [(p, body[i]) for p, body, i in statements(data, "wait") if "flag" in body[i]]
    if "dispatch" in data and rng.random() < 0.1:
        old = data["dispatch"]
        data["dispatch"] = rng.choice([d for d in ("any", "in_order", "resident") if d != old])
        return f"dispatch, {old} to {data['dispatch']}"
    if not found and not flags:
        return ""
    pointer, s = rng.choice(found + flags)
    if s["kind"] == "wait":
        old = s["value"]
        s["value"] = str(Apply(rng.choice("+-"), (parse(old), Const(1))))
        return f"value {old} to {s['value']} at {pointer}"
    orders = {"load": ("weak", "acquire"), "store": ("weak", "release"),
              "atomic": ("relaxed", "acquire", "release", "acq_rel")}  # fmt: skip
    old = s["order"]
    s["order"] = rng.choice([o for o in orders[s["kind"]] if o != old])
    return f"order {old} to {s['order']} at {pointer}"


def _bulk(rng: Random, data: Data) -> str:
    """A wait for the bulk queue that waits for the reads alone, or for the whole; or of another queue."""
    found = [(p, body[i]) for p, body, i in statements(data, "wait", "commit") if "barrier" not in body[i]]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    if s["kind"] == "wait" and s.get("queue") == "bulk" and rng.random() < 0.6:
        s["read"] = not s.get("read", False)
        return f"read becomes {s['read']} at {pointer}"
    old = s.get("queue", "cp_async")
    s["queue"] = rng.choice([q for q in ("cp_async", "bulk", "wgmma") if q != old])
    return f"{old} to {s['queue']} at {pointer}"


def _map(rng: Random, data: Data) -> str:
    """The box or the swizzle of a tensor map."""
    if not data.get("maps"):
        return ""
    m = rng.choice(data["maps"])
    if rng.random() < 0.3:
        old = m.get("swizzle", 0)
        m["swizzle"] = rng.choice([x for x in (0, 32, 64, 128) if x != old])
        return f"swizzle of {m['name']}, {old} to {m['swizzle']}"
    i, box = rng.randrange(len(m["box"])), list(m["box"])
    m["box"] = [rng.choice((n // 2, n * 2, n - 8, n + 8)) if j == i else n for j, n in enumerate(box)]
    return f"box of {m['name']}, {box} to {m['box']}"


def _roles(rng: Random, data: Data) -> str:
    """A warp more or less for a role, or two roles the other way round."""
    found = [(p, body[i]) for p, body, i in statements(data, "team")]
    if not found:
        return ""
    pointer, s = rng.choice(found)
    if rng.random() < 0.3 and len(s["roles"]) > 1:
        first, second = s["roles"][:2]
        first["body"], second["body"] = second["body"], first["body"]
        return f"the first two of {pointer} turned"
    role = rng.choice(s["roles"])
    old, side = list(role["warps"]), rng.randrange(2)
    role["warps"] = [n + rng.choice((-1, 1)) if j == side else n for j, n in enumerate(old)]
    return f"warps {old} to {role['warps']} at {pointer}"


def _argument(rng: Random, data: Data) -> str:
    """An argument of an instruction left to its default."""
    found = [(p, body[i], n) for p, body, i in statements(data, "call") for n in body[i].get("args", ())]
    if not found:
        return ""
    pointer, s, name = rng.choice(found)
    return f"{name}={s['args'].pop(name)} at {pointer}"


ASYNCHRONOUS: dict[str, Draw] = {
    "parity": _parity, "expected": _expected, "mbarrier": _mbarrier, "other barrier": _other, "named": _named,
    "fence": _fence, "bulk": _bulk, "map": _map, "roles": _roles, "argument": _argument, "handover": _handover,
}  # fmt: skip
