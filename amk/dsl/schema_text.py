"""What each field of a descriptor means, in a line, with examples: what an editor shows and offers.

In: the name of a kind of node and of its field. Out: a description and example values. `schema` puts them into the JSON
Schema; tests/dsl/test_schema.py holds that no field is without.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FIELDS", "SNIPPETS", "Shown"]

Shown = tuple[str, list[Any]]  # a description, and examples (none where an enumeration says it all)

_AT: Shown = ("Where the author wrote it, as file:line. Shown in findings; no part of the hash.", ["gemm.py:47"])
_EXTENTS = "Elements in each dimension, the last one contiguous."

# By kind, "" being the descriptor itself.
FIELDS: dict[str, dict[str, Shown]] = {
    "": {
        "$schema": ("The address of this schema, for editors; ignored.", ["descriptor.schema.json"]),
        "format": ("The version of this format. Older ones are migrated, newer ones refused.", [1]),
        "name": ("The name of the kernel: a C identifier.", ["vector_add"]),
        "target": ("The architecture that the kernel is made for.", ["sm_80", "sm_90a", "sm_100a"]),
        "threads": ("Threads of a block, a multiple of 32 in most kernels.", [128, 256]),
        "dispatch": ("What blocks may rely on: that bx counts their starts, that all run at once, or nothing.", []),
        "cluster": ("Blocks of a thread block cluster, 1 for none.", [1, 2]),
        "min_blocks": ("Blocks that are to fit on an SM at once: a promise to the compiler about registers.", [1, 2]),
        "spill_bytes": ("Bytes of registers that a thread may spill to local memory.", [0]),
        "grid": ("Blocks in x, y and z, as expressions of sizes.", [["cdiv(n, 256)"], ["cdiv(N, 64)", "cdiv(M, 64)"]]),
        "params": ("Arguments, in the order of a call: sizes and other scalars, then tensors.", []),
        "maps": ("TMA views of tensors.", []),
        "buffers": ("Arrays in shared memory and in registers.", []),
        "barriers": ("Arrays of mbarriers in shared memory.", []),
        "body": ("What each thread does, in order.", []),
        "suppress": ("Warnings that the author means. No error is ever suppressed; no part of the hash.", []),
        "origin": ("Where the kernel comes from: agent, operator, schedule and reasons. No part of the hash.", []),
    },
    "Param": {
        "name": ("The name of the argument.", ["n", "x"]),
        "dtype": ("The type of the scalar, or of an element of the tensor.", []),
        "min": ("The smallest value of a scalar; the launcher checks it.", [1]),
        "max": ("The largest value of a scalar; the proof holds up to it, and the launcher checks it.", [2147418112]),
        "multiple_of": ("What divides the scalar; the launcher checks it.", [1, 8]),
        "shape": ("Extents of a tensor, as expressions of sizes; a scalar has none.", [["n"], ["M", "K"]]),
        "strides": ("Elements from one index to the next in each dimension; row-major without it.", [["K", "1"]]),
        "access": ("What is done with it; add: atomic sums into zeroes; workspace: what blocks tell each other.", []),
        "align": ("Bytes that divide the address of the first element; the launcher checks it.", []),
        "offsets": ("The integer in which element offsets are computed; i32 has to be proved sufficient.", []),
    },
    "TensorMap": {
        "name": ("The name of the view.", ["A_map"]),
        "tensor": ("The tensor that it views.", ["A"]),
        "box": ("Elements of one copy in each dimension of the tensor.", [[64, 64]]),
        "swizzle": ("Bytes over which the box is swizzled in shared memory, 0 for none.", []),
        "fill": ("What is read outside of the tensor.", []),
    },
    "Buffer": {
        "name": ("The name of the array.", ["tile", "acc"]),
        "space": ("Shared by the block, or private to a thread.", []),
        "dtype": ("The type of an element.", []),
        "shape": (_EXTENTS, [[128], [2, 128, 32]]),
        "layout": ("How an index becomes an offset; row-major without it.", [{"kind": "padded", "pad": 1}]),
        "align": ("Bytes that divide the address of a shared array.", []),
    },
    "Barrier": {
        "name": ("The name of the array of mbarriers.", ["full"]),
        "slots": ("How many mbarriers.", [2, 4]),
        "count": ("Arrivals that complete a phase of one.", [1, 128]),
    },
    "Strided": {"strides": ("Elements from one index to the next, one a dimension.", [[33, 1]])},
    "Padded": {"pad": ("Unused elements behind each row of the last dimension.", [1, 4])},
    "Swizzle": {
        "bits": ("How many bits of the offset are mixed in.", [3]),
        "base": ("Groups of 2**base elements stay together.", [3]),
        "shift": ("How far above `base` the bits stand that are mixed in; at least `bits`.", [3]),
    },
    "Let": {
        "name": ("The name of the value.", ["i", "row"]),
        "dtype": ("The type of the value.", []),
        "value": ("The value: a pure expression.", ["bx*256 + t"]),
        "view": ("Instead of a value: an operand whose address gets the name; `v[i]` is then the operand moved by i.",
                 ["A[row, 0]"]),
        "uniform": ("The value is the same in all lanes of a warp, and is kept in uniform registers.", []),
    },
    "Load": {
        "dst": ("The first of the registers that are filled.", ["a[0]"]),
        "src": ("The first element that is read, in global or shared memory.", ["x[i]", "tile[ty, tx]"]),
        "width": ("Elements along the last dimension, at most 16 bytes.", []),
        "when": ("Where this does not hold, nothing is read and `other` is taken.", ["i < n"]),
        "other": ("The value where `when` does not hold.", ["0.0"]),
        "peer": ("The rank of the block of the cluster whose shared memory is read.", ["rank ^ 1"]),
        "order": ("acquire: the element is a flag, and what was released with its value is seen after it.", []),
    },
    "Store": {
        "dst": ("The first element that is written, in memory or in registers.", ["z[i]", "acc[0]"]),
        "values": ("The values, one an element along the last dimension: 1, 2, 4, 8 or 16.", [["a[0] + a[1]"]]),
        "peer": ("The rank of the block of the cluster whose shared memory is written.", ["rank ^ 1"]),
        "order": ("release: the element is a flag, and hands over what its thread knows.", []),
    },
    "Atomic": {
        "op": ("What is done with the old value and the new one.", []),
        "dst": ("The element that is updated, in global or shared memory.", ["sums[bx]"]),
        "value": ("The new value.", ["a[0]"]),
        "old": ("The register that gets the value from before.", ["old[0]"]),
        "order": ("What it hands over (release) and takes (acquire).", []),
        "scope": ("The threads among which it is indivisible.", []),
    },
    "Call": {
        "row": ("The instruction, a row of the table.", []),
        "refs": ("Its operands, by role.", [{"dst": "s[t*4]", "src": "x[t*4]"}]),
        "args": ("Its arguments, by name.", [{"when": "i < n"}]),
    },
    "Carry": {
        "name": ("The name of the value in the loop, and behind it.", ["sum"]),
        "dtype": ("The type of the value.", []),
        "init": ("The value in the first iteration.", ["0"]),
        "next": ("The value in the next iteration; all of a loop are evaluated at once.", ["slot + 1"]),
    },
    "For": {
        "var": ("The loop variable, an i32.", ["k0"]),
        "lo": ("Its first value.", ["0"]),
        "hi": ("The first value that it does not take.", ["cdiv(K, 32)"]),
        "step": ("What is added each time; positive.", ["1", "128"]),
        "unroll": ("Copies of the body in a row: 1 keeps the loop, full leaves none.", ["full", 4]),
        "carry": ("Values carried from one iteration to the next, and visible behind the loop.", []),
        "until": ("Ends the loop early where it holds.", ["done"]),
        "body": ("What is done in each iteration.", []),
    },
    "If": {
        "cond": ("The threads that do it.", ["i < n", "row < M and col < N"]),
        "body": ("What these threads do.", []),
    },
    "Role": {
        "warps": ("The first warp, and the first one behind the last.", [[0, 4]]),
        "registers": ("Registers that a thread of the role may hold (setmaxnreg).", [40, 232]),
        "body": ("What the warps of the role do.", []),
    },
    "Team": {"roles": ("What each range of warps does; every warp has one role.", [])},
    "Sync": {
        "scope": ("Who waits for each other.", []),
        "part": ("Both halves of the barrier, or one.", []),
        "id": ("The number of a named barrier.", [1]),
        "threads": ("Threads that a named barrier waits for, whole warps of them.", [128, 256]),
        "relaxed": ("Orders execution alone, not memory.", []),
    },
    "Fence": {"what": ("What is ordered: proxies, initialised mbarriers, or registers before wgmma.", [])},
    "Commit": {"queue": ("The queue of asynchronous work whose open group is closed.", [])},
    "Arrive": {
        "barrier": ("The mbarrier.", ["full[slot]"]),
        "bytes": ("Bytes more that the phase waits for.", ["16384"]),
        "peer": ("The rank of the block of the cluster whose mbarrier it is; its own without it.", ["0"]),
    },
    "Wait": {
        "queue": ("The queue whose groups are waited for.", []),
        "pending": ("The newest groups that may still be unfinished.", [0, 1]),
        "read": ("Of the bulk queue: only until the sources have been read.", []),
        "barrier": ("Instead of a queue: the mbarrier whose phase is waited for.", ["full[slot]"]),
        "parity": ("The parity of that phase.", ["parity"]),
        "flag": ("Instead of a queue: the flag that is waited for.", ["ready[bx - 1]"]),
        "value": ("What the flag has at least after the wait.", ["1"]),
    },
    "Assume": {"fact": ("What the launcher checks first, and the certificate lists.", ["M * N < 2147483648"])},
    "Suppression": {
        "code": ("The rule whose warning is meant.", ["AMK501", "AMK502"]),
        "reason": ("Why it is meant, for whoever reads this next.", ["the column is read once, and the tile is small"]),
        "pointer": ("The statement or declaration that it is about, with all below; without it, the whole kernel.",
                    ["/body/3", "/buffers/0"]),
    },
    "Origin": {
        "agent": ("Who proposed the schedule.", ["rules 1"]),
        "operator": ("The operator whose meaning `certify` compares the kernel with.", ["gemm"]),
        "problem": ("The operator's problem: sizes, types, layouts.", []),
        "schedule": ("The tuning choices.", []),
        "reasons": ("Why each choice was made.", [{"threads": "four warps hide the latency of a load"}]),
    },
}  # fmt: skip
_STATEMENTS = "Let Load Store Atomic Call For If Team Sync Fence Commit Arrive Wait Assume"
FIELDS |= {name: {**FIELDS[name], "at": _AT} for name in _STATEMENTS.split()}

# What an editor offers in an empty place, `$1` being the first thing to fill in (VS Code's defaultSnippets).
SNIPPETS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "Statement": [
        ("let: a named value", {"kind": "let", "name": "$1", "value": "$2"}),
        ("load: memory to registers", {"kind": "load", "dst": "$1", "src": "$2"}),
        ("load with a guard", {"kind": "load", "dst": "$1", "src": "$2", "when": "$3", "other": "0.0"}),
        ("store: a value to memory or a register", {"kind": "store", "dst": "$1", "values": ["$2"]}),
        ("if: some of the threads", {"kind": "if", "cond": "$1", "body": []}),
        ("for: a loop", {"kind": "for", "var": "$1", "hi": "$2", "body": []}),
        ("sync: a block barrier", {"kind": "sync"}),
        ("call: an instruction", {"kind": "call", "row": "$1", "refs": {}}),
    ],
    "Param": [
        ("a size", {"kind": "param", "name": "$1", "dtype": "i32", "min": 1, "max": 2147418112}),
        ("a tensor", {"kind": "param", "name": "$1", "dtype": "f32", "shape": ["$2"]}),
    ],
    "Buffer": [
        ("a shared array", {"kind": "buffer", "name": "$1", "space": "shared", "dtype": "f32", "shape": [128]}),
        ("registers", {"kind": "buffer", "name": "$1", "space": "register", "dtype": "f32", "shape": [1]}),
    ],
    "Suppression": [("a warning that is meant", {"code": "$1", "reason": "$2"})],
}  # fmt: skip
