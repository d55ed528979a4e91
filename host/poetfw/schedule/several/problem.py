# SPDX-License-Identifier: Apache-2.0
"""Problem of one training step on several devices, each with its own RAM, storage and costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from poetfw.common.errors import InfeasibleError, PlanError, ProblemError
from poetfw.common.option_values import LARGEST_BYTES
from poetfw.common.transfer import Transfer
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import (
    BoundCovers,
    ExecutionPlan,
    ScheduleProblem,
    Status,
    Storage,
)
from poetfw.schedule.validation import require, require_transfer, validate


@dataclass(frozen=True, slots=True)
class Device:
    """Device with its own memory.

    Attributes:
        name: unique in its problem.
        problem: graph with the costs on this device, its RAM and its storage; without a deadline,
            which `DevicesProblem` holds for all devices.
        lacks: names of the nodes that it cannot compute.
        idle_w: constant power draw in watts, in addition to the nodes' energy.
    """

    name: str
    problem: ScheduleProblem
    lacks: frozenset[str] = frozenset()
    idle_w: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """Cost of copying a tensor from one device to another, in one direction.

    Attributes:
        source, target: names of devices.
        transfer: time and energy of a copy.
        buffer_bytes: extra RAM on both devices during a copy, beside the tensor.
    """

    source: str
    target: str
    transfer: Transfer
    buffer_bytes: int = 0


class Minimise(StrEnum):
    """Objective of a schedule."""

    TIME = "time"
    ENERGY = "energy"


@dataclass(frozen=True, slots=True)
class DevicesProblem:
    """Graph, the devices that may compute it, and the links between them.

    A copied tensor is resident on the target from the copy until it is freed there.

    Attributes:
        name: name of the problem.
        devices: all with the same graph.
        links: at most one per direction of a pair of devices.
        deadline_s: upper bound on the time of one training step, or None.
        parallel: True if devices and links work at the same time, each in the plan's order; False
            if all steps run one after another.
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    deadline_s: float | None = None
    parallel: bool = False

    @property
    def idle_w(self) -> float:
        """Sum of the devices' constant power draw, in watts."""
        return math.fsum(device.idle_w for device in self.devices)

    @property
    def tensor_bytes(self) -> dict[str, int]:
        """Bytes of each node's tensor, the same on all devices."""
        return {node.name: node.output_bytes for node in self.devices[0].problem.nodes}

    def cost(self, minimise: Minimise, energy_j: float, time_s: float) -> float:
        """Value of the objective for a step's energy and time: joules or seconds."""
        return time_s if minimise is Minimise.TIME else energy_j + self.idle_w * time_s

    def priced(self, device: Device, minimise: Minimise) -> ScheduleProblem:
        """One device's problem with the objective as its energies, and with the deadline."""

        def transfer(of: Transfer) -> Transfer:
            per_byte_s = 1 / of.bandwidth_bytes_per_s
            return replace(
                of,
                energy_j_per_byte=self.cost(minimise, of.energy_j_per_byte, per_byte_s),
                energy_j=self.cost(minimise, of.energy_j, of.latency_s),
            )

        storage, problem = device.problem.storage, device.problem
        return replace(
            problem,
            deadline_s=self.deadline_s,
            nodes=tuple(
                replace(node, energy_j=self.cost(minimise, node.energy_j, node.time_s))
                for node in problem.nodes
            ),
            storage=None
            if storage is None
            else replace(
                storage, page_in=transfer(storage.page_in), page_out=transfer(storage.page_out)
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesFigures:
    """Figures of a plan, measured by the simulator.

    Attributes:
        energy_j: joules of one training step, including the devices' idle power.
        time_s: seconds of one training step.
        peak_bytes: per device, the peak of its live bytes.
        computed: per device, the number of its compute steps.
        recomputes: number of compute steps beyond the first of each node.
        copies, page_ins, page_outs: numbers of such steps.
    """

    energy_j: float
    time_s: float
    peak_bytes: dict[str, int]
    computed: dict[str, int]
    recomputes: int
    copies: int
    page_ins: int
    page_outs: int


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Bounds and reference times of a plan for parallel devices, in seconds.

    Attributes:
        path_s: length of the critical path, with each node on its fastest device; a lower bound.
        balanced_s: time of a perfect split of all nodes over the devices, with divisible nodes and
            free copies; a lower bound.
        sequential_s: time of the best known sequential plan; None without one.
    """

    path_s: float
    balanced_s: float
    sequential_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesSchedule(DevicesFigures):
    """Schedule of a problem with several devices. The simulator has accepted its plan.

    Attributes:
        scheduler: name of the scheduler.
        status: OPTIMAL if the gap is 0 and the plan is among those of `bound_covers`.
        minimised: the objective.
        bound: lower bound on the cost of the plans of `bound_covers`, seconds or joules; other
            plans may cost less.
        bound_covers: set of plans for which the bound holds.
        ceiling: cost of the best placement without memory limits, a lower bound for every plan.
        gap: (cost - bound) / cost; None where the plan costs no more than the bound without being
            among the plans of `bound_covers`, so that nothing is proven.
        plan: the plan.
        tensor_bytes: bytes of each node's tensor, by name; identifies the graph.
        at_once: bounds of a parallel plan; None for a sequential one.
    """

    scheduler: str
    status: Status
    minimised: Minimise
    bound: float
    bound_covers: BoundCovers
    ceiling: float
    gap: float | None
    plan: ExecutionPlan
    tensor_bytes: dict[str, int]
    at_once: AtOnce | None = None

    @property
    def cost(self) -> float:
        """Value of the objective: seconds or joules."""
        return self.time_s if self.minimised is Minimise.TIME else self.energy_j


def validate_devices(problem: DevicesProblem) -> None:
    """Check the assumptions of the schedulers and the simulator.

    Raises:
        ProblemError: a device or a link is malformed, or devices have different graphs.
        InfeasibleError: a node fits on no device that can compute it.
    """
    if not problem.devices:
        raise ProblemError(f"problem {problem.name!r} has no devices: it needs at least one")
    for name, count in Counter(device.name for device in problem.devices).items():
        if count > 1:
            raise ProblemError(f"device {name!r} appears {count} times: names must be unique")
    if problem.deadline_s is not None:
        require(f"problem {problem.name!r}", "deadline_s", problem.deadline_s)
    graph = _graph(problem.devices[0].problem)
    for device in problem.devices:
        try:
            validate(device.problem)
        except ProblemError as error:
            raise ProblemError(f"device {device.name!r}: {error.message}") from error
        require(f"device {device.name!r}", "idle_w", device.idle_w)
        if device.problem.deadline_s is not None:
            raise ProblemError(f"device {device.name!r} has a deadline, but all devices share one")
        if _graph(device.problem) != graph:
            raise ProblemError(
                f"devices {problem.devices[0].name!r} and {device.name!r} have different graphs"
            )
        if device.lacks >= {node.name for node in device.problem.nodes}:
            raise ProblemError(f"device {device.name!r} can compute no node", "leave it out")
        storage = device.problem.storage
        if len(problem.devices) > 1 and storage is not None and storage.overlap:
            raise ProblemError(
                f"device {device.name!r} has a storage with overlap, which is not supported with "
                "several devices"
            )
    _check_links(problem)
    _check_working_sets(problem)


def require_same_graph(problem: DevicesProblem, tensor_bytes: Mapping[str, int] | None) -> None:
    """Check that an answer belongs to a problem's graph.

    Args:
        problem: valid.
        tensor_bytes: of the answer, see `DevicesSchedule`; None skips the check.

    Raises:
        PlanError: the answer has another graph, such as that of another batch size.
    """
    here = problem.tensor_bytes
    there = here if tensor_bytes is None else tensor_bytes
    for name in {**here, **there}:
        if name not in here:
            differs = f"it has a node {name!r}"
        elif name not in there:
            differs = f"it has no node {name!r}"
        elif here[name] != there[name]:
            differs = f"{name!r} makes {there[name]:,} bytes there, and {here[name]:,} here"
        else:
            continue
        raise PlanError(
            f"the answer is not of this model and batch: {differs}",
            "give the model, batch and optimizer that it was found for",
        )


def without_overlap(storage: Storage | None) -> Storage | None:
    """Storage without overlap: several devices wait for every transfer."""
    return None if storage is None else replace(storage, overlap=False)


def _graph(problem: ScheduleProblem) -> list[object]:
    return [replace(node, time_s=0.0, energy_j=0.0, workspace_bytes=0) for node in problem.nodes]


def _check_links(problem: DevicesProblem) -> None:
    names = [device.name for device in problem.devices]
    ends = [(link.source, link.target) for link in problem.links]
    for link in problem.links:
        where = f"the link from {link.source!r} to {link.target!r}"
        if link.source == link.target or not {link.source, link.target} <= set(names):
            raise ProblemError(f"{where} does not join two devices: known are {', '.join(names)}")
        if ends.count((link.source, link.target)) > 1:
            raise ProblemError(f"{where} appears {ends.count((link.source, link.target))} times")
        require_transfer(where, link.transfer)
        require(where, "buffer_bytes", link.buffer_bytes, LARGEST_BYTES)
    for name in names:
        if len(names) > 1 and not any(name in pair for pair in ends):
            raise ProblemError(
                f"no link joins device {name!r} to another", "add a link, or leave the device out"
            )


def _check_working_sets(problem: DevicesProblem) -> None:
    graphs = [Indexed.of(device.problem) for device in problem.devices]
    nowhere: list[tuple[int, str, str]] = []
    for i, node in enumerate(problem.devices[0].problem.nodes):
        able = [
            (graph.working_set(i), device)
            for device, graph in zip(problem.devices, graphs, strict=True)
            if node.name not in device.lacks
        ]
        if not able:
            raise InfeasibleError(f"node {node.name!r} can be computed on no device")
        if all(needs > device.problem.ram_bytes for needs, device in able):
            wants = " and ".join(
                f"{needs:,} bytes on {device.name!r}, which has {device.problem.ram_bytes:,} bytes"
                for needs, device in able
            )
            nowhere.append((min(needs for needs, _ in able), node.name, wants))
    if nowhere:
        _, name, wants = max(nowhere, key=lambda found: found[0])  # the node that needs most
        raise InfeasibleError(
            f"node {name!r} fits on no device: it needs {wants}", "give one of the devices more RAM"
        )
