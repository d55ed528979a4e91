# SPDX-License-Identifier: Apache-2.0
"""Published pictures and tables, with the data that they show.

Writes, for each figure or for those that are named, the data (docs/img/NAME.json), the pictures
(docs/img) and the tables in pages, each behind a line `<!-- figures: NAME -->`. A picture names the
data that it shows. With --check nothing is written: pictures and tables are compared with the data,
and a part of the data with what the code computes now, or all of it with --check-all.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import memory
import schedule
import sparse_updates
from PIL import Image

import poetfw
from poetfw.boards import load_board
from poetfw.cli.known_settings import known_settings
from poetfw.cli.main import COMMANDS
from poetfw.common.limits import Deadline, Work
from poetfw.comparisons.comparison import (
    BUDGET_AXIS,
    COMPARED,
    FRACTIONS,
    Comparison,
    Task,
    energy_line,
    settle,
)
from poetfw.comparisons.comparison import Trial as ComparedCell
from poetfw.costs import analytic_costs
from poetfw.ir import Graph
from poetfw.models import build_model
from poetfw.ops import kind_of
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, load_devices_problem, load_training_problem
from poetfw.planning.problem import schedule_problem
from poetfw.report import Panel, draw_panels, draw_timeline
from poetfw.report.html import report_html
from poetfw.schedule import (
    PlanFigures,
    ScheduleProblem,
    SolveOptions,
    checkpoint_all_schedule,
    minimum_budget,
    plan_from_json,
    plan_to_json,
    simulate,
)
from poetfw.schedule.several import (
    Minimise,
    devices_answer_from_json,
    devices_schedule_to_json,
    simulate_devices,
    solve_devices,
)
from poetfw.training import Program, make_program
from workloads import browser, nntrainer, olla, tables
from workloads.planning_stages import before_and_after, stages_of
from workloads.tables import Data, named, with_table
from workloads.tight import TIGHT

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/img"
POETS_JOULES: Data = {
    "vgg16": {"M0+": 790.1, "M4F": 3.440},
    "resnet18": {"M0+": 125.3, "M4F": 0.546},
    "bert-base": {"M0+": 21880, "M4F": 95.26},
}
"""Of POET's published networks, by its chip table."""

QUICK = (
    *("checkpoint-all", "chen-sqrt", "chen-greedy", "griewank", "dtr", "greedy", "vdnn"),
    *("autoswap", "swap-on-demand", "tflms"),
)
"""Schedulers whose plans of the demo take a second for all budgets."""
REPORT_RAM_BYTES = 180_000
REPORT_SIZE = 1280, 1470
"""Width and height of the page's picture in pixels."""
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
        pictures: names of the files.
        tables: pages and their tables of the data, by the table's name.
    """

    make: Callable[[], Drawn]
    check: Callable[[Data], Sequence[tuple[object, object]]]
    pictures: tuple[str, ...] = ()
    tables: Mapping[str, tuple[str, Callable[[Data], list[str]]]] = field(default_factory=dict)


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
    """Figures of keeping everything, and the cells of quick schedulers."""
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
        "plan": plan_to_json(plan.training.plan),
    }
    pictures = {
        "before-after.png": before_and_after(build),
        **{name: build.project.files[name] for name in ("schedule.png", "memory.png")},
    }
    return Drawn(data, pictures)


def check_demo(data: Data) -> list[tuple[object, object]]:
    """Figures of the recorded plan, by the simulator."""
    training = load_training_problem(BuildSettings(board="nrf52840"))
    problem = training.within(data["budget_bytes"])
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


def report() -> Drawn:
    """The page of a build that pages, and of its run, in two minutes."""
    settings = BuildSettings("nrf52840", ram_bytes=REPORT_RAM_BYTES)
    with tempfile.TemporaryDirectory() as name, browser.chromium() as driver:
        folder, page = Path(name) / "project", Path(name) / "report.html"
        plan = poetfw.plan(board=settings.board, ram=settings.ram_bytes)
        plan.compile(folder).run(verify=True, trace=True)
        page.write_text(report_html(folder), encoding="utf-8")
        picture = browser.picture(driver, page, *REPORT_SIZE)
    training = plan.build.plan.training
    data = {
        "command": f"poetfw build --board nrf52840 --ram {REPORT_RAM_BYTES}",
        "page": _page_digest(),
        "figures": _figures(PlanFigures.of(training)),
        "plan": plan_to_json(training.plan),
    }
    return Drawn(data, {"report.png": _in_few_colours(picture)})


def check_report(data: Data) -> list[tuple[object, object]]:
    """Figures of the recorded plan, by the simulator, and what the page is drawn by."""
    training = load_training_problem(BuildSettings("nrf52840", ram_bytes=REPORT_RAM_BYTES))
    problem = training.within(REPORT_RAM_BYTES)
    plan = plan_from_json(json.dumps({"plan": data["plan"]}))
    figures = _figures(PlanFigures.of(simulate(problem, plan)))
    return [(data["figures"], figures), (data["page"], _page_digest())]


def _page_digest() -> str:
    """Digest of the page's template, style sheet and script."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "host/poetfw/report/html").glob("page.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _in_few_colours(picture: bytes) -> bytes:
    """A PNG file with a palette, a quarter as large."""
    content = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as opened:
        opened.convert("RGB").quantize(256).save(content, "png", optimize=True)
    return content.getvalue()


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
    """Figures of the recorded plan, by the simulator."""
    answer = data["answer"]
    plan = devices_answer_from_json(json.dumps(answer)).plan
    now = simulate_devices(_devices_problem(), plan)
    return [
        ((answer[name]), getattr(now, name))
        for name in ("time_s", "energy_j", "copies", "recomputes")
    ]


def settings() -> Drawn:
    """Every setting of every command."""
    known = [asdict(setting) for setting in known_settings(COMMANDS)]
    return Drawn({"settings": json.loads(json.dumps(known))})


def check_settings(data: Data) -> list[tuple[object, object]]:
    """All of them."""
    return [(data, settings().data)]


LARGE = ("resnet18", "resnet50", "mobilenetv2", "vgg16", "bert-base", "bert-mini", "resnet8")
"""Networks of the table of large ones."""


def models(chosen: Sequence[str] = LARGE) -> Drawn:
    """Sizes and energies of large networks' training steps, beside POET's."""
    boards = ("poet-mkr1000", "poet-m4f", "rpi4", "tx2")
    of_stored = ("resnet18", "vgg16", "resnet8")
    data = {
        "held": [held(name) for name in LARGE[:-1] if name in chosen],
        "stored": [stored(name) for name in of_stored if name in chosen],
        "joules": [
            {"model": name, "boards": joules(name, boards), "published": published}
            for name, published in POETS_JOULES.items()
            if name in chosen
        ],
    }
    return Drawn(data)


def check_models(data: Data) -> list[tuple[object, object]]:
    """The rows of the smaller networks."""
    quick = ("vgg16", "bert-mini")
    recorded = (row for part in data.values() for row in part if row["model"] in quick)
    now = (row for part in models(quick).data.values() for row in part)
    return list(zip(recorded, now, strict=True))


def held(name: str) -> Data:
    """Ops, multiply-accumulates and the peak, without resident bytes, of a step of batch 1."""
    graph, problem = _program(name).training, Comparison.of(Task("rpi4", name)).training.problem
    macs = {False: 0, True: 0}
    for op in graph.ops:
        inputs = [graph.by_name[tensor] for tensor in op.inputs]
        output = None if op.output is None else graph.by_name[op.output]
        macs[op.backward] += kind_of(op).work(op, inputs, output).macs
    fleeting = [graph.by_name[op.output] for op in graph.ops if op.output is not None]
    largest = max(fleeting, key=lambda tensor: tensor.size_bytes)
    return {
        "model": name,
        "ops": len(graph.ops),
        "forward_macs": macs[False],
        "backward_macs": macs[True],
        "peak_bytes": checkpoint_all_schedule(problem).peak_bytes,
        "largest": {
            "bytes": largest.size_bytes,
            "role": largest.role.value,
            "shape": list(largest.shape),
        },
    }


def stored(name: str) -> Data:
    """Peaks and smallest budgets with and without stored gradients, ops in the derived order."""
    found: dict[str, Any] = {"model": name}
    for key, fuse in (("stored", False), ("fused", True)):
        problem = _problem(_program(name, fuse=fuse).training)
        found[key] = {
            "peak_bytes": checkpoint_all_schedule(problem).peak_bytes,
            "smallest_bytes": minimum_budget(problem).bytes,
        }
    return found


def joules(name: str, boards: Sequence[str]) -> Data:
    """Energy of a training step of batch 1 that keeps everything, by board."""
    graph = _program(name).training
    costs = {
        board: analytic_costs(graph, load_board(schedule.board_of(board))).ops for board in boards
    }
    return {board: sum(cost.energy_j for cost in ops.values()) for board, ops in costs.items()}


def _program(name: str, *, fuse: bool = True) -> Program:
    model = build_model(name, 1)
    return make_program(model.graph, model.loss, model.optimizer, fuse_updates=fuse)


def _problem(graph: Graph) -> ScheduleProblem:
    board = load_board("rpi4")
    return schedule_problem(graph, board, analytic_costs(graph, board), None)


def memory_beside_papers() -> Drawn:
    """The networks of NNTrainer's and OLLA's papers, and packings."""
    extent = replace(memory.FULL, durations=(1_000, 100), seeds=range(20))
    return Drawn(memory.run(extent))


def check_memory(data: Data) -> list[tuple[object, object]]:
    """NNTrainer's cases and a network of OLLA's, without what a clock measured."""
    rows = {(row["network"], row["batch"]): row for row in data["olla"]["rows"]}
    now = asdict(olla.measure("resnet", 32))
    sizes = [key for key in now if not key.endswith("_s")]
    recorded = rows["resnet", 32]
    return [
        (data["nntrainer"], [asdict(nntrainer.measure(case)) for case in nntrainer.TABLE_4]),
        ({key: recorded[key] for key in sizes}, {key: now[key] for key in sizes}),
    ]


def schedules() -> Drawn:
    """The certified schedules of `schedule.py`, in a quarter of an hour."""
    rows = schedule.Rows(quick=False)
    schedule.print_certified(rows)
    return Drawn({"certified": list(rows.done["certified"].values())})


def check_schedules(data: Data) -> list[tuple[object, object]]:
    """The smallest network's schedule."""
    (recorded,) = (row for row in data["certified"] if row["case"]["model"] == "digits-cnn")
    now = schedule.run_case(schedule.Case(**recorded["case"]))
    names = ("nodes", "objective", "bound", "gap", "overhead_gap")
    return [(recorded[name], getattr(now, name)) for name in names]


def tight_rows() -> Drawn:
    """Schedules in little RAM of `schedule.py`, in an hour and a half."""
    rows = schedule.Rows(quick=False)
    schedule.print_tight(rows)
    return Drawn({"tight": list(rows.done["tight"].values())})


def check_tight(data: Data) -> list[tuple[object, object]]:
    """The problems of the smallest network."""
    cases = {case.name: case for case in TIGHT if case.model == "transformer-tiny"}
    rows = [row for row in data["tight"] if row["name"] in cases]
    problems = [cases[row["name"]].problem() for row in rows]
    return [
        ((row["nodes"], row["ram_bytes"]), (len(problem.nodes), problem.ram_bytes))
        for row, problem in zip(rows, problems, strict=True)
    ]


def sparse() -> Drawn:
    """Parts of three networks that are worth training, in ten minutes."""
    return Drawn({"networks": [sparse_updates.measured(case) for case in sparse_updates.CASES]})


def check_sparse(data: Data) -> list[tuple[object, object]]:
    """Bytes and joules of each part that is named by a pattern."""
    return [pair for network in data["networks"] for pair in sparse_updates.shares(network)]


STORED_NETWORKS = {"digits-cnn": 32, "lenet5": 8, "squeeze-excite": 8}
"""Networks of the table of stored activations, and samples in a batch."""


def activations() -> Drawn:
    """RAM and energy of networks by the form of activations that wait, in five minutes."""
    forms = (None, "exact", "float16")
    return Drawn({"activations": [_waiting(n, form) for n in STORED_NETWORKS for form in forms]})


def check_activations(data: Data) -> list[tuple[object, object]]:
    """The form that rounds nothing, of the network that is calculated the soonest."""
    row = next(r for r in data["activations"] if (r["model"], r["form"]) == ("lenet5", "exact"))
    return [(row, _waiting(row["model"], row["form"]))]


def _waiting(name: str, form: str | None) -> Data:
    settings = BuildSettings("nrf52840", name, batch=STORED_NETWORKS[name], store_as=form)
    problem = load_training_problem(settings).problem
    everything = checkpoint_all_schedule(problem)
    return {
        "model": name,
        "batch": STORED_NETWORKS[name],
        "form": form,
        "resident_bytes": problem.resident_bytes,
        "peak_bytes": everything.peak_bytes,
        "energy_j": everything.energy_j,
        "without_storage_bytes": minimum_budget(replace(problem, storage=None)).bytes,
        "smallest_bytes": minimum_budget(problem).bytes,
    }


def _devices_problem() -> Any:
    paths = [ROOT / name for name in DEVICES]
    problem = load_devices_problem(paths, "vgg16", 1, (0.62, 0.62), lambda _: None, Deadline())
    return replace(problem, parallel=True)


FIGURES: Mapping[str, Figure] = {
    "activations": Figure(
        activations,
        check_activations,
        tables={"activations": ("docs/memory.md", tables.activations)},
    ),
    "compare": Figure(compare, check_compare, ("compare.png",)),
    "demo": Figure(
        demo,
        check_demo,
        ("before-after.png", "memory.png", "schedule.png"),
        {"demo": ("docs/memory.md", tables.demo)},
    ),
    "report": Figure(report, check_report, ("report.png",)),
    "devices": Figure(devices, check_devices, ("devices.png",)),
    "settings": Figure(
        settings,
        check_settings,
        tables={"settings": ("docs/settings.md", tables.settings)},
    ),
    "models": Figure(
        models,
        check_models,
        tables={
            "models-held": ("docs/models.md", tables.held),
            "models-stored": ("docs/models.md", tables.stored),
            "models-joules": ("docs/models.md", tables.joules),
        },
    ),
    "memory": Figure(
        memory_beside_papers,
        check_memory,
        tables={
            "nntrainer": ("docs/memory-figures.md", tables.nntrainer),
            "olla-1": ("docs/memory-figures.md", partial(tables.olla, batch=1)),
            "olla-32": ("docs/memory-figures.md", partial(tables.olla, batch=32)),
            "olla-means": ("docs/memory-figures.md", tables.olla_means),
            "packings": ("docs/memory-figures.md", tables.packings),
        },
    ),
    "schedules": Figure(
        schedules,
        check_schedules,
        tables={"schedules": ("docs/comparing.md", tables.schedules)},
    ),
    "tight": Figure(
        tight_rows,
        check_tight,
        tables={"tight": ("docs/comparing.md", tables.tight)},
    ),
    "sparse-updates": Figure(
        sparse,
        check_sparse,
        tables={"sparse-updates": ("docs/sparse-updates.md", tables.sparse)},
    ),
}
"""All figures by name."""


def data_of(name: str) -> Data:
    """The recorded data of a figure."""
    recorded: Data = json.loads((IMAGES / f"{name}.json").read_bytes())
    return recorded


def digest_of(name: str) -> str:
    """The digest of a figure's recorded data, which its pictures name."""
    return hashlib.sha256((IMAGES / f"{name}.json").read_bytes()).hexdigest()


def text_of(data: Data) -> str:
    """JSON with a line for each item of a list at the top."""
    lines = []
    for key, value in data.items():
        items = [json.dumps(item) for item in value] if isinstance(value, list) else None
        text = json.dumps(value) if items is None else "[\n" + ",\n".join(items) + "\n]"
        lines.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(name: str) -> None:
    """Compute a figure; write its data, its pictures and its table."""
    figure = FIGURES[name]
    drawn = figure.make()
    (IMAGES / f"{name}.json").write_text(text_of(drawn.data))
    for file in figure.pictures:
        (IMAGES / file).write_bytes(named(drawn.pictures[file], digest_of(name)))
    for mark, (page, lines) in figure.tables.items():
        path = ROOT / page
        path.write_text(with_table(path.read_text(), mark, lines(data_of(name))))


def differences(name: str, *, everything: bool) -> Iterator[str]:
    """Differences of a figure's pictures, tables and recorded data from what they should be.

    Args:
        name: of the figure.
        everything: compute all of the data, not a part.
    """
    figure, data = FIGURES[name], data_of(name)
    for picture in figure.pictures:
        if f"Data\0{digest_of(name)}".encode() not in (IMAGES / picture).read_bytes():
            yield f"docs/img/{picture} shows other data"
    for mark, (page, lines) in figure.tables.items():
        text = (ROOT / page).read_text()
        if text != with_table(text, mark, lines(data)):
            yield f"{page} has another table {mark}"
    pairs = figure.check(data)
    if everything:
        now = figure.make().data
        pairs = [(data[key], now[key]) for key in now]
    for recorded, again in pairs:
        if not close(recorded, again):
            yield f"recorded {recorded}, now {again}"


def close(recorded: object, now: object) -> bool:
    """True for equal values, numbers to a relative difference of 1e-9."""
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        return recorded.keys() == now.keys() and all(close(recorded[k], now[k]) for k in now)
    if isinstance(recorded, Sequence) and isinstance(now, Sequence) and not isinstance(now, str):
        return len(recorded) == len(now) and all(map(close, recorded, now))
    if isinstance(recorded, float) and isinstance(now, float):
        return math.isclose(recorded, now, rel_tol=1e-9)
    return recorded == now


def main() -> int:
    """Write or check the figures that are named, or all; 1 if some differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/figures.py --check models"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--check", action="store_true", help="write nothing: compare")
    parser.add_argument("--check-all", action="store_true", help="the same, with all of the data")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(FIGURES))
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}: known are {', '.join(FIGURES)}")
    found = False
    for name in given.names or FIGURES:
        if not (given.check or given.check_all):
            write(name)
            print(f"wrote {name}")
            continue
        for line in differences(name, everything=given.check_all):
            found = True
            print(f"{name}: {line}: run `python benchmarks/figures.py {name}`, and look at it")
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
