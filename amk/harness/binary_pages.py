"""The manual of what is found in a compiled binary: codes without a rule over descriptors (`amk check --measured`)."""

from __future__ import annotations

from inspect import cleandoc

__all__ = ["PAGES", "WARNINGS"]

WARNINGS = frozenset(("AMK111", "AMK113", "AMK114", "AMK115"))
_TEXTS = {
    "AMK110": (
        "binary refused",
        """The compiler makes no binary, or one that breaks what the certificate assumed.

        Why:    a certificate counts on registers, spills, shared memory and threads of the launch; a binary with others
                does not launch, or is not the kernel that was meant.
        Proof:  none: `--measured`, `amk compile` and `amk run` read the numbers back from the cubin and the log.
        Good:   smaller tiles, fewer stages or fewer threads; the message has both numbers.
        """,
    ),
    "AMK111": (
        "spills or stack",
        """Values of a thread lie in local memory: spilled within `spill_bytes`, or in an array indexed at run time.

        Why:    local memory is memory; each such access goes through the caches.
        Proof:  none: `--measured` reads it from the log and the cubin. Spills beyond what is allowed are AMK110.
        Good:   register arrays indexed by constants and by variables of unrolled loops, and registers left free.
        """,
    ),
    "AMK112": (
        "register budgets ignored",
        """The compiler left out `setmaxnreg`: every role has the registers of the launch (ptxas C7508).

        Why:    budgets that were proved to fit (AMK108) are not in force. A kernel that has budgets is refused.
        Proof:  none: `--measured` reads it from the compiler's log.
        Good:   a launch bound with a minimum of blocks, from which the registers at entry follow.
        """,
    ),
    "AMK113": (
        "tensor cores wait",
        """The compiler makes every wgmma wait for the one before (ptxas C7510, C7511, C7514, C7515).

        Why:    what should overlap runs one after the other; the result is right.
        Proof:  none: `--measured` reads it from the compiler's log, which names the reason.
        Good:   accumulators that nothing touches between the first wgmma and its wait, and registers for them.
        """,
    ),
    "AMK114": (
        "order put in by the compiler",
        """The compiler put in a wait for wgmma, or a fence before it, that the text does not have there (C7517, C7519).

        Why:    it costs time where it stands, and the compiler sees another order than the one that was proved.
        Proof:  none: `--measured` reads it from the compiler's log.
        Good:   a wait before accumulators are read, a fence before they are written again.
        """,
    ),
    "AMK115": (
        "more registers than estimated",
        """The binary takes more registers than the certificate counted on.

        Why:    blocks that were promised on an SM may not fit, which is slower, not wrong.
        Proof:  none: `--measured` compares the cubin with the estimate and its margin.
        Good:   `min_blocks`, which holds the compiler to a number of blocks.
        """,
    ),
}
PAGES = {code: (title, cleandoc(text)) for code, (title, text) in _TEXTS.items()}
