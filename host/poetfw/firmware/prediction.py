# SPDX-License-Identifier: Apache-2.0
"""The prediction of one sample."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.ir import Graph
from poetfw.memory.plan import Allocation
from poetfw.schedule import ExecutionPlan


@dataclass(frozen=True)
class Prediction:
    """Plan and graph that predict one sample.

    Attributes:
        graph: from the sample to the network's output.
        plan: when its ops run.
        memory: where its tensors lie in the arena.
    """

    graph: Graph
    plan: ExecutionPlan
    memory: tuple[Allocation, ...]
