# SPDX-License-Identifier: Apache-2.0
"""The problem in POET's published model, which simplifies the one that devices are scheduled by.

What Patil et al. (ICML 2022, sections 4 and 5) leave out: paging takes energy but no time, and
moves bytes, not blocks; ops need no workspace and write over nothing; weight gradients and
optimizer state are no tensors of the problem. Energies and times of ops stay, and so does the
energy that beginning a transfer takes.

What is left out makes every plan cheaper, so figures under this model compare with the paper's and
with nothing that runs on a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from poetfw.common.transfer import Transfer
from poetfw.schedule.problem import ScheduleProblem, Storage


def as_published(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem as the paper models it.

    Tensors that are read, and only by nodes with side effects (weight gradients, by the update of
    their weights), take no RAM; nor do the weights. What nodes share and the deadline stay.
    """
    without_tensor = {node.name for node in problem.nodes if not node.output_bytes}
    readers: dict[str, set[str]] = {node.name: set() for node in problem.nodes}
    for node in problem.nodes:
        for name in node.inputs:
            readers[name].add(node.name)
    free = {name for name, by in readers.items() if by and by <= without_tensor}
    nodes = tuple(
        replace(
            node,
            output_bytes=0 if node.name in free else node.output_bytes,
            page=node.page and node.name not in free,
            workspace_bytes=0,
            in_place=None,
        )
        for node in problem.nodes
    )
    storage = None if problem.storage is None else _timeless(problem.storage)
    return replace(problem, nodes=nodes, storage=storage, resident_bytes=0)


def _timeless(storage: Storage) -> Storage:
    def transfer(cost: Transfer) -> Transfer:
        return replace(cost, bandwidth_bytes_per_s=math.inf, latency_s=0.0)

    return replace(
        storage,
        block_bytes=1,
        page_in=transfer(storage.page_in),
        page_out=transfer(storage.page_out),
    )


MODELS_AS: Mapping[str, Callable[[ScheduleProblem], ScheduleProblem]] = MappingProxyType(
    {"device": lambda problem: problem, "poet": as_published}
)
"""Models of a problem: by what its device does, or as in POET's paper."""
