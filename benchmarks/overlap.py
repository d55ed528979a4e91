# SPDX-License-Identifier: Apache-2.0
"""Overlapping transfers on the nRF52840: what they save, and the time that was planned.

One network is built twice, so that it pages a lot, with overlapping and without. The board's own
program runs on the model of the chip, where an exchange on SPI takes the time of its bits and the
card takes its time, too. Each statement of a training step is timed, and within it the waiting for
pages (the stall).

The planned timeline is that of `schedule/timeline.py`: each op and each transfer takes what the
profiler's sketch measured of it alone, on the same model.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from storage import READ_S, WRITE_S, times_of

from poetfw.boards import load_board
from poetfw.common.resources import boards_dir
from poetfw.common.transfer import OverlapCosts, Transfer
from poetfw.costs import Case, case_of
from poetfw.firmware import IMAGE, RunRequest, set_request
from poetfw.ir import Graph
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.profiling import cases_of
from poetfw.schedule.timeline import Clock
from poetfw.tools.emulators.unicorn.__main__ import read_flash
from poetfw.tools.emulators.unicorn.bus import MachineError
from poetfw.tools.emulators.unicorn.nrf52840 import CORE_HZ, Nrf52840Dk
from poetfw.tools.emulators.unicorn.sd_card import Card

MODEL = "--batch 8 --ram 100000 --scheduler swap-proactive --work-limit 5".split()
STEPS = 2
CARD_BYTES = 16 << 20
ROOM_BYTES = 200_000
"""For the operands of an op, apart from each other."""

MARKS = """
#include "console.h"
#include "hal.h"
#define MARKS 512u
uint64_t test_stall;
static struct { uint32_t cycles, stall; } marks[MARKS];
static uint32_t used;
void test_mark(void);
void test_print_marks(void);
void test_mark(void)
{
    marks[used].cycles = (uint32_t)poet_hal_ticks();
    marks[used++].stall = (uint32_t)test_stall;
}
void test_print_marks(void)
{
    for (uint32_t i = 0u; i < used; i++) {
        poet_print("@mark ");
        poet_print_decimal(marks[i].cycles);
        poet_print(" ");
        poet_print_decimal(marks[i].stall);
        poet_print("\\n");
    }
    used = 0u;
}
"""
WAIT = "const int status = poet_hal_storage_wait();"
TIMED_WAIT = f"""extern uint64_t test_stall;
        const uint64_t test_start = poet_hal_ticks();
        {WAIT}
        test_stall += poet_hal_ticks() - test_start;"""


@dataclass(frozen=True)
class Measured:
    """A training step: its cycles, and those of each step of the plan: its own, and waiting."""

    cycles: int
    busy: dict[int, int]
    stalls: dict[int, int]

    @property
    def stall(self) -> int:
        """Cycles that the core waited for pages."""
        return sum(self.stalls.values())


def poetfw(*arguments: object, folder: Path) -> Any:
    """Run a command; its answer."""
    command = [sys.executable, "-m", "poetfw.cli.main", *map(str, arguments), "--json"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def build(folder: Path, overlap: bool) -> Path:
    """The project, with an image to train on."""
    folder.mkdir()
    board = folder / "board.toml"
    text = (boards_dir() / "nrf52840.toml").read_text()
    board.write_text(text.replace("overlap = true", f"overlap = {overlap}".lower()))
    analytic = ("--costs", "analytic")
    made = poetfw("build", "--board", board, *MODEL, *analytic, "--out", "project", folder=folder)
    assert made["schedule"]["page_ins"] >= 5
    project = folder / "project"
    set_request(project / IMAGE, RunRequest(STEPS))
    return project


def instrument(project: Path) -> list[int]:
    """Time each statement and the waiting; returns the plan's step of each mark, counted from 1.

    It is negative where the statement reads samples: these transfers are no pages, but its work.
    """
    step = project / "lib/poetfw/generated/train_step.c"
    head, body = step.read_text().split("int poet_train_step(void)\n{\n")
    number, numbers, lines = 0, [], []
    for line in body.splitlines():
        if found := re.match(r" +POET_STATEMENT\((\d+)u\);", line):
            number = int(found[1])
        elif re.match(r"    \S", line) and not line.startswith("    return"):
            numbers.append(-number if "poet_data_load" in line else number)
            lines.append("    test_mark();")
        if line.startswith("    return POET_OK"):
            lines += ["    test_mark();", "    test_print_marks();"]
        lines.append(line)
    declared = "void test_mark(void);\nvoid test_print_marks(void);\n"
    step.write_text(f"{head}{declared}int poet_train_step(void)\n{{\n" + "\n".join(lines) + "\n")
    (project / "src/marks.c").write_text(MARKS)
    storage = project / "lib/poetfw/storage/storage.c"
    text = storage.read_text()
    storage.write_text(text.replace(WAIT, TIMED_WAIT).replace(
        "    return poet_hal_storage_wait();", f"    {TIMED_WAIT}\n    return status;"
    ))  # fmt: skip
    return numbers


def compiled(project: Path) -> Path:
    """The board's own program of a project, outside PlatformIO."""
    out, source, library = project / "timed.elf", project / "src", project / "lib/poetfw"
    of_library = ("generated", "hal", "kernels", "runtime", "storage")
    folders = [
        *(library, *(library / folder for folder in of_library)),
        *(source, *(source / folder for folder in ("runtime", "hal/cortex_m", "hal/nrf52840"))),
    ]
    files = [path for folder in folders for path in sorted(folder.glob("*.[cS]"))]
    includes = [f"-I{folder}" for folder in folders]
    flags = "-std=c11 -O2 -ffreestanding -ffp-contract=off -fno-math-errno -fno-strict-aliasing"
    link = "-ffunction-sections -fdata-sections -nostdlib -Wl,--gc-sections"
    machine = load_board("nrf52840").toolchain.machine_flags
    command = ["arm-none-eabi-gcc", *flags.split(), *machine, *includes, *files]
    subprocess.run(
        [*command, *link.split(), f"-T{project / 'ld/nrf52840.ld'}", "-lgcc", "-o", out], check=True
    )
    return out


def measure(project: Path) -> Measured:
    """The last training step on the model of the chip."""
    numbers = instrument(project)
    said = bytearray()

    def hear(text: bytes) -> None:
        said.extend(text)
        if b"@eval" in said:
            raise MachineError("enough")

    flash = read_flash(compiled(project), Nrf52840Dk)
    with (project / IMAGE).open("r+b") as image, suppress(MachineError):
        image.truncate(CARD_BYTES)
        Nrf52840Dk(flash, Card(image, READ_S, WRITE_S), hear).run()
    lines = said.decode().splitlines()
    assert lines[-1].startswith("@eval"), lines[-3:]
    marks = [tuple(map(int, line.split()[1:])) for line in lines if line.startswith("@mark")]
    marks = marks[-len(numbers) - 1 :]
    busy: defaultdict[int, int] = defaultdict(int)
    stalls: defaultdict[int, int] = defaultdict(int)
    for number, (start, stalled), (end, stalled_then) in zip(
        numbers, marks, marks[1:], strict=False
    ):
        stall = stalled_then - stalled if number > 0 else 0
        stalls[abs(number)] += stall
        busy[abs(number)] += end - start - stall
    return Measured(marks[-1][0] - marks[0][0], dict(busy), dict(stalls))


def profiled(folder: Path) -> Mapping[Case, float]:
    """Seconds of each case of the network, measured alone."""
    settings = BuildSettings(board="nrf52840", batch=8).on(load_board("nrf52840"))
    program = derive_program(settings, load_model(settings))
    cases = cases_of(program.training, load_board("nrf52840"))
    return times_of(cases, program, "nrf52840", ROOM_BYTES, folder)


def planned(project: Path, times: Mapping[Case, float], beside: bool) -> Clock:
    """The timeline of a plan.

    Args:
        project: has the plan.
        times: seconds of each case.
        beside: whether a transfer takes what it takes beside a kernel; else the core has nothing
            to do with it, and it takes as long as when it is waited for.
    """
    plan = json.loads((project / "plan.json").read_text())["training"]
    graph = Graph.from_json(json.loads((project / "graph.json").read_text())["training"])
    ops = {op.name: op for op in graph.ops}
    sizes = {op.name: graph.by_name[op.output].size_bytes for op in graph.ops if op.output}
    producer = {op.output: op.name for op in graph.ops if op.output}
    clock = Clock(overlap=True)
    for step in plan:
        kind, node = step["step"], step["node"]
        if kind == "compute":
            inputs = [producer[name] for name in ops[node].inputs if name in producer]
            clock.compute(inputs, times[case_of(ops[node], graph)])
        elif kind == "free":
            clock.free(node)
        else:
            waited_s, storage_s, core_s = (
                times[Case(f"{kind}{how}", size_bytes=sizes[node])]
                for how in ("", "_beside", "_taken")
            )
            line = OverlapCosts(math.inf, storage_s, core_s, 0.0) if beside else None
            moving = Transfer(math.inf, waited_s, 0.0, 0.0, line).moving(0)
            (clock.page_in if kind == "page_in" else clock.page_out)(node, moving)
    return clock


@click.command(help=__doc__, epilog="Example: python benchmarks/overlap.py --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(as_json: bool) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        beside, waiting = build(folder / "beside", True), build(folder / "waiting", False)
        with_overlap, without = measure(beside), measure(waiting)
        times = profiled(folder / "sketch")
        clock, hidden = (planned(beside, times, one) for one in (True, False))
    result = {
        "ticks_with_overlap": with_overlap.cycles,
        "ticks_without": without.cycles,
        "fewer": 1 - with_overlap.cycles / without.cycles,
        "stall_with_overlap": with_overlap.stall,
        "stall_without": without.stall,
        "stall_planned": round(clock.stall_s * CORE_HZ),
        "ticks_planned": round(clock.makespan_s * CORE_HZ),
        "planned_for_storage_alone": round(hidden.makespan_s * CORE_HZ),
    }
    if as_json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(
                f"{name:24}{value:>14,}" if isinstance(value, int) else f"{name:24}{value:>14.1%}"
            )


if __name__ == "__main__":
    main()
