# SPDX-License-Identifier: Apache-2.0
"""Prediction of one sample."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.ir import Graph
from poetfw.memory.plan import Allocation
from poetfw.schedule import ExecutionPlan


@dataclass(frozen=True)
class Prediction:
    """Plan and graph that predict one sample.

    Attributes:
        graph: graph from the sample to the network's output.
        plan: execution plan.
        memory: addresses in the arena.
    """

    graph: Graph
    plan: ExecutionPlan
    memory: tuple[Allocation, ...]
