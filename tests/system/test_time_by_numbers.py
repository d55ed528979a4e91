# SPDX-License-Identifier: Apache-2.0
"""Whether what an op takes depends on its numbers where, and only where, its operator says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poetfw.boards import load_board
from poetfw.costs import Case, case_of
from poetfw.ir import Dtype
from poetfw.ops import KINDS
from poetfw.ops.mean_losses import MEAN_LOSSES
from poetfw.ops.pointwise import FUNCTIONS
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.profiling.measuring import ProfileSettings, _built, _device, _environment, _setup
from poetfw.profiling.session import measure_sketch
from poetfw.training import Program
from system.commands import needs_twin

pytestmark = pytest.mark.slow

BOARD = load_board("nrf52840")
ROOM = 200_000
MOST_BYTES = 40_000
COUNT = 256
NETWORKS = (
    ("digits-cnn", "sgd"),
    ("ds-cnn", "adam"),
    ("lenet5", "rmsprop"),
    ("transformer-tiny", "adamw"),
    ("gru", "adagrad"),
)


def _numbers() -> dict[str, np.ndarray]:
    normal = np.random.default_rng(1).standard_normal(COUNT)
    return {
        "zeros": np.zeros(COUNT),
        "about 1": normal,
        "about 4": 4 * normal,
        "about 30": 30 * normal,
        "above 0": np.abs(normal) + 0.01,
        "large": 10 * np.abs(normal) + 1,
        "below 0": -np.abs(normal) - 0.01,
    }


def _cases(programs: list[Program]) -> list[Case]:
    """One of each operator, of numbers, that some network has or that is a function of elements."""
    x, one = ((COUNT,), Dtype.F32), ((1,), Dtype.F32)
    found: dict[str, Case] = {}
    for name, function in FUNCTIONS.items():
        attributes = {} if function.parameter is None else {function.parameter[0]: 0.5}
        found[name] = Case(name, (x,), attributes=attributes)
        if name != "scale":
            found[f"{name}_backward"] = Case(f"{name}_backward", (x, x), attributes=attributes)
    rows = ((8, COUNT // 8), Dtype.F32)
    for name in MEAN_LOSSES:
        found[name] = Case(name, (rows, rows), (one,))
        found[f"{name}_backward"] = Case(f"{name}_backward", (rows, rows))
    for name in ("relu6", "relu6_backward"):
        found[name] = Case(name, (x,) * (2 if "backward" in name else 1))
    for program in programs:
        graph = program.training
        for op in graph.ops:
            tensors = [graph.by_name[name] for name in (*op.inputs, *op.updates)]
            floats = any(tensor.dtype is Dtype.F32 for tensor in tensors)
            if floats and sum(tensor.size_bytes for tensor in tensors) < MOST_BYTES:
                found.setdefault(op.kind, case_of(op, graph))
    return [*found.values()]


@needs_twin
@pytest.mark.emulator
def test_an_op_takes_another_time_with_other_numbers_where_it_says_so(tmp_path: Path) -> None:
    settings = [
        BuildSettings("nrf52840", model=model, optimizer=optimizer, batch=2)
        for model, optimizer in NETWORKS
    ]
    programs = [derive_program(one, load_model(one)) for one in settings]
    operands = {}
    for case in _cases(programs):
        count = len(case.inputs) + len(case.updates)
        for number, values in enumerate(_numbers().values()):
            fed = replace(case, numbers=f"{number:016x}")
            operands[fed] = ((tuple(map(float, values)),) * count,)
    told = ProfileSettings(settings[0], "qemu", None, tmp_path)
    setup, environment = _setup(BOARD, told, None), _environment(BOARD, told)
    took: dict[str, list[float]] = {}
    for sketch, elf in _built(
        [*operands], programs[0], BOARD, ROOM, tmp_path, environment, operands
    ):
        assert elf is not None
        with _device(sketch, elf, BOARD, setup, told, environment, print) as profiler:
            for one in measure_sketch(
                profiler, sketch, setup, BOARD, lambda _: "0" * 16, lambda: "2026-01-01T00:00:00Z"
            ):
                took.setdefault(one.case.kind, []).append(one.ticks)
    assert len(took) > 80
    assert {kind for kind in took if KINDS[kind].branches} == {
        name for name, kind in KINDS.items() if kind.branches
    }
    for kind, ticks in took.items():
        apart = max(ticks) - min(ticks)
        assert (apart > max(50, 0.1 * min(ticks))) == KINDS[kind].branches, (kind, ticks)
