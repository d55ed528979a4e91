# SPDX-License-Identifier: Apache-2.0
"""A Cortex-M4F trains to the same bits by whichever kernels its ops run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poetfw.boards import Board
from poetfw.costs import CostProvider, CostTable, Source, analytic_costs
from poetfw.firmware import IMAGE, RunRequest, assign_slots, read_committed
from poetfw.ir import Graph
from poetfw.models import zoo
from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.ops import VARIANT, Array, in_variants
from poetfw.pipeline import plan_build, write_build
from poetfw.planning import Build, BuildSettings
from poetfw.runs.execution import execute
from poetfw.tools import build_environments

pytestmark = pytest.mark.emulator


def network(batch: int, seed: int) -> Model:
    """Convolutions of which each has a function of its own, and others of the same bits."""
    net = Layers("convolutions", (batch, 1, 8, 8), seed)
    x = net.relu("relu1", net.conv("square", net.input, 4, 3, padding=(1, 1, 1, 1), bias=True))
    x = net.conv("depthwise", x, 4, 3, stride=2, padding=(2, 2, 1, 1), groups=4, bias=True)
    x = net.relu("relu2", net.conv("pointwise", x, 8, 1))
    x = net.conv("large", x, 4, 5, padding=(2, 2, 2, 2))
    logits = net.linear("logits", net.flatten("flatten", x), 10)
    return Model(*net.build(logits), loss="softmax_cross_entropy", description="", epochs=1)


def favouring(variant: str | None) -> CostProvider:
    """As if each kernel had been measured, and those of a variant took half of what others do."""

    def costs(graph: Graph, board: Board) -> CostTable:
        table = analytic_costs(graph, board)
        ops = {}
        for op in graph.ops:
            cost = table.ops[op.name]
            share = 0.5 if variant is not None and op.attributes.get(VARIANT) == variant else 1.0
            took = {"time_s": share * cost.time_s, "energy_j": share * cost.energy_j}
            ops[op.name] = replace(cost, **took, source=Source.MEASURED)
        return replace(table, ops=ops)

    return costs


def plan(variant: str | None) -> Build:
    settings = BuildSettings(board="nrf52840", model="convolutions", batch=4, ram_bytes=200_000)
    return plan_build(settings, progress=lambda text: None, costs=favouring(variant))


def variants(build: Build) -> dict[str, str | None]:
    """The variant of each op of the training step; None for the kernel for its shape."""
    return {op.name: op.attributes.get(VARIANT) for op in build.program.training.ops}


def trained(build: Build, folder: Path) -> dict[str, Array]:
    """All that a training of three steps leaves: weights and what the optimizer keeps."""
    write_build(build, folder)
    machine = build.image.board.twin("qemu").machine
    environment = machine.platformio_env
    elf = build_environments(folder, [environment])[environment]
    request = RunRequest(steps=3, capture=False)
    execute(machine, elf, folder / IMAGE, folder / "run", request, 90, timeout_s=300)
    program = build.program
    slots = assign_slots(program, build.plan.training.plan, build.image.board.erase_bytes)
    tensors = {tensor.name: tensor for tensor in (*program.training.tensors, program.metric)}
    left = read_committed(folder / "run" / IMAGE, slots, tensors)
    return {tensor.name: left[tensor.name] for tensor in program.persistent}


@pytest.fixture(scope="module")
def by_shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    build = plan(None)
    assert set(variants(build).values()) == {None}
    return trained(build, tmp_path_factory.mktemp("by_shape"))


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo, "MODELS", {**zoo.MODELS, "convolutions": zoo.Entry(4, network)})
        yield


@pytest.mark.parametrize("variant", ["general", "by_1"])
def test_weights_have_the_same_bits(
    variant: str, by_shape: dict[str, Array], tmp_path: Path
) -> None:
    build = plan(variant)
    graph = build.program.training
    every = [way for op in graph.ops for way in in_variants(op, graph)]
    run_by_it = {name for name, taken in variants(build).items() if taken == variant}
    assert (
        run_by_it == {way.name for way in every if way.attributes.get(VARIANT) == variant} != set()
    )
    left = trained(build, tmp_path / "project")
    assert left.keys() == by_shape.keys()
    for name, value in left.items():
        np.testing.assert_array_equal(value.view(np.uint32), by_shape[name].view(np.uint32), name)
