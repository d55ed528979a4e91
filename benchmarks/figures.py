# SPDX-License-Identifier: Apache-2.0
"""Published pictures and tables, with the data that they show.

Run it with

    python benchmarks/figures.py [NAME]...

It writes, for each figure or for those that are named, the data (docs/img/NAME.json), the pictures
(docs/img) and the tables in pages, each behind a line `<!-- figures: NAME -->`. A picture names the
data that it shows. `tests/docs/test_figures.py` compares data with what the code computes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from demo import before_and_after, stages_of

from poetfw.comparison import (
    BUDGET_AXIS,
    COMPARED,
    FRACTIONS,
    Comparison,
    Task,
    energy_line,
    settle,
)
from poetfw.comparison import Cell as ComparedCell
from poetfw.limits import Deadline, Work
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, load_devices_problem, load_room
from poetfw.report import Panel, draw_panels, draw_timeline
from poetfw.schedule import PlanFigures, SolveOptions, plan_from_json, plan_to_json, simulate
from poetfw.schedule.devices import (
    Minimise,
    devices_answer_from_json,
    devices_schedule_to_json,
    simulate_devices,
    solve_devices,
)

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/img"
Data = Mapping[str, Any]
"""A value of a JSON document."""

QUICK = (
    *("checkpoint-all", "chen-sqrt", "chen-greedy", "griewank", "dtr", "greedy", "vdnn"),
    *("autoswap", "swap-on-demand", "tflms"),
)
"""Schedulers whose plans of the demo take a second for all budgets."""
DEVICES = ("examples/devices/igpu-gpu.toml", "examples/devices/igpu-cpu.toml")


@dataclass(frozen=True)
class Drawn:
    """Data, and the pictures of them by the names of their files."""

    data: Data
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """Pictures and a table that show the same data.

    Attributes:
        make: computes the data and draws the pictures.
        check: computes a part anew, in seconds, as pairs: what was recorded, and what is so now.
        table: the page's name and the lines of a table of the data.
        pictures: names of the files.
    """

    make: Callable[[], Drawn]
    check: Callable[[Data], Sequence[tuple[object, object]]]
    pictures: tuple[str, ...]
    table: tuple[str, Callable[[Data], list[str]]] | None = None


def compare() -> Drawn:
    """Every scheduler on the demo, over budgets."""
    comparison = _comparison()
    cells = settle([*comparison.cells(FRACTIONS, COMPARED, SolveOptions())])
    lines = [
        energy_line(name, [(c.ram_fraction, c) for c in cells if c.scheduler == name])
        for name in COMPARED
    ]
    panel = Panel("digits-cnn on nrf52840, batch 32", tuple(lines))
    picture = draw_panels([panel], BUDGET_AXIS, "energy overhead (%)", "png")
    data = {
        "command": "poetfw compare --board nrf52840 --batch 32 --plot compare.png",
        "checkpoint_all": _everything(comparison),
        "cells": [_cell(cell) for cell in cells],
    }
    return Drawn(data, {"compare.png": picture})


def check_compare(data: Data) -> list[tuple[object, object]]:
    """What keeping everything takes, and the cells of quick schedulers."""
    comparison = _comparison()
    cells = settle([*comparison.cells(FRACTIONS, QUICK, SolveOptions())])
    now = {(cell.scheduler, cell.ram_fraction): _cell(cell) for cell in cells}
    recorded = {(cell["scheduler"], cell["ram_fraction"]): cell for cell in data["cells"]}
    pairs = [(recorded.get(key), cell) for key, cell in now.items()]
    return [(data["checkpoint_all"], _everything(comparison)), *pairs]


def _comparison() -> Comparison:
    return Comparison.of(Task("nrf52840", "digits-cnn", 32))


def _everything(comparison: Comparison) -> Data:
    everything = comparison.everything
    return {
        "energy_j": everything.energy_j,
        "time_s": everything.time_s,
        "peak_bytes": everything.peak_bytes,
    }


def _cell(cell: ComparedCell) -> Data:
    known = {"ram_fraction": cell.ram_fraction, "ram_bytes": cell.ram_bytes}
    answer = cell.answer
    figures: Data = {"reason": cell.reason}
    if answer is not None:
        figures = {
            "overhead": answer.overhead,
            "energy_j": answer.energy_j,
            "peak_bytes": answer.peak_bytes,
        }
    return {"scheduler": cell.scheduler, **known, **figures}


def demo() -> Drawn:
    """The demo's build: its plan, and how far each step of memory planning gets."""
    build = plan_build(BuildSettings(board="nrf52840"), lambda _: None)
    plan = build.plan
    data = {
        "command": "poetfw build --board nrf52840",
        "budget_bytes": build.image.budget_bytes,
        "board_ram_bytes": build.image.board.ram_bytes,
        "stages": [[stage.name, stage.arena_bytes, stage.peak_bytes] for stage in stages_of(build)],
        "figures": _figures(PlanFigures.of(plan.training)),
        "faster": list(plan.training.faster),
        "plan": plan_to_json(plan.training.plan),
    }
    pictures = {
        "before-after.png": before_and_after(build),
        **{name: build.project.files[name] for name in ("schedule.png", "memory.png")},
    }
    return Drawn(data, pictures)


def check_demo(data: Data) -> list[tuple[object, object]]:
    """What the recorded plan takes, by the simulator."""
    _, ways = load_room(BuildSettings(board="nrf52840"))
    problem = ways.within(data["budget_bytes"]).by(data["faster"])
    plan = plan_from_json(json.dumps({"plan": data["plan"]}))
    return [(data["figures"], _figures(PlanFigures.of(simulate(problem, plan))))]


def _figures(figures: PlanFigures) -> Data:
    return {
        "energy_j": figures.energy_j,
        "time_s": figures.time_s,
        "recomputes": figures.recomputes,
        "page_outs": figures.page_outs,
        "page_ins": figures.page_ins,
    }


def demo_table(data: Data) -> list[str]:
    """Arena bytes of each step of memory planning."""
    (_, first, _), *_ = data["stages"]
    rows = [
        f"| {name} | {arena:,} | {arena - peak:,} | {arena / first:.1%} |"
        for name, arena, peak in data["stages"]
    ]
    return ["| | arena bytes | over the peak | of the first |", "|---|--:|--:|--:|", *rows]


def devices() -> Drawn:
    """VGG-16 on two devices at once."""
    problem = _devices_problem()
    answer = solve_devices(problem, Minimise.TIME, SolveOptions(), Work(20.0, Deadline()))
    picture = draw_timeline(problem, answer.plan, "png")
    command = f"poetfw schedule --devices {','.join(DEVICES)} --model vgg16"
    command += " --ram-fraction 0.62,0.62 --parallel --work-limit 20 --plot devices.png"
    data = {"command": command, "answer": devices_schedule_to_json(answer)}
    return Drawn(data, {"devices.png": picture})


def check_devices(data: Data) -> list[tuple[object, object]]:
    """What the recorded plan takes, by the simulator."""
    answer = data["answer"]
    plan = devices_answer_from_json(json.dumps(answer)).plan
    now = simulate_devices(_devices_problem(), plan)
    return [
        ((answer[name]), getattr(now, name))
        for name in ("time_s", "energy_j", "copies", "recomputes")
    ]


def _devices_problem() -> Any:
    paths = [ROOT / name for name in DEVICES]
    problem = load_devices_problem(paths, "vgg16", 1, (0.62, 0.62), lambda _: None, Deadline())
    return replace(problem, parallel=True)


FIGURES: Mapping[str, Figure] = {
    "compare": Figure(compare, check_compare, ("compare.png",)),
    "demo": Figure(
        demo,
        check_demo,
        ("before-after.png", "memory.png", "schedule.png"),
        ("docs/memory.md", demo_table),
    ),
    "devices": Figure(devices, check_devices, ("devices.png",)),
}
"""All figures by name."""


def data_of(name: str) -> Data:
    """The recorded data of a figure."""
    recorded: Data = json.loads((IMAGES / f"{name}.json").read_bytes())
    return recorded


def digest_of(name: str) -> str:
    """The digest of a figure's recorded data, which its pictures name."""
    return hashlib.sha256((IMAGES / f"{name}.json").read_bytes()).hexdigest()


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


def write(name: str) -> None:
    """Compute a figure; write its data, its pictures and its table."""
    figure = FIGURES[name]
    drawn = figure.make()
    (IMAGES / f"{name}.json").write_text(json.dumps(drawn.data, indent=1) + "\n")
    for file in figure.pictures:
        (IMAGES / file).write_bytes(named(drawn.pictures[file], digest_of(name)))
    if figure.table is not None:
        page, table = figure.table
        path = ROOT / page
        path.write_text(with_table(path.read_text(), name, table(data_of(name))))


def main() -> None:
    """Write the figures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    names = parser.parse_args().names
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}: known are {', '.join(FIGURES)}")
    for name in names or FIGURES:
        write(name)
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
