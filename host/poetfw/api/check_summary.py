# SPDX-License-Identifier: Apache-2.0
"""Summary of a check in Markdown, as a pull request shows it."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.api.checks import Checked, CheckReport, Reasons


def to_markdown(report: CheckReport, most: int = 10) -> str:
    """Summary in Markdown, as for a pull request.

    Args:
        report: the report.
        most: number of parts shown of each figure; the others are added up.
    """
    compared = any(one.base is not None for one in report.figures)
    heads = ["figure", "now", *(["base", "change"] if compared else []), "limit", ""]
    rows = [heads, ["---", *["---:"] * (len(heads) - 2), "---"]]
    for one in report.figures:
        cells = [one.name, amount(one.value, one.unit)]
        if compared:
            cells += [
                "" if one.base is None else amount(one.base, one.unit),
                change_text(one.base, one.value, one.unit),
            ]
        rows.append([*cells, limit_text(one), verdict_text(one)])
    state = "all limits kept" if report.ok else "a limit is not kept"
    if all(one.limit is None for one in report.figures):
        state = "no limits given"
    text = f"### poetfw: {_cell(report.title)}: {state}\n\n{_table(rows)}"
    text += f"\nTime and energy of a training step: {_cell(report.costs)}.\n"
    text += "".join(_part_by_part(one, most) for one in report.reasons)
    return text + "".join(f"\nNot compared: {_cell(one)}.\n" for one in report.missing)


def limit_text(one: Checked) -> str:
    """Limit of a figure; empty without one."""
    if one.limit is None:
        return ""
    return f"{'≥' if one.least else '≤'} {amount(one.limit, one.unit)}"


def verdict_text(one: Checked) -> str:
    """Verdict on a figure; empty without a limit."""
    if one.limit is None:
        return ""
    return "kept" if one.ok else ("MISSED" if one.least else "EXCEEDED")


def _part_by_part(reasons: Reasons, most: int) -> str:
    """Folded table of the parts that differ most."""

    def row(name: str, before: float, after: float) -> list[str]:
        cells = [amount(before, reasons.unit), amount(after, reasons.unit)]
        return [name, *cells, change_text(before, after, reasons.unit)]

    rows = [["part", "base", "now", "change"], ["---", "---:", "---:", "---:"]]
    rows += [row(c.name, c.before, c.after) for c in reasons.changes[:most]]
    others = reasons.changes[most:]
    if others:
        before, after = sum(c.before for c in others), sum(c.after for c in others)
        rows.append(row(f"{len(others)} others", before, after))
    head = f"\n<details><summary>{_cell(reasons.name)}, part by part</summary>\n\n"
    return f"{head}{_table(rows)}\n</details>\n"


def amount(value: float, unit: str) -> str:
    """A value with its unit: bytes exactly, others with six digits."""
    if unit == "B" or (not unit and value == int(value) and value > 1):
        return f"{int(value):,} {unit}".rstrip()
    return f"{value:.6g} {unit}".rstrip()


def change_text(before: float | None, after: float, unit: str) -> str:
    """Difference of two values, and its share of the first; empty if nothing is compared."""
    if before is None:
        return ""
    if before == after:
        return "="
    sign = "+" if after > before else "-"
    share = f" ({after / before - 1:+.1%})" if before else ""
    return f"{sign}{amount(abs(after - before), unit)}{share}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, rule, *body = rows
    lines = [head, rule, *([_cell(cell) for cell in row] for row in body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    """Text in a cell; names come from files, and may hold characters of Markdown or HTML."""
    visible = "".join(c if c.isprintable() else " " for c in text)
    return "".join(f"&#{ord(c)};" if c in "\\|<>`[]&*_" else c for c in visible)
