"""`amk verify`: certificate files come in; what was shown again, what was not, or what is wrong with them comes out.

The files are re-checked by `amk.verify`, which shares the IR with the harness and none of its engines.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from amk.cli.check import worst
from amk.cli.inputs import find_targets, read_document, read_kernel
from amk.cli.output import clean, complain_line, paint, report_fault, say, say_json, table
from amk.errors import DescriptorError, InputError
from amk.version import __version__

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.dsl.target import Target
    from amk.verify.outcome import Outcome

__all__ = ["add_verify"]

NAMES = ("certificate.json", ".cert.json")  # of the files that are taken from a folder
SHOWN, MOST_TRUSTED = 12, 60  # findings and claims taken on trust of one certificate in text


def add_verify(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk verify`."""
    parser.add_argument(
        "files", nargs="+", metavar="CERT",
        help="certificates, folders of *.cert.json and certificate.json (as the cache has them), or - for stdin",
    )  # fmt: skip
    parser.add_argument("--kernel", metavar="FILE", help="the descriptor that is meant: no other one's certificate")
    parser.add_argument("--target", metavar="T", help="the GPU, architecture or target file that is meant")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_verify)


def run_verify(args: Namespace) -> int:
    """Re-checks every certificate; the worst exit code."""
    kernel = read_kernel(args.kernel) if args.kernel else None
    target = find_targets([args.target])[0] if args.target else None
    if args.target == "all":
        raise InputError("a certificate is for one target", hint="name it, or leave --target out")
    results: list[tuple[str, dict[str, Any]]] = []
    for path in _find(args.files):
        results.append((path, _one(path, kernel, target)))
        if not args.json:
            say(_text(*results[-1]))
    code = worst([r["exit_code"] for _, r in results])
    if args.json:
        say_json({"amk": __version__, "exit_code": code, "results": [{"file": path, **r} for path, r in results]})
    return code


def _find(paths: Sequence[str]) -> Iterator[str]:
    """Named files as they are; of folders what looks like a certificate, in a fixed order."""
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield path
            continue
        found = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path) for name in names if name.endswith(NAMES)
        )  # fmt: skip
        if not found:
            what = f"{clean(path, 300)} holds no certificate (*.cert.json or certificate.json)"
            raise InputError(what, hint="amk certify FILE -o KERNEL.cert.json")
        yield from found


def _one(path: str, kernel: KernelDescriptor | None, target: Target | None) -> dict[str, Any]:
    """The result for one file; one that does not read is a result too, and so is a fault of ours."""
    from amk.verify.verify import verify

    try:
        document = read_document(path)
        outcome: Outcome = verify(document.data, name=document.path, kernel=kernel, target=target)
    except DescriptorError as fault:
        found = {
            "status": "unusable",
            "where": "",
            "what": fault.message,
            "do": "give a certificate: amk certify FILE -o CERT",
        }
        return {"verdict": "unusable", "exit_code": 2, "findings": [found]}
    except Exception as fault:  # one certificate that breaks this program must not hide what the others have
        if os.environ.get("AMK_DEBUG") == "1":
            raise
        complain_line(f"amk: {clean(path, 300)}:")
        report_fault(fault)
        found = {"status": "failed", "where": "", "what": f"amk itself failed: {type(fault).__name__}", "do": "send it"}
        return {"verdict": "failed", "exit_code": 4, "findings": [found]}
    return outcome.to_dict()


# ---------------------------------------------------------------------------------------------------------------- text
_COLOUR = {"verified": "green", "refused": "red", "verified in part": "yellow", "unusable": "red", "failed": "red"}


def _text(path: str, result: dict[str, Any]) -> str:
    verdict = result["verdict"]
    kernel = f", {clean(result['kernel'], 80)} on {clean(result['target'], 80)}" if result.get("kernel") else ""
    lines = [f"{clean(path, 300)}: {paint(verdict, _COLOUR[verdict])}{kernel}"]
    for f in result["findings"][:SHOWN]:
        place = clean(f["where"], 200) or "the file"
        lines += [f"  {f['status']} at {place}", f"    {clean(f['what'], 600)}"]
        if f.get("example"):
            lines.append("    with  " + "  ".join(f"{clean(n, 60)}={v}" for n, v in f["example"].items()))
        lines.append(f"    try: {clean(f['do'], 300)}")
    if (more := len(result["findings"]) - SHOWN) > 0:
        lines.append(f"  and {more} more: --json has them")
    rows = [(s["rule"], s["claims"], s["how"], s["sizes"]) for s in result.get("shown", ())]
    if rows:
        lines.append(table(rows, ("rule", "claims", "shown again by", "for"), indent="  "))
    lines += _trusted(result.get("trusted", ()))
    lines += [f"  {clean(n, 400)}" for n in result.get("notes", ())]
    return "\n".join(lines)


def _trusted(claims: Sequence[dict[str, str]]) -> Iterator[str]:
    """What was not shown again, with the reason, which many of them share."""
    for why in dict.fromkeys(c["why"] for c in claims[:MOST_TRUSTED]):
        yield f"  {paint('taken on trust', 'yellow')}: {clean(why, 400)}"
        rows = [(clean(c["rule"], 20), clean(c["claim"], 100)) for c in claims[:MOST_TRUSTED] if c["why"] == why]
        yield table(rows, ("rule", "claim"), indent="    ")
    if (more := len(claims) - MOST_TRUSTED) > 0:
        yield f"  and {more} more: --json has them"
