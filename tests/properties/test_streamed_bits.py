# SPDX-License-Identifier: Apache-2.0
"""Streamed weights train to the bits of weights in RAM, whatever the budget and the arithmetic.

A network is planned for each budget as a build does, and its firmware compiled for this computer,
with sums of products rounded separately and in integers. What the firmware counts is what was
planned: requests, bytes and the arena's peak.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from emulator.firmware_tools import TEMPLATES, compile_c
from poetfw.boards import Arithmetic, Board, load_board
from poetfw.common.limits import Deadline
from poetfw.firmware import (
    LIBRARY,
    RunRequest,
    Traffic,
    assign_slots,
    constant_values,
    read_slots,
    render_project,
    step_traffic,
    write_image,
)
from poetfw.importers import load_data
from poetfw.memory import ONLY
from poetfw.models import Model
from poetfw.models.bert import BertSize, bert
from poetfw.planning import BuildSettings, load_model
from poetfw.planning.decision import Decision, Searching, decide
from poetfw.planning.homes import sets_of
from poetfw.planning.plans import lower_plan
from poetfw.training import constant_bytes

BUILDS = {
    "vectors": (Arithmetic.SEPARATE, ()),
    "no FPU": (Arithmetic.SEPARATE, ("-DPOET_SOFT_FLOAT",)),
    "integers": (Arithmetic.INTEGERS, ("-DPOET_SOFT_FLOAT",)),
}
"""Kernels of this computer and of cores without vectors and FPU: arithmetic, and flags."""

STEPS = 2
PLENTY = 1 << 26
LEFT_OUT = ("src/hal/", "src/runtime/poet_memory.c", f"{LIBRARY}/port/", f"{LIBRARY}/storage/sd")


@dataclass(frozen=True)
class Trained:
    """Persistent tensors after training, and what the firmware counted."""

    tensors: dict[str, bytes]
    traffic: list[Traffic]
    high_water_bytes: int


def native(arithmetic: Arithmetic, flash_bytes: int = PLENTY) -> Board:
    board = load_board("linux")
    compute = replace(board.compute, arithmetic=arithmetic)
    return replace(board, compute=compute, flash_bytes=flash_bytes)


def train(
    folder: Path, settings: BuildSettings, model: Model, decided: Decision, build: str
) -> Trained:
    """Compile the project of a decision, and run it for some steps."""
    folder.mkdir()
    arithmetic, flags = BUILDS[build]
    board = native(arithmetic)
    program, plan = decided.program, decided.plan
    slots = assign_slots(program, plan.training.plan)
    lowering = lower_plan(program, board, plan, slots)
    weights = {**model.weights, **program.made}
    values = constant_values(lowering.view.flash, lowering.names, weights)
    sources = sorted((TEMPLATES / "hal/posix").glob("*.c"))
    for path, content in render_project(lowering.view, board, constants=values).files.items():
        if path.startswith(("src/", f"{LIBRARY}/")) and not path.startswith(LEFT_OUT):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            sources += [target] if target.suffix == ".c" else []
    parts = ("", "generated", "kernels", "runtime", "storage", "hal")
    quoted = [f"-iquote{folder / LIBRARY / part}" for part in parts]
    quoted += [f"-iquote{folder / 'src/runtime'}", f"-iquote{TEMPLATES / 'hal/posix'}"]
    elf = compile_c(folder / "program", sources, [], *quoted, *flags, "-pthread")

    data, samples, image = load_data("synthetic", model), 4 * model.batch, folder / "storage.img"
    training = data.x_train[:samples], data.y_train[:samples]
    if training[0].dtype.kind == "i":
        training[0][:, :2] = -1, 1_000_000  # not rows of a table: zeros
    held_out = data.x_test[: model.batch], data.y_test[: model.batch]
    request = RunRequest(STEPS, seed=3, checkpoint_every=STEPS)
    sets = sets_of(settings, program)
    given = (slots, weights, training, held_out, request, sets)
    image.write_bytes(write_image(program, lowering.view.plan_id, *given))
    environment = {**os.environ, "POETFW_SYSFS": str(folder)}
    ran = subprocess.run(
        [elf, image],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    moved = [
        Traffic(*map(int, found))
        for found in re.findall(r"@transfers requests=(\d+) read=(\d+) written=(\d+)", ran.stdout)
    ]
    (high,) = map(int, re.findall(r" high_water=(\d+)", ran.stdout))
    tensors = {t.name: t for t in (*program.training.tensors, program.metric)}
    found = read_slots(image, slots, tensors)
    return Trained(
        {name: v.tobytes() for (name, purpose), v in found.items() if purpose == "persistent"},
        [after - before for before, after in pairwise(moved)][: STEPS - 1],
        high,
    )


CASES = [
    pytest.param("mlp", 4, (4_500, 7_000, 12_000, 24_000), id="mlp", marks=pytest.mark.slow),
    pytest.param("digits-cnn", 1, (7_500,), id="digits-cnn"),
    pytest.param(
        "digits-cnn", 1, (10_000, 14_000, 20_000), id="more of it", marks=pytest.mark.slow
    ),
    pytest.param(
        *("resnet8", 1, (205_000, 220_000, 256_000, 400_000)), id="resnet8", marks=pytest.mark.slow
    ),
    pytest.param(
        *("ds-cnn", 1, (100_000, 120_000, 150_000, 200_000)), id="ds-cnn", marks=pytest.mark.slow
    ),
    pytest.param(
        *("autoencoder", 2, (24_000, 32_000, 64_000, 255_000)),
        id="autoencoder",
        marks=pytest.mark.slow,
    ),
]


@dataclass(frozen=True)
class Room:
    """Flash and RAM of a build in bytes."""

    flash_bytes: int
    ram_bytes: int


SMALL_BERT = BertSize(layers=1, hidden=16, heads=2, sequence=8, vocabulary=90, positions=8)

FROZEN_CASES = [
    pytest.param(
        *("digits-cnn", ("conv1.*", "logits.*"), None),
        (Room(3_000, PLENTY), Room(3_000, 10_000)),
        id="digits-cnn",
    ),
    pytest.param(
        *("digits-cnn", ("logits.*",), "int8", (Room(1_500, 10_000),)),
        id="digits-cnn in bytes",
    ),
    pytest.param(
        *("bert", ("logits.*",), None, (Room(8_000, 6_000),)),
        id="bert with a table of tokens",
    ),
    pytest.param(
        *("resnet8", ("stem.*", "logits.*"), None),
        (Room(20_000, PLENTY), Room(20_000, 100_000)),
        id="resnet8",
        marks=pytest.mark.slow,
    ),
]
"""Models, what they train, the format of frozen weights, and rooms that are too small for them."""


@pytest.mark.parametrize(("name", "parts", "form", "rooms"), FROZEN_CASES)
def test_streamed_frozen_weights_train_others_to_the_bits_of_weights_in_flash(
    name: str, parts: tuple[str, ...], form: str | None, rooms: tuple[Room, ...], tmp_path: Path
) -> None:
    trained: dict[Room, Trained] = {}
    for room in (Room(PLENTY, PLENTY), *rooms):
        board = native(Arithmetic.SEPARATE, room.flash_bytes)
        settings = BuildSettings(
            "linux",
            name,
            batch=2,
            train=parts,
            frozen_as=form,
            ram_bytes=room.ram_bytes,
            work_limit=0.1,
        ).on(board)
        model = bert("bert", SMALL_BERT, 2, 0) if name == "bert" else load_model(settings)
        searching = Searching(Deadline(600), lambda stage: None)
        decided = decide(settings, {ONLY: board}, model, searching)
        program = decided.program
        assert bool(program.streamed_constants) == (room.flash_bytes != PLENTY)
        assert constant_bytes(program) <= room.flash_bytes
        folder = tmp_path / f"{room.flash_bytes}-{room.ram_bytes}"
        found = train(folder, settings, model, decided, "vectors")
        assert found.traffic == [step_traffic(program, decided.plan.step)] * (STEPS - 1)
        assert found.high_water_bytes == decided.plan.memory.arena_bytes <= room.ram_bytes
        trained[room] = found
    in_flash, *streamed = trained.values()
    assert in_flash.tensors
    assert all(found.tensors == in_flash.tensors for found in streamed)


@pytest.mark.parametrize(("name", "batch", "budgets"), CASES)
def test_streamed_weights_have_the_bits_of_weights_in_ram(
    name: str, batch: int, budgets: tuple[int, ...], tmp_path: Path
) -> None:
    trained: dict[str, dict[int, Trained]] = {}
    for budget in (PLENTY, *budgets):
        settings = BuildSettings("linux", name, batch=batch, ram_bytes=budget, work_limit=0.1)
        settings = settings.on(native(Arithmetic.SEPARATE))
        model = load_model(settings)
        searching = Searching(Deadline(600), lambda stage: None)
        decided = decide(settings, {ONLY: native(Arithmetic.SEPARATE)}, model, searching)
        assert bool(decided.program.streamed) == (budget != PLENTY)
        planned = step_traffic(decided.program, decided.plan.step)
        for build in BUILDS:
            folder = tmp_path / f"{build}-{budget}".replace(" ", "-")
            found = train(folder, settings, model, decided, build)
            assert found.traffic == [planned] * (STEPS - 1)
            assert found.high_water_bytes == decided.plan.memory.arena_bytes <= budget
            trained.setdefault(build, {})[budget] = found
    for by_budget in trained.values():
        in_ram = by_budget[PLENTY].tensors
        assert any(name.endswith("momentum") and any(value) for name, value in in_ram.items())
        for found in by_budget.values():
            assert found.tensors.keys() == in_ram.keys()
            different = [name for name, value in found.tensors.items() if value != in_ram[name]]
            assert not different
    vectors, no_fpu, integers = (trained[build][PLENTY].tensors for build in BUILDS)
    assert vectors == no_fpu != integers
