# SPDX-License-Identifier: Apache-2.0
"""`poetfw check`: limits of a build's figures, and comparison with another build, for CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.settings import Built, Detailed
from poetfw.settings.check import CheckInputs, CheckLimits, CheckOutput

if TYPE_CHECKING:
    from poetfw.api.checks import Checked, CheckReport, Reasons

EXIT_CHECK = 6
_MOST_PARTS = 5


@command("Example:  poetfw check --board nrf52840 --max-ram 200K --against base/build.json")
def check(
    built: Built,
    limits: CheckLimits,
    inputs: CheckInputs,
    files: CheckOutput,
    printed: Detailed,
) -> int:
    """Check a build's figures against limits, and compare it with another build.

    The exit code is 6 if a limit is not kept. Differences alone are no failure.

    With --against, figures that differ are explained part by part, as far as the other build's
    folder has its files: bytes by tensor and function, energy and time by op.

    With --min-accuracy, the build is trained on its twin, unless --accuracy-of names a document of
    a run.
    """
    from poetfw.api.check_summary import to_markdown
    from poetfw.api.checks import check_build, measured_accuracy, read_accuracy
    from poetfw.api.firmware import open_built

    firmware = open_built(built)

    def accuracy() -> float:
        if inputs.accuracy_of is not None:
            return read_accuracy(inputs.accuracy_of)
        with output.progress_bar() as update:
            return measured_accuracy(firmware, update)

    report = check_build(firmware, limits, inputs.against, accuracy)
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    summary = files.summary or (Path(named) if named else None)
    if summary is not None:
        _append(summary, to_markdown(report))
    if printed.as_json:
        output.print_json(report.to_json())
    else:
        _print(report, printed.verbose)
    return 0 if report.ok else EXIT_CHECK


def _append(path: Path, text: str) -> None:
    """Append to a file.

    Raises:
        OutputError: The file cannot be written.
    """
    from poetfw.common.errors import OutputError

    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def _row(one: Checked, compared: bool) -> tuple[str, ...]:
    from poetfw.api.check_summary import amount, change_text, limit_text, verdict_text

    change = (change_text(one.base, one.value, one.unit),) if compared else ()
    return (one.name, amount(one.value, one.unit), *change, limit_text(one), verdict_text(one))


def _print(report: CheckReport, verbose: bool) -> None:
    compared = any(one.base is not None for one in report.figures)
    heads = ("figure", "now", *(("change",) if compared else ()), "limit", "")
    rows = [_row(one, compared) for one in report.figures]
    output.results.print(output.table(report.title, heads, rows))
    for reasons in report.reasons:
        _print_parts(reasons, len(reasons.changes) if verbose else _MOST_PARTS)
    for one in report.missing:
        output.warn(f"not compared: {one}")


def _print_parts(reasons: Reasons, most: int) -> None:
    from poetfw.api.check_summary import amount, change_text

    rows = [
        (
            one.name,
            amount(one.before, reasons.unit),
            amount(one.after, reasons.unit),
            change_text(one.before, one.after, reasons.unit),
        )
        for one in reasons.changes[:most]
    ]
    title = f"{reasons.name}: {len(reasons.changes)} parts differ"
    table = output.table(title, ("part", "base", "now", "change"), rows)
    if len(rows) < len(reasons.changes):
        table.caption = f"{len(reasons.changes) - len(rows)} more: --verbose"
        table.caption_justify = "left"
    output.results.print(table)
