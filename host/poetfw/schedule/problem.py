# SPDX-License-Identifier: Apache-2.0
"""The schedule problem and its answer: plain values, independent of boards and models."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self

from poetfw.common.transfer import BusyTimes, Transfer, page_bytes


@dataclass(frozen=True, slots=True)
class Storage:
    """The auxiliary storage (AUX) to which tensors are paged.

    Attributes:
        block_bytes: transfers are rounded up to whole blocks.
        page_in: costs of a transfer from storage to RAM.
        page_out: costs of a transfer from RAM to storage.
        overlap: true if a transfer runs while the core computes. There is one channel: transfers
            never overlap each other.
        trailer_bytes: extra bytes transferred with every tensor.
    """

    block_bytes: int
    page_in: Transfer
    page_out: Transfer
    overlap: bool = False
    trailer_bytes: int = 0

    def paged_bytes(self, size_bytes: int) -> int:
        """Bytes transferred to page a tensor of `size_bytes`: whole blocks."""
        return page_bytes(size_bytes, self.block_bytes, self.trailer_bytes)

    def moving_in(self, size_bytes: int) -> BusyTimes:
        """Seconds that core and channel are busy paging in a tensor of `size_bytes`."""
        return self._moving(self.page_in, size_bytes)

    def moving_out(self, size_bytes: int) -> BusyTimes:
        """Seconds that core and channel are busy paging out a tensor of `size_bytes`."""
        return self._moving(self.page_out, size_bytes)

    def _moving(self, transfer: Transfer, size_bytes: int) -> BusyTimes:
        paged = self.paged_bytes(size_bytes)
        return transfer.moving(paged) if self.overlap else BusyTimes(transfer.time_s(paged))

    def page_in_time_s(self, size_bytes: int) -> float:
        """Seconds that paging in a tensor of `size_bytes` keeps the channel busy."""
        return self.moving_in(size_bytes).storage_s

    def page_in_energy_j(self, size_bytes: int) -> float:
        """Joules to page in a tensor of `size_bytes`."""
        return self.page_in.cost_j(self.paged_bytes(size_bytes))

    def page_out_time_s(self, size_bytes: int) -> float:
        """Seconds that paging out a tensor of `size_bytes` keeps the channel busy."""
        return self.moving_out(size_bytes).storage_s

    def page_out_energy_j(self, size_bytes: int) -> float:
        """Joules to page out a tensor of `size_bytes`."""
        return self.page_out.cost_j(self.paged_bytes(size_bytes))


@dataclass(frozen=True, slots=True)
class Node:
    """One op and the tensor it produces.

    Attributes:
        name: unique in its problem.
        inputs: names of the nodes whose tensors it reads, each earlier in the problem.
        time_s: seconds to compute it.
        energy_j: joules to compute it.
        output_bytes: RAM of its tensor, alignment included; 0 if it only has side effects.
        workspace_bytes: RAM needed beside its inputs and output while it runs.
        recompute: true if it may be computed more than once.
        page: true if its tensor may be paged.
        backward: true if it belongs to the backward pass.
        recompute_before: name of the node after which it must not be computed (the update of a
            parameter that it reads), or None.
        in_place: name of an input of the same size whose RAM its tensor may take over, or None.
            It takes it over if the plan frees that input in the next step.
    """

    name: str
    inputs: tuple[str, ...]
    time_s: float
    energy_j: float
    output_bytes: int
    workspace_bytes: int = 0
    recompute: bool = True
    page: bool = True
    backward: bool = False
    recompute_before: str | None = None
    in_place: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleProblem:
    """Nodes in topological order, the RAM budget of their tensors, and the costs of paging.

    A plan computes every node at least once, may recompute nodes and page tensors, and frees each
    tensor after its last use. Searches start from the order given.

    Attributes:
        name: name of the problem, for messages.
        ram_bytes: budget for tensors and workspace at every moment.
        deadline_s: upper bound on the time of one training step in seconds, or None.
        storage: auxiliary storage, or None for a board without one.
        nodes: the ops in topological order.
        resident_bytes: RAM beside `ram_bytes` that is never free, such as that of parameters.
    """

    name: str
    ram_bytes: int
    deadline_s: float | None
    storage: Storage | None
    nodes: tuple[Node, ...]
    resident_bytes: int = 0

    @property
    def budget_bytes(self) -> int:
        """Bytes of the whole arena: `ram_bytes` plus `resident_bytes`."""
        return self.ram_bytes + self.resident_bytes


class StepKind(StrEnum):
    """The kind of a plan's step."""

    COMPUTE = "compute"
    COPY = "copy"
    PAGE_IN = "page_in"
    PAGE_OUT = "page_out"
    FREE = "free"


class Step(NamedTuple):
    """One step of an execution plan: compute a node, or move or free its tensor.

    Comparing a step with a plain tuple raises `TypeError`: a (kind, node) pair would never be
    equal to a step.

    Attributes:
        kind: compute, copy, page in, page out or free.
        node: name of the node.
        device: device that runs the step; the source of a copy; "" if there is only one device.
        target: target device of a copy, else None.
    """

    kind: StepKind
    node: str
    device: str = ""
    target: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Step):
            raise TypeError(f"a plan step is compared with {other!r}, which is not a Step")
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)


ExecutionPlan = tuple[Step, ...]
"""The steps of one training step, in execution order (POET, Algorithm 2)."""


class Status(StrEnum):
    """Outcome of a solve."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """Costs of a plan, measured by the simulator.

    Attributes:
        energy_j: joules of one training step: `compute_energy_j` + `paging_energy_j`.
        compute_energy_j: joules of all compute steps, recomputes included.
        paging_energy_j: joules of page-ins and page-outs.
        time_s: seconds of one training step.
        peak_bytes: largest number of live bytes at any step.
        recomputes: number of compute steps beyond the first of each node.
        page_ins, page_outs: number of such steps.
    """

    energy_j: float
    compute_energy_j: float
    paging_energy_j: float
    time_s: float
    peak_bytes: int
    recomputes: int
    page_ins: int
    page_outs: int

    @classmethod
    def of(cls, other: PlanFigures) -> Self:
        """Copy the figures, and nothing else, from an instance of a subclass."""
        return cls(**{field.name: getattr(other, field.name) for field in fields(cls)})

    def beside(self, resident_bytes: int) -> Self:
        """The same figures, with resident bytes added to the peak."""
        return replace(self, peak_bytes=self.peak_bytes + resident_bytes)


class BoundCovers(StrEnum):
    """Set of plans for which a lower bound holds.

    "All plans" means any order and any number of recomputes and transfers. A plan in stages runs
    the nodes' first computations in the order of the problem. Between two of them it may recompute
    or page in each earlier node at most once, in the same order.
    """

    ALL = "all plans"
    STAGES = "plans in stages in the order given"
    OWN_STAGES = "this scheduler's plans in stages in the order given"

    @property
    def in_words(self) -> str:
        """Plain words for the set; `--json` has the exact ones."""
        return self.value.replace("plans in stages in the order given", "plans for this op order")


def overhead_gap(gap: float | None, overhead: float | None) -> float | None:
    """Convert a gap from a share of the energy to a share of the overhead, in 0 … 1.

    Args:
        gap: (energy - bound) / energy.
        overhead: energy / (energy of keeping every tensor) - 1.

    Returns:
        None if either argument is None.
    """
    if gap is None or overhead is None:
        return None
    return min(1.0, gap * (1 + overhead) / overhead) if overhead > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary(PlanFigures):
    """A scheduler's answer without its plan.

    Attributes:
        scheduler: key of the scheduler.
        status: outcome of the solve.
        overhead: energy / (energy of keeping every tensor) - 1; None if the latter is 0.
        bound_j: lower bound, in joules, on the energy of the plans in `bound_covers`; None if
            nothing was proven. Other plans may take less.
        bound_covers: plans for which the bound holds; None if nothing was proven.
        gap: (energy_j - bound_j) / energy_j, at least 0: the most that a plan in `bound_covers` can
            save. None if nothing was proven, or if this plan is outside `bound_covers` and at least
            as good as all plans in it, and the scheduler has no bound of all plans.
        overhead_gap: the same difference as a share of the overhead's energy; None if `gap` or
            `overhead` is None.
    """

    # Part of a file that a build writes and a run reads.
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "strict": True}

    scheduler: str
    status: Status
    overhead: float | None
    bound_j: float | None
    bound_covers: BoundCovers | None
    gap: float | None
    overhead_gap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(ScheduleSummary):
    """A scheduler's answer: a plan that the simulator accepted, with the simulator's figures.

    Attributes:
        plan: the execution plan.
    """

    plan: ExecutionPlan
