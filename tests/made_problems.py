# SPDX-License-Identifier: Apache-2.0
"""Made-up problems: random ones to test schedulers with, and training steps of plain CNNs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from poetfw.common.transfer import Transfer
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import Node, ScheduleProblem, Storage
from poetfw.schedule.simulator import simulate

SD_CARD = Storage(
    block_bytes=512,
    page_in=Transfer(4.617e6, 0.109e-3, 0.33 / 4.617e6, 0.33 * 0.109e-3),
    page_out=Transfer(4.44e6, 0.113e-3, 0.33 / 4.44e6, 0.33 * 0.113e-3),
)
"""The SD card of POET's Table 2: 330 mW while it transfers."""

_MACS_PER_S = 3.2e6
_POWER_W = 10.98e-3  # nRF52840, POET Table 2


def with_ram_fraction(problem: ScheduleProblem, fraction: float) -> ScheduleProblem:
    """The problem with a budget of this fraction of what checkpoint-all needs."""
    return replace(problem, ram_bytes=int(_peak_bytes(problem) * fraction))


def _peak_bytes(problem: ScheduleProblem) -> int:
    ram_bytes = sum(node.output_bytes + node.workspace_bytes for node in problem.nodes)
    roomy = replace(problem, ram_bytes=ram_bytes, deadline_s=None)
    return simulate(roomy, checkpoint_all(Indexed.of(roomy))).peak_bytes


def training_chain(
    blocks: int = 4, batch: int = 32, extent: int = 16, channels: int = 8
) -> ScheduleProblem:
    """One training step of a CNN: blocks of conv, batch norm, ReLU, every other one pooled.

    Batch statistics are tensors of a few bytes; running statistics and parameters are updated by
    nodes without output, after which nobody may read the old values.

    Args:
        blocks: number of blocks.
        batch: images per step.
        extent: height and width of the images; halved by each pooling.
        channels: of the first block; doubled by each pooling.
    """
    nodes: list[Node] = []

    def add(name: str, inputs: list[str], macs: float, output_bytes: int, **flags: Any) -> str:
        time_s = macs / _MACS_PER_S
        node = Node(name, tuple(inputs), time_s, time_s * _POWER_W, output_bytes)
        nodes.append(replace(node, **flags))
        return name

    x = add("load", [], batch * extent**2 / 8, 4 * batch * extent**2, page=False)
    labels = add("labels", [], batch, 4 * batch)
    tape: list[tuple[str, str, str, int, int]] = []
    width = 1
    for b in range(blocks):
        elements = batch * channels * extent**2
        work = 9.0 * width * elements
        y = add(f"conv{b}", [x], work, 4 * elements, recompute_before=f"conv{b}.update")
        tape.append(("conv", y, x, elements, width))
        stats = add(f"bn{b}.stats", [y], 2.0 * elements, 8 * channels)
        add(f"bn{b}.running", [stats], 4.0 * channels, 0, recompute=False)
        z = add(f"bn{b}", [y, stats], elements, 4 * elements, recompute_before=f"bn{b}.update")
        tape.append(("bn", z, f"{y} {stats}", elements, width))
        x = add(f"relu{b}", [z], elements, 4 * elements)
        tape.append(("relu", x, x, elements, width))
        width = channels
        if b % 2:
            pooled = add(f"pool{b}", [x], elements, elements)
            tape.append(("pool", pooled, x, elements, width))
            x = pooled
            extent //= 2
            channels *= 2
    flat = batch * width * extent**2
    logits = add("linear", [x], 10.0 * flat, 40 * batch, recompute_before="linear.update")
    loss = add("loss", [logits, labels], 30.0 * batch, 40 * batch)
    add("report", [loss], 1, 0, recompute=False)
    gradient = add("loss.grad", [loss, labels], 20.0 * batch, 40 * batch, backward=True)
    weights = add("linear.dw", [gradient, x], 10.0 * flat, 40 * flat // batch, backward=True)
    gradient = add(
        "linear.dx",
        [gradient],
        10.0 * flat,
        4 * flat,
        backward=True,
        recompute_before="linear.update",
    )
    add("linear.update", [weights], 10.0 * flat / batch, 0, recompute=False, backward=True)
    for kind, name, saved, elements, inner in reversed(tape):
        sources = saved.split()
        if kind == "pool":
            gradient = add(f"{name}.dx", [gradient, saved], elements, 4 * elements, backward=True)
        elif kind == "relu":
            gradient = add(f"{name}.dx", [gradient, saved], elements, 4 * elements, backward=True)
        elif kind == "bn":
            depth = elements // batch
            parameters = add(
                f"{name}.dp",
                [gradient, *sources],
                2.0 * elements,
                8 * max(1, depth // 64),
                backward=True,
            )
            gradient = add(
                f"{name}.dx",
                [gradient, *sources, parameters],
                4.0 * elements,
                4 * elements,
                backward=True,
                recompute_before=f"{name}.update",
            )
            add(f"{name}.update", [parameters], depth / 64, 0, recompute=False, backward=True)
        else:
            out = elements // batch
            weights = add(
                f"{name}.dw",
                [gradient, saved],
                9.0 * inner * elements,
                36 * inner * 8,
                backward=True,
            )
            if saved != "load":
                gradient = add(
                    f"{name}.dx",
                    [gradient],
                    9.0 * inner * elements,
                    next(n.output_bytes for n in nodes if n.name == saved),
                    backward=True,
                    recompute_before=f"{name}.update",
                )
            add(f"{name}.update", [weights], out / 64, 0, recompute=False, backward=True)
    return ScheduleProblem(f"cnn{blocks}", 0, None, SD_CARD, tuple(nodes))


def random_problem(
    seed: int, nodes: int = 8, slack: float = 0.3, plain: bool = False
) -> ScheduleProblem:
    """A random problem, the same for the same arguments.

    Half of them look like training: the backward half reads the forward half in reverse.

    Args:
        seed: of the random numbers.
        nodes: how many nodes, 4 or more.
        slack: where the budget lies between the largest working set and what checkpoint-all needs.
        plain: whether every tensor has bytes and may be recomputed and paged without workspace.
    """
    rng = random.Random(seed)
    while True:
        problem = _random_problem(f"random-{seed}", rng, nodes, plain)
        graph = Indexed.of(problem)
        floor, peak = max(map(graph.working_set, range(nodes))), _peak_bytes(problem)
        if floor < peak:
            return replace(problem, ram_bytes=floor + int(slack * (peak - floor)))


def _random_problem(name: str, rng: random.Random, nodes: int, plain: bool) -> ScheduleProblem:
    mirrored = rng.random() < 0.5
    made: list[Node] = []
    for i in range(nodes):
        chosen = set(rng.sample(range(i), k=min(i, rng.choice((0, 1, 1, 2)))))
        if mirrored:
            chosen = {nodes - 1 - i} if 2 * i >= nodes and rng.random() < 0.9 else set()
        if i > 0 and rng.random() < 0.9:
            chosen.add(i - 1)
        node = Node(
            name=f"n{i}",
            inputs=tuple(f"n{j}" for j in sorted(chosen)),
            time_s=rng.randint(1, 20) / 10,
            energy_j=rng.randint(1, 20) / 10,
            output_bytes=rng.choice((1, 2, 3, 4, 8, 16)) * 64,
            backward=2 * i >= nodes,
        )
        if not plain:
            node = replace(
                node,
                output_bytes=0 if rng.random() < 0.1 else node.output_bytes,
                workspace_bytes=rng.choice((0, 0, 0, 64, 256)),
                recompute=rng.random() < 0.85,
                page=rng.random() < 0.85,
            )
        made.append(node)
    if not plain:
        for i in range(nodes - 1):
            if rng.random() < 0.15:
                made[i] = replace(made[i], recompute_before=rng.choice(made[i + 1 :]).name)
    page_in = Transfer(640.0, 0.01, rng.choice((0.2, 1.0)) / 640, 0.02)
    page_out = Transfer(512.0, 0.02, rng.choice((0.2, 1.0)) / 512, 0.03)
    return ScheduleProblem(name, 0, None, Storage(128, page_in, page_out), tuple(made))
