# SPDX-License-Identifier: Apache-2.0
"""The schedule problem and its answer: plain values that need neither a board nor a model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import ClassVar, NamedTuple, Self

from poetfw.common.transfer import BusyTimes, Transfer, page_bytes


@dataclass(frozen=True, slots=True)
class Storage:
    """The auxiliary storage (AUX): what tensors are paged to.

    Attributes:
        block_bytes: transfers are rounded up to whole blocks.
        page_in: from storage to RAM.
        page_out: from RAM to storage.
        overlap: whether a transfer runs while the core computes; there is one channel, so no two
            transfers run at once.
        trailer_bytes: what moves with every tensor.
    """

    block_bytes: int
    page_in: Transfer
    page_out: Transfer
    overlap: bool = False
    trailer_bytes: int = 0

    def paged_bytes(self, size_bytes: int) -> int:
        """Bytes that move when a tensor of `size_bytes` is paged: whole blocks."""
        return page_bytes(size_bytes, self.block_bytes, self.trailer_bytes)

    def moving_in(self, size_bytes: int) -> BusyTimes:
        """Times for which core and channel are busy with paging in a tensor of `size_bytes`."""
        return self._moving(self.page_in, size_bytes)

    def moving_out(self, size_bytes: int) -> BusyTimes:
        """Times for which core and channel are busy with paging out a tensor of `size_bytes`."""
        return self._moving(self.page_out, size_bytes)

    def _moving(self, transfer: Transfer, size_bytes: int) -> BusyTimes:
        paged = self.paged_bytes(size_bytes)
        return transfer.moving(paged) if self.overlap else BusyTimes(transfer.time_s(paged))

    def page_in_time_s(self, size_bytes: int) -> float:
        """Seconds that paging in a tensor of `size_bytes` keeps the channel busy."""
        return self.moving_in(size_bytes).storage_s

    def page_in_energy_j(self, size_bytes: int) -> float:
        """Joules that paging in a tensor of `size_bytes` takes."""
        return self.page_in.cost_j(self.paged_bytes(size_bytes))

    def page_out_time_s(self, size_bytes: int) -> float:
        """Seconds that paging out a tensor of `size_bytes` keeps the channel busy."""
        return self.moving_out(size_bytes).storage_s

    def page_out_energy_j(self, size_bytes: int) -> float:
        """Joules that paging out a tensor of `size_bytes` takes."""
        return self.page_out.cost_j(self.paged_bytes(size_bytes))


@dataclass(frozen=True, slots=True)
class Node:
    """One op and the tensor it produces.

    Attributes:
        name: unique in its problem.
        inputs: names of the nodes whose tensors it reads, each earlier in the problem.
        time_s: seconds that computing it takes.
        energy_j: joules that computing it takes.
        output_bytes: RAM its tensor occupies, alignment included; 0 if it only has side effects.
        workspace_bytes: RAM it needs besides its inputs and output while it runs.
        recompute: whether it may be computed more than once.
        page: whether its tensor may be paged out and in.
        backward: whether it belongs to the backward pass.
        recompute_before: name of the node after which it may not be computed any more (the
            update of a parameter it reads), or None.
        in_place: name of an input of the same size whose RAM its tensor may take over, or None.
            It does where the plan frees that input in the very next step.
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
    """Nodes in topological order, the RAM their tensors share, and what paging costs.

    Every node is computed once at least; in between, nodes may be computed again and tensors
    paged. A tensor is freed after its last use. The order given is where searches begin.

    Attributes:
        name: what is scheduled.
        ram_bytes: the budget that tensors and workspace share at every moment.
        deadline_s: upper bound on the time of one training step, or None.
        storage: what paging costs, or None for a board without storage.
        nodes: the ops in topological order.
        resident_bytes: RAM beside `ram_bytes` that is never free, as parameters take it.
    """

    name: str
    ram_bytes: int
    deadline_s: float | None
    storage: Storage | None
    nodes: tuple[Node, ...]
    resident_bytes: int = 0

    @property
    def budget_bytes(self) -> int:
        """Bytes that the arena may occupy: what nodes share, and what is resident."""
        return self.ram_bytes + self.resident_bytes


class StepKind(StrEnum):
    """The kind of a plan's step."""

    COMPUTE = "compute"
    COPY = "copy"
    PAGE_IN = "page_in"
    PAGE_OUT = "page_out"
    FREE = "free"


class Step(NamedTuple):
    """One step of an execution plan: the node whose op runs or whose tensor moves, and where.

    A step equals only a step: to compare one with a bare tuple is a `TypeError`, since a tuple of
    the kind and the node alone would never be equal.

    Attributes:
        kind: computes, moves or frees.
        node: the node's name.
        device: where it happens; the source of a copy; "" where there is only one device.
        target: the target of a copy, else None.
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
"""The linear list of steps that one training step consists of (POET, Algorithm 2)."""


class Status(StrEnum):
    """Status with which a solve ended."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """The figures of a plan, by the simulator.

    Attributes:
        energy_j: joules of one training step; the sum of compute and paging energy.
        compute_energy_j: joules of computing and recomputing.
        paging_energy_j: joules of page-ins and page-outs.
        time_s: seconds of one training step.
        peak_bytes: largest number of live bytes at any step.
        recomputes: compute steps beyond the first of each node.
        page_ins, page_outs: counts of such steps.
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
        """These figures alone, of something that has them."""
        return cls(**{field.name: getattr(other, field.name) for field in fields(cls)})

    def beside(self, resident_bytes: int) -> Self:
        """The same figures, with so many resident bytes in the peak."""
        return replace(self, peak_bytes=self.peak_bytes + resident_bytes)


class BoundCovers(StrEnum):
    """Of which plans a bound holds.

    All plans are those in any order, with any number of recomputations and transfers.
    A plan in stages computes the nodes for the first time in the order of the problem, and between
    two of these computes again or pages in others in that order, each at most once.
    """

    ALL = "all plans"
    STAGES = "plans in stages in the order given"
    OWN_STAGES = "this scheduler's plans in stages in the order given"


def overhead_gap(gap: float | None, overhead: float | None) -> float | None:
    """A gap, which is a share of the energy, as a share of what is spent beyond keeping everything.

    Args:
        gap: (energy - bound) / energy.
        overhead: energy over that of keeping everything, minus 1.
    """
    if gap is None or overhead is None:
        return None
    return min(1.0, gap * (1 + overhead) / overhead) if overhead > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary(PlanFigures):
    """A scheduler's answer without its plan.

    Attributes:
        scheduler: the name it was asked for by.
        status: how the solve ended.
        overhead: energy over that of keeping everything, minus 1; None where that takes none.
        bound_j: none of the plans that `bound_covers` names takes less energy; None where nothing
            was proven. A plan that is not one of them may lie below it.
        bound_covers: of which plans the bound holds; None where nothing was proven.
        gap: (energy_j - bound_j) / energy_j: how much better any of the plans that the bound covers
            can be. None where nothing was proven, or none can be and this plan is not one of them.
        overhead_gap: the same difference as a share of what is spent beyond keeping everything;
            None where `gap` is, or keeping everything takes no energy.
    """

    # It is part of a file that a build writes and a run reads.
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
    """A scheduler's answer. The simulator has accepted the plan and all figures are its own.

    Attributes:
        plan: the execution plan.
        faster: nodes that run in less time and energy than in the problem that was given, and in
            more workspace; see `poetfw.planning.variants`.
    """

    plan: ExecutionPlan
    faster: tuple[str, ...] = ()
