# SPDX-License-Identifier: Apache-2.0
"""Output of commands: results on stdout, messages on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console

from poetfw.common.errors import InfeasibleError, PoetfwError, cut
from poetfw.common.limits import Deadline

if TYPE_CHECKING:
    from rich.table import Table

    from poetfw.schedule import ScheduleSummary, SearchProgress, Tell

_WIDEST = 10_000  # width of tables in files and pipes
_LEAST_TEXT, _LEAST_NAME = 8, 20  # smallest width of a folding column, and of the first one
_BORDER = 3  # characters of border per column; a table has one more
_NUMBER = re.compile(r"-|\d[\d,.e+-]*%?( \S+)?")

results = Console(width=None if sys.stdout.isatty() else _WIDEST, soft_wrap=True, highlight=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False)

began = False
"""True once a command has reported its first activity: it must then end cleanly."""


def print_json(document: Mapping[str, Any]) -> None:
    """Print the JSON document of a command to stdout."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def print_json_error(message: str, exit_code: int) -> None:
    """Print an error without details as the JSON document of a command."""
    error = {"message": cut(message), "exit_code": exit_code, "try_next": [], "said": []}
    print_json({"error": error})


def print_error(error: PoetfwError, as_json: bool) -> None:
    """Print an error with its hints."""
    if as_json:
        document: dict[str, Any] = {
            "message": error.message,
            "exit_code": error.exit_code,
            "try_next": list(error.try_next),
            "said": list(error.said),
        }
        if isinstance(error, InfeasibleError):
            document["minimum_budget_bytes"] = error.minimum_budget_bytes
        print_json({"error": document})
    messages.print(f"[bold red]error:[/] {escaped(error.message)}{':' if error.said else ''}")
    for line in error.said:
        messages.print(f"    {escaped(line)}")
    if error.try_next:
        messages.print("Things to try:")
        for hint in error.try_next:
            messages.print(f"  • {escaped(hint)}")


def warn(message: str) -> None:
    """Print a warning."""
    messages.print(f"[bold yellow]warning:[/] {escaped(message)}")


def escaped(text: str) -> str:
    """Escape text for rich: markup is disabled and control characters are made visible."""
    visible = "".join(c if c.isprintable() else _visible(c) for c in cut(text))
    return visible.replace("[", r"\[")


def _visible(character: str) -> str:
    return "\\n" if character == "\n" else f"\\x{ord(character):02x}"


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    spare: Sequence[str] = (),
    width: int | None = None,
) -> Table:
    """Table that is never truncated: text folds, numbers are right-aligned.

    Args:
        title: heading.
        columns: column names.
        rows: cells of each row.
        spare: columns to leave out if space is short, in this order.
        width: width in characters; None for the terminal's.
    """
    from rich.table import Table

    room = (results.width if width is None else width) - 1
    cells = {i: [row[i] for row in rows] for i in range(len(columns))}
    numeric = {i for i in cells if rows and all(map(_NUMBER.fullmatch, cells[i]))}
    widths = {i: max(map(cell_len, [columns[i], *cells[i]])) for i in cells}
    least = {
        i: width if i in numeric else min(width, _LEAST_TEXT if i else _LEAST_NAME)
        for i, width in widths.items()
    }
    for i in map(columns.index, spare):
        if sum(least.values()) + _BORDER * len(least) > room:
            del least[i], widths[i]
    while sum(widths.values()) + _BORDER * len(widths) > room and max(widths.values()) > 1:
        narrowed = [i for i in widths if widths[i] > least[i]] or widths
        widths[max(narrowed, key=lambda i: widths[i])] -= 1
    result = Table(title=escaped(title), title_justify="left", header_style="bold")
    for i, width in widths.items():
        justify: Literal["left", "right"] = "right" if i in numeric else "left"
        result.add_column(columns[i], justify=justify, overflow="fold", width=width)
    for row in rows:
        result.add_row(*(escaped(row[i]) for i in widths))
    if gone := [name for i, name in enumerate(columns) if i not in widths]:
        result.caption = f"no room for {', '.join(gone)}: write to a pipe or file to see all"
        result.caption_justify = "left"
    return result


class Detail(NamedTuple):
    """Row of `facts` that only `--verbose` shows."""

    name: str
    value: str


def details(rows: Iterable[tuple[str, str]]) -> list[Detail]:
    """Mark rows as details, which only `--verbose` shows."""
    return [Detail(*row) for row in rows]


def facts(title: str, rows: Sequence[tuple[str, str]], *, verbose: bool = True) -> Table:
    """Table of name and value pairs.

    Args:
        title: heading.
        rows: the pairs.
        verbose: True to show details; False to show only their number.
    """
    from rich.table import Table

    result = Table(title=escaped(title), title_justify="left", show_header=False)
    for row in rows:
        if verbose or not isinstance(row, Detail):
            result.add_row(*map(escaped, row))
    hidden = len(rows) - len(result.rows)
    if hidden:
        result.caption, result.caption_justify = f"{hidden} more rows: --verbose", "left"
    for column in result.columns:
        column.overflow = "fold"
    return result


@contextmanager
def spinner() -> Iterator[Any]:
    """Line with the current activity; yields a function that changes its text."""
    global began
    began = True
    if not messages.is_terminal:
        yield lambda text: messages.print(f"{escaped(text)} …")
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", visible=False)
        yield lambda text: progress.update(task, description=escaped(text), visible=True)


def search_log(update: Callable[[str], None], end: Deadline) -> Tell:
    """Callback that prints each better plan of a search and updates the current activity.

    Args:
        update: function that changes the activity's text, as yielded by `spinner`.
        end: deadline of the command, which knows the elapsed time.
    """
    best_j = math.inf
    phase = ""

    def report(progress: SearchProgress) -> None:
        nonlocal best_j, phase
        known = "no plan yet"
        if progress.energy_j < math.inf:
            known = f"{progress.energy_j:.6g} J, gap {progress.gap:.3%}"
        if progress.bound_j < math.inf:
            known += f", bound {progress.bound_j:.6g} J"
        text = f"{progress.phase}: {known}"
        if progress.energy_j < best_j:
            messages.print(f"{end.elapsed_s:7.1f} s  {escaped(text)}")
        if progress.phase != phase or messages.is_terminal:
            update(text)
        best_j, phase = progress.energy_j, progress.phase

    return report


@contextmanager
def progress_bar() -> Iterator[Any]:
    """Progress bar; yields the function `update(done, total, text)`."""
    global began
    began = True
    if not messages.is_terminal:
        shown, said = 0, ""

        def log(done: int, total: int, text: str) -> None:
            nonlocal shown, said
            if text != said or done in (0, total) or done >= shown + max(1, total // 10):
                shown, said = done, text
                messages.print(f"{escaped(text)}  {done}/{total}")

        yield log
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("", total=None, visible=False)

        def update(done: int, total: int, text: str) -> None:
            progress.update(
                task, completed=done, total=total, description=escaped(text), visible=True
            )

        yield update


def gap_or_none(gap: float | None) -> str:
    """A gap in percent, or the reason why it is not known."""
    return "not known: no bound covers this plan" if gap is None else f"{gap:.3%}"


def proven_rows(schedule: ScheduleSummary) -> list[tuple[str, str]]:
    """Rows of `facts` on a schedule's quality: status, overhead and proven gap."""
    status = str(schedule.status)
    covers = None if schedule.bound_covers is None else schedule.bound_covers.in_words
    if status == "optimal" and covers is not None and schedule.gap is not None:
        gap = f"{schedule.gap:.4%}"
        within = "" if gap == f"{0:.4%}" else f" to within {gap}"
        status += f"{within} among {covers}"
    elif schedule.bound_j is not None and schedule.bound_j >= schedule.energy_j:
        if schedule.gap is None:
            status += f": better than all {covers}; not proven among all orders"
        else:
            status += f": at least as good as the best of {covers}"
    rows: list[tuple[str, str]] = [("status", status)]
    if schedule.overhead is not None:
        rows.append(("overhead", f"{schedule.overhead:.4%} of the energy of keeping everything"))
    if schedule.gap is None:
        return [*rows, ("gap", gap_or_none(None))]
    share = f"at most {schedule.gap:.4%} of the energy"
    if schedule.overhead_gap is not None:
        share += f", {schedule.overhead_gap:.2%} of the overhead"
    is_optimal = status.startswith("optimal")
    gap_rows = [("gap", share), ("… to the best of", str(covers))]
    return [*rows, *(details(gap_rows) if is_optimal else gap_rows)]


def spent_rows(deadline: Deadline) -> list[tuple[str, str]]:
    """Rows of `facts` with the time of a command and its phases, and a note if a limit ended it."""
    timing = deadline.timing()
    rows: list[tuple[str, str]] = [
        Detail("time", f"{timing.seconds:.2f} s"),
        *(
            Detail(f"… of it {s.phase}", f"{s.seconds:.2f} s, {s.work:.2f} units of work")
            for s in timing.phases
            if s.work >= 0.005 or s.seconds >= 0.005
        ),
    ]
    if deadline.decided:
        rows.append(
            (
                "note",
                f"the time limit of {deadline.time_limit_s:g} s ended the search: another run may "
                "give another plan; raise --time-limit",
            )
        )
    return rows


def spent_json(deadline: Deadline) -> dict[str, Any]:
    """JSON keys for the same; only `timing` differs between runs."""
    return {"time_limited": deadline.decided, "timing": asdict(deadline.timing())}


def size(size_bytes: int) -> str:
    """Exact byte count for people."""
    return f"{size_bytes:,} B"


def flush() -> None:
    """Flush both output streams before the process ends."""
    sys.stdout.flush()
    sys.stderr.flush()
