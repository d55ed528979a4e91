# SPDX-License-Identifier: Apache-2.0
"""POET's published model of a problem, a simplification of the model used for devices.

In Patil et al. (ICML 2022, sections 4 and 5) paging takes energy but no time, and transfers bytes
instead of blocks. Ops have no workspace and never run in place. Weight gradients and optimizer
state take no RAM. Energies and times of ops are unchanged, as is the energy to start a transfer.

Every simplification makes plans cheaper. Compare figures under this model with the paper's only,
never with measurements on a device.
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

    Weights take no RAM, nor do tensors read only by nodes with side effects, such as weight
    gradients, read by the update of their weights. `ram_bytes` and the deadline are unchanged.
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
"""Models by name: "device" leaves the problem as it is, "poet" follows the paper."""
