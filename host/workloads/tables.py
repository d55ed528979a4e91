# SPDX-License-Identifier: Apache-2.0
"""Markdown tables of measured data, and their places on pages and in pictures."""

from __future__ import annotations

import statistics
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

Data = Mapping[str, Any]
"""A value of a JSON document."""


def table(columns: str, rows: Iterable[Sequence[str]], words: int = 1) -> list[str]:
    """A table; its columns are given as `a | b | c`, the first `words` of them are not numbers."""
    titles = [title.strip() for title in columns.split("|")]
    ends = "|".join("---" if at < words else "--:" for at in range(len(titles)))
    return [_line(titles), f"|{ends}|", *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def demo(data: Data) -> list[str]:
    """Arena bytes of each step of memory planning."""
    (_, first, _), *_ = data["stages"]
    rows = [
        (name, f"{arena:,}", f"{arena - peak:,}", f"{arena / first:.1%}")
        for name, arena, peak in data["stages"]
    ]
    return table(" | arena bytes | over the peak | of the first", rows)


def settings(data: Data) -> list[str]:
    """Every setting, with the commands that have it."""
    rows = []
    for row in data["settings"]:
        key = f"{row['table']}.{row['key']}" if row["table"] else row["key"]
        what = row["what"].replace("|", "\\|")
        rows.append((f"`{key}`", f"`{row['variable']}`", ", ".join(row["commands"]), what))
    return table("setting | variable | commands | what it is", rows, words=4)


def held(data: Data) -> list[str]:
    """The training steps of large networks."""
    rows = []
    for row in data["held"]:
        largest = row["largest"]
        shape = "\N{MULTIPLICATION SIGN}".join(str(side) for side in largest["shape"] if side > 1)
        share = f"{largest['bytes'] / row['peak_bytes']:.0%}"
        rows.append(
            (
                f"`{row['model']}`",
                f"{row['ops']:,}",
                f"{row['forward_macs'] / 1e6:,.0f} / {row['backward_macs'] / 1e6:,.0f}",
                f"{row['peak_bytes']:,} B",
                f"{largest['bytes']:,} B ({share}): {largest['role']}, {shape}",
            )
        )
    return table("model | ops | forward / backward and update MMAC | peak | largest tensor", rows)


def stored(data: Data) -> list[str]:
    """Peaks and smallest budgets with gradients stored, and without."""

    def smallest(step: Data) -> str:
        return f"{step['smallest_bytes']:,} B ({step['smallest_bytes'] / step['peak_bytes']:.1%})"

    rows = [
        (
            f"`{row['model']}`",
            f"{row['stored']['peak_bytes']:,} B",
            f"{row['fused']['peak_bytes']:,} B",
            smallest(row["stored"]),
            smallest(row["fused"]),
        )
        for row in data["stored"]
    ]
    columns = "model | peak, stored | peak | smallest budget, stored | smallest budget"
    return table(columns, rows)


def activations(data: Data) -> list[str]:
    """RAM beside resident bytes, and energy, by the form of activations that wait."""
    rows, floats = [], data["activations"][0]
    for row in data["activations"]:
        floats = row if row["form"] is None else floats
        rows.append(
            (
                f"`{row['model']}`, batch {row['batch']}",
                row["form"] or "float32",
                *(
                    f"{row[key]:,} B ({row[key] / floats[key]:.0%})"
                    for key in ("peak_bytes", "without_storage_bytes", "smallest_bytes")
                ),
                f"{row['energy_j'] / floats['energy_j'] - 1:+.1%}",
            )
        )
    return table(
        "network | stored as | keeping everything | smallest, recomputing | smallest, paging as "
        "well | energy of keeping everything",
        rows,
        words=2,
    )


def joules(data: Data) -> list[str]:
    """Energy of keeping everything, by board, and POET's."""
    boards = list(data["joules"][0]["boards"])
    rows = [
        (
            f"`{row['model']}`",
            *(_four_digits(row["boards"][board]) for board in boards),
            *(_four_digits(row["published"][core]) for core in ("M0+", "M4F")),
        )
        for row in data["joules"]
    ]
    named = " | ".join(f"`{board}`" for board in boards)
    return table(f" | {named} | POET, M0+ | POET, M4F", rows)


def _four_digits(value: float) -> str:
    digits = max(0, 4 - len(str(int(value)))) if value >= 1 else 4
    return f"{float(f'{value:.4g}'):,.{digits}f}"


def nntrainer(data: Data) -> list[str]:
    """NNTrainer's cases."""
    rows = [
        (
            row["case"],
            f"{row['theoretical_kib']:,}",
            f"{row['peak_bytes'] / 1024:,.0f}",
            f"{row['arena_bytes'] / 1024:,.0f}",
            f"{row['peak_bytes'] / 1024 / row['theoretical_kib']:.1%}",
        )
        for row in data["nntrainer"]
    ]
    return table("case | NNTrainer KiB | ours KiB | arena KiB | ours / theirs", rows)


def olla(data: Data, batch: int) -> list[str]:
    """OLLA's networks and larger ones at one batch."""
    rows = []
    for row in (row for row in data["olla"]["rows"] if row["batch"] == batch):
        reserved, ordered = row["pytorch_reserved_bytes"], row["peak_bytes"]
        names = ("ordering_time_s", "sharing_time_s", "placement_time_s")
        rows.append(
            (
                row["network"],
                f"{row['ops']:,}",
                _mb(row["pytorch_peak_bytes"]),
                _mb(ordered),
                f"{1 - ordered / row['pytorch_peak_bytes']:.1%}",
                _mb(row["shared_peak_bytes"]),
                _mb(reserved),
                _mb(row["arena_bytes"]),
                f"{1 - row['arena_bytes'] / reserved:.1%}",
                f"{1 - row['fused_arena_bytes'] / reserved:.1%}",
                f"{1 - row['kept_bytes'] / reserved:.1%}",
                f"{sum(row[name] for name in names):.1f}",
            )
        )
    columns = (
        "network | ops | PyTorch MB | ordered MB | saved | shared MB | reserved MB | arena MB "
    )
    return table(f"{columns}| total | fused | limit | seconds", rows)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f}"


_MEANS = {
    "mean_ordering_reduction": "saved by ordering alone, mean",
    "mean_pytorch_fragmentation": "fragmentation of PyTorch, mean",
    "mean_fragmentation": "fragmentation of ours, mean",
    "mean_total_reduction": "total, mean",
    "mean_total_reduction_at_measured_fragmentation": (
        "total at OLLA's fragmentation of PyTorch, mean"
    ),
    "mean_total_reduction_from_pytorch_1": "total with gradients kept in PyTorch, mean",
    "mean_total_reduction_fused": "total with fused updates, mean",
    "mean_total_reduction_limit": "limit of the total, mean",
    "median_ordering_time_s": "ordering, median",
    "median_sharing_time_s": "ordering with sharing, median",
    "median_placement_time_s": "placement, median",
    "largest_ordering_gap": "largest gap of an order, without sharing",
    "largest_sharing_gap": "largest gap of an order, with sharing",
}


def olla_means(data: Data) -> list[str]:
    """Means over OLLA's networks, beside OLLA's own, and over all."""

    def shown(name: str, value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:.2f} s" if name.endswith("_s") else f"{value:.1%}"

    summaries = data["olla"]["summaries"]
    rows = []
    for name, label in _MEANS.items():
        cells = [label]
        for summary in summaries:
            cells.append(shown(name, summary["ours"].get(name)))
            if "OLLA" in summary["networks"]:
                cells.append(shown(name, summary["olla"].get(name)))
        rows.append(cells)
    columns = ""
    for summary in summaries:
        if "OLLA" in summary["networks"]:
            columns += f" | batch {summary['batch']} | OLLA"
        else:
            columns += f" | {summary['networks'].removesuffix(' networks')}"
    return table(columns, rows)


def measured(data: Data) -> list[str]:
    """Bytes live at most in PyTorch itself, beside what is calculated."""
    rows = [
        (
            row["network"],
            f"{row['batch']}",
            _mb(row["measured_bytes"]),
            _mb(row["calculated_bytes"]),
            f"{row['measured_bytes'] - row['calculated_bytes']:,}",
        )
        for row in data["measured"]
    ]
    return table("network | batch | measured MB | calculated MB | bytes of difference", rows)


def packings(data: Data) -> list[str]:
    """Packings that have a perfect answer."""
    rows = []
    for kind, group in groupby(data["packings"], key=lambda row: row["kind"]):
        of_kind = list(group)
        over = [row["height_bytes"] / row["lower_bound_bytes"] - 1 for row in of_kind]
        seconds = [row["time_s"] for row in of_kind]
        perfect = f"{sum(share == 0 for share in over)} of {len(of_kind)}"
        times = f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"
        rows.append((kind, perfect, f"{max(over):.2%}", *times))
    columns = "instances | at the bound | over it, at most | median seconds | most seconds"
    return table(columns, rows)


def schedules(data: Data) -> list[str]:
    """Schedules of the literature's networks, with what is proven of them."""
    rows = []
    for row in data["certified"]:
        case = row["case"]
        model = case["model"] + (f", batch {case['batch']}" if case["batch"] > 1 else "")
        model += ", POET's model" if case["model_as"] == "poet" else ""
        deadline = (
            "" if case["deadline"] is None else f"{case['deadline']:g} \N{MULTIPLICATION SIGN}"
        )
        deadline += {None: "", True: ", overlap", False: ""}[case["overlap"]]
        head = (
            model,
            Path(case["board"]).stem,
            deadline,
            f"{row['nodes']}",
            f"{case['fraction']:.0%}",
        )
        gaps = f"{row['gap']:.3%}", f"{row['overhead_gap']:.1%}"
        if row["objective"] < row["bound"]:  # a plan of another order
            gaps = "below the bound", ""
        spent = f"{row['cpu_s']:.0f} s", f"{row['memory_bytes'] / 2**20:.0f} MiB"
        rows.append((*head, f"{row['objective']:.3f}", *gaps, *spent))
    columns = "model | board | deadline | nodes | RAM | energy | gap | gap of the overhead "
    return table(f"{columns}| CPU time | memory", rows, words=3)


def tight(data: Data) -> list[str]:
    """Schedules in little RAM, as multiples of the energy of computing each node once."""
    rows = []
    for row in data["tight"]:
        times, method = (
            "" if row[key] is None else f"{row[key]:.3f}" for key in ("times", "method_times")
        )
        gap = "" if row["gap"] is None else f"{row['gap']:.1%}"
        most = "" if row["most"] is None else f"{row['most']:.2f}"
        head = f"`{row['model']}`, {row['batch']}", row["method"] or ""
        sizes = f"{row['nodes']}", f"{row['ram_bytes']:,} B"
        rows.append((*head, *sizes, method, times, gap, most, f"{row['cpu_s']:.0f} s"))
    columns = "network, batch | best method | nodes | RAM | its energy | energy | gap | at most "
    return table(f"{columns}| CPU time", rows, words=2)


def sparse(data: Data) -> list[str]:
    """The gain of training parts of a network, beside its price."""
    rows = []
    for of_model in data["networks"]:
        every = [row for row in of_model["rows"] if row["way"] != "everything"]
        head = f"`{of_model['model']}`, batch {of_model['batch']}", f"{of_model['seeds']}"
        for way in dict.fromkeys(row["way"] for row in every):
            mine = [row for row in every if row["way"] == way]
            gains = [row["gain_share"] for row in mine]
            shares = (max(row[f"{what}_share"] for row in mine) for what in ("bytes", "energy"))
            name = "the plan" if way == "plan" else f"`{way.replace('+', ',')}`"
            gain = f"{statistics.mean(gains):.1%} ({min(gains):.1%})"
            rows.append((*head, name, *(f"{share:.1%}" for share in shares), gain))
            head = "", ""
    return table(" | seeds | trained | bytes | joules | gain", rows, words=3)


_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"


def named(picture: bytes, digest: str) -> bytes:
    """A PNG that says by a digest which data it shows, in a chunk of text before its end."""
    chunk = b"tEXt" + b"Data\0" + digest.encode()
    length, check = struct.pack(">I", len(chunk) - 4), struct.pack(">I", zlib.crc32(chunk))
    return picture.removesuffix(_END) + length + chunk + check + _END


def with_table(page: str, name: str, lines: Sequence[str]) -> str:
    """A page with a table in place of the one behind its mark.

    Raises:
        ValueError: the page has no such mark.
    """
    before, mark, after = page.partition(f"<!-- figures: {name} -->\n")
    if not mark:
        raise ValueError(f"the page has no line `<!-- figures: {name} -->`")
    _, blank, rest = after.partition("\n\n")
    return before + mark + "\n".join(lines) + blank + rest
