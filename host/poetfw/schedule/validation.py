# SPDX-License-Identifier: Apache-2.0
"""Validation of schedule problems; error messages name the node."""

from __future__ import annotations

import math
from collections import Counter
from graphlib import CycleError, TopologicalSorter

from poetfw.common.errors import ProblemError, listed
from poetfw.common.option_values import LARGEST_BYTES, LARGEST_COST
from poetfw.common.transfer import OverlapCosts, Transfer
from poetfw.schedule.problem import Node, ScheduleProblem, Storage


def validate(problem: ScheduleProblem) -> None:
    """Check a problem before it goes to a scheduler or the simulator.

    Raises:
        ProblemError: the problem has no node, a name appears twice, an input does not exist, comes
            later or is part of a cycle, or a figure is negative, not finite, or above
            `LARGEST_BYTES` or `LARGEST_COST`.
    """
    if not problem.nodes:
        raise ProblemError(f"problem {problem.name!r} has no nodes: it needs at least one")
    for name in ("ram_bytes", "resident_bytes"):
        require(f"problem {problem.name!r}", name, getattr(problem, name), LARGEST_BYTES)
    if problem.deadline_s is not None:
        require(f"problem {problem.name!r}", "deadline_s", problem.deadline_s)
    if problem.storage is not None:
        _check_storage(problem.storage)
    _check_names(problem.nodes)
    for node in problem.nodes:
        where = f"node {node.name!r}"
        require(where, "time_s", node.time_s)
        require(where, "energy_j", node.energy_j)
        require(where, "output_bytes", node.output_bytes, LARGEST_BYTES)
        require(where, "workspace_bytes", node.workspace_bytes, LARGEST_BYTES)


def _check_names(nodes: tuple[Node, ...]) -> None:
    names = [node.name for node in nodes]
    for name, count in Counter(names).items():
        if count > 1:
            raise ProblemError(f"node {name!r} appears {count} times: names must be unique")
    position = {name: i for i, name in enumerate(names)}
    for node in nodes:
        for name in node.inputs:
            if name not in position:
                raise ProblemError(f"node {node.name!r} reads {name!r}, which is not a node")
    try:
        TopologicalSorter({node.name: node.inputs for node in nodes}).prepare()
    except CycleError as error:
        path = listed([repr(name) for name in error.args[1]], " -> ")
        raise ProblemError(f"node {error.args[1][0]!r} is part of a cycle: {path}") from error
    for i, node in enumerate(nodes):
        for name in node.inputs:
            if position[name] > i:
                raise ProblemError(
                    f"node {node.name!r} reads {name!r}, which comes after it: "
                    "nodes must be in topological order"
                )
        if node.in_place is not None:
            _check_in_place(node, nodes[position.get(node.in_place, i)])
        before = node.recompute_before
        if before is not None and position.get(before, -1) <= i:
            raise ProblemError(
                f"node {node.name!r} has recompute_before {before!r}, which is not a later node"
            )


def _check_in_place(node: Node, taken: Node) -> None:
    if node.in_place not in node.inputs or taken.output_bytes != node.output_bytes:
        raise ProblemError(
            f"node {node.name!r} has in_place {node.in_place!r}, which is not an input of its size"
        )


def _check_storage(storage: Storage) -> None:
    if storage.block_bytes < 1:
        raise ProblemError(f"storage has block_bytes {storage.block_bytes}: expected 1 or more")
    require("storage", "block_bytes", storage.block_bytes, LARGEST_BYTES)
    require("storage", "trailer_bytes", storage.trailer_bytes, LARGEST_BYTES)
    for name in ("page_in", "page_out"):
        require_transfer(f"storage's {name}", getattr(storage, name))


def require_transfer(where: str, transfer: Transfer) -> None:
    """Check the costs of a transfer.

    Raises:
        ProblemError: a figure is negative, not finite or too large, or the bandwidth is 0.
    """
    _check_rates(where, transfer, ("latency_s", "energy_j_per_byte", "energy_j"))
    if transfer.beside is not None:
        quantities = ("latency_s", "core_latency_s", "core_s_per_byte")
        _check_rates(f"{where}.beside", transfer.beside, quantities)


def _check_rates(where: str, rates: Transfer | OverlapCosts, quantities: tuple[str, ...]) -> None:
    for quantity in quantities:
        require(where, quantity, getattr(rates, quantity))
    bandwidth = rates.bandwidth_bytes_per_s
    if not bandwidth > 0:  # infinity means that bytes take no time; NaN is refused
        raise ProblemError(f"{where} has bandwidth_bytes_per_s {bandwidth}: expected more than 0")


def require(where: str, quantity: str, value: float, most: float = LARGEST_COST) -> None:
    """Check one figure of a problem.

    Raises:
        ProblemError: the figure is negative, not finite, or above `most`.
    """
    if not (math.isfinite(value) and value >= 0):
        raise ProblemError(f"{where} has {quantity} {value}: expected a finite number, 0 or more")
    if value > most:
        raise ProblemError(f"{where} has {quantity} {value}: expected {most:g} or less")
