"""`amk check`: descriptor files come in, findings in one of four formats come out, all in one process; --fix repairs.

What is hidden by --select or --ignore is not shown, but is still a fault: it keeps its exit code and never gets a
certificate. (A warning that --strict would count is the exception: hidden, it does not count.)
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from amk.cli.checked import Checked
from amk.cli.inputs import Document, find_files, find_targets, read_document
from amk.cli.output import clean, complain_line, say
from amk.cli.render_report import FORMATS
from amk.dsl.record import replace
from amk.errors import DescriptorError, InputError, Refused
from amk.harness.diagnostics import Diagnostic, Report

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.dsl.target import Target
    from amk.harness.context import ProverChoice

__all__ = ["add_check", "check_documents", "worst"]


def add_check(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk check`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="descriptors, folders of *.amk.json, or - for stdin")
    parser.add_argument("--target", action="append", default=[], help="GPU or architecture; repeatable; or: all")
    parser.add_argument("--format", choices=tuple(FORMATS), default="text")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    parser.add_argument("--select", action="append", default=[], metavar="CODES", help="show only these: AMK3,AMK201")
    parser.add_argument("--ignore", action="append", default=[], metavar="CODES", help="do not show these")
    parser.add_argument("--certify", action="store_true", help="prove bounds by Z3 too, and compare meaning")
    parser.add_argument(
        "--measured", action="store_true", help="compile (no GPU needed) and report what the binary really takes"
    )
    parser.add_argument("--prover", choices=("auto", "z3", "both"), default="auto")
    parser.add_argument("--strict", action="store_true", help="warnings count as findings")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--fix", action="store_true", help="make the safe repairs that help; - goes to standard output")
    change.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    parser.set_defaults(run=run_check)


def run_check(args: Namespace) -> int:
    """Checks every file on every target; the worst exit code."""
    shown = _codes(args.select), _codes(args.ignore)
    targets = find_targets(args.target)
    how = "fix" if args.fix else "diff" if args.diff else ""
    found = list(check_documents(args.files, targets, prover=args.prover, certify=args.certify, repairs=how))
    if args.measured:
        from amk.cli.measure import with_binary

        found = [with_binary(r, targets) for r in found]
    results = [r.filtered(*shown, strict=args.strict) for r in found]
    _show(results, FORMATS[args.format](results), args)
    return worst(r.code for r in results)


def _show(results: Sequence[Checked], said: str, args: Namespace) -> None:
    """The report; on standard error where standard output is for a repaired text or for a diff that can be applied."""
    if args.fix and args.files == ["-"]:
        say(results[0].document.text, end="")
    elif args.diff and args.format == "text":
        say("".join(r.diff for r in results), end="")
    else:
        say(said, end="")
        return
    complain_line(said.removesuffix("\n"))


def worst(codes: Iterator[int] | Sequence[int]) -> int:
    """The code of several results together: 4 > 2 > 1 > 3 > 0."""
    found = set(codes)
    return next((c for c in (4, 2, 1, 3) if c in found), 0)


def _codes(values: Sequence[str]) -> tuple[str, ...]:
    """Codes or their beginnings; one that shows nothing because no rule has it would hide a slip of the pen."""
    found = tuple(code.strip().upper() for value in values for code in value.split(",") if code.strip())
    if not found:
        return ()
    from amk.harness.docs import titles

    for code in found:
        if not code.startswith("AMK"[: len(code)]):
            raise InputError(f"{code[:40]!r} is no rule code", hint="give codes or their beginnings, as AMK3 or AMK301")
        if not any(known.startswith(code) for known in titles()):
            from difflib import get_close_matches

            near = get_close_matches(code, titles(), 1, 0.5)
            hint = f"{near[0]}, or see: amk rules" if near else "amk rules"
            raise InputError(f"no rule has the code {code[:40]!r}", hint=hint)
    return found


def check_documents(
    paths: Sequence[str], targets: Sequence[Target | None], *, prover: str = "auto", certify: bool = False,
    repairs: str = "",
) -> Iterator[Checked]:  # fmt: skip
    """One result for each file and target, in order; a file that does not read is a result too.

    `repairs` is "fix" to make those that help, "diff" to say what they would change.
    """
    if repairs == "fix":
        from amk.cli.fix import refuse_mixture

        refuse_mixture(paths)
    for path in find_files(paths):
        try:
            document = read_document(path)
        except DescriptorError as fault:
            yield _unreadable(Document(path, b""), fault)
            continue
        try:
            kernel = document.kernel
        except DescriptorError as fault:
            yield _unreadable(document, fault)
            continue
        except Exception as fault:  # one file that breaks the reader must not hide what the others have
            yield _our_fault(document, "", fault)
            continue
        if repairs:
            yield from _repaired(document, targets, prover, certify, write=repairs == "fix")
            continue
        for target in targets:
            yield _check_one(document, kernel, target, prover, certify)


def _repaired(
    d: Document, targets: Sequence[Target | None], prover: str, certify: bool, *, write: bool
) -> Iterator[Checked]:
    from amk.cli.fix import repair

    try:
        done = repair(d, targets, cast("ProverChoice", prover), write=write)
    except (DescriptorError, InputError):  # what keeps the file from being checked, a plain check says in its own way
        yield from (_check_one(d, d.kernel, target, prover, certify) for target in targets)
        return
    except Exception as fault:
        yield _our_fault(d, d.kernel.target, fault)
        return
    for n, (target, report) in enumerate(zip(targets, done.reports, strict=True)):
        r = Checked(done.document, report, 2 if done.failed else _code(report), refused=done.failed)
        if certify and not done.failed:
            r = _check_one(done.document, done.document.kernel, target, prover, certify)
        yield replace(r, repairs=done.repairs, diff=done.diff) if n == 0 else r


def _check_one(d: Document, kernel: KernelDescriptor, target: Target | None, prover: str, certify: bool) -> Checked:
    try:
        return _certify(d, kernel, target) if certify else _check(d, kernel, target, prover)
    except DescriptorError as fault:
        return _unreadable(d, fault)
    except InputError as fault:
        return _unreadable(d, DescriptorError(fault.message, pointer="/target", hint=fault.hint))
    except Exception as fault:  # nor one kernel that breaks a rule
        return _our_fault(d, target.name if target else kernel.target, fault)


def _check(d: Document, kernel: KernelDescriptor, target: Target | None, prover: str) -> Checked:
    from amk.harness.check import check

    report = check(kernel, target, prover=cast("ProverChoice", prover))
    return Checked(d, _with_fixes(kernel, report, target), _code(report))


def _with_fixes(kernel: KernelDescriptor, report: Report, target: Target | None) -> Report:
    if not report.diagnostics:
        return report
    from amk.harness.proposed import proposed

    return proposed(kernel, report, target)


def _code(report: Report) -> int:
    """As the report says; but AMK9xx are faults of ours, whatever else was found."""
    return 4 if any(x.code.startswith("AMK9") for x in report.diagnostics) else report.exit_code()


def _certify(d: Document, kernel: KernelDescriptor, target: Target | None) -> Checked:
    from amk import certify

    try:
        certificate = certify(kernel, target)
    except Refused as fault:
        if fault.report is None:
            raise
        report = fault.report
        fixed = _with_fixes(kernel, report, target)
        return Checked(d, fixed, _code(report) or fault.exit_code, refused=fault.message)
    report = _with_fixes(kernel, certificate.report, target)
    return Checked(d, report, _code(report), certificate=certificate.digest, meaning=certificate.meaning)


def _unreadable(d: Document, fault: DescriptorError) -> Checked:
    suffix = f" ({d.path}, line {fault.line}, column {fault.column})"
    message = fault.message.removesuffix(suffix)
    finding = Diagnostic(fault.code, "unusable descriptor", "error", message, fault.pointer, hint=fault.hint)
    place = (fault.line, fault.column) if fault.line else None
    return Checked(d, Report("", "", "", (finding,)), 2, place=place)


def _our_fault(d: Document, target: str, fault: Exception) -> Checked:
    if os.environ.get("AMK_DEBUG") == "1":
        raise fault
    from amk.cli.output import report_fault

    complain_line(f"amk: {clean(d.path, 300)}:")
    report_fault(fault)
    message = f"amk itself failed: {type(fault).__name__}: {clean(str(fault), 300)}"
    finding = Diagnostic("AMK900", "fault of amk", "error", message, hint="send the file that standard error names")
    return Checked(d, Report("", "", target, (finding,)), 4)
