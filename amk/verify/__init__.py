"""The second program: re-checks a certificate with nothing of the engines that made it, but for the IR itself.

In: a certificate file. Out: an Outcome: what was re-proved and how, or what is wrong with it. See docs/soundness.md.
"""
