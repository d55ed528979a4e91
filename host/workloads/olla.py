# SPDX-License-Identifier: Apache-2.0
"""OLLA's networks: memory of a training step in PyTorch's order and in ours, shared and placed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from poetfw.common.limits import Work
from poetfw.memory import Buffer, place, validate_placement
from poetfw.memory.ordering import Ordering, OrderingProblem, lifetimes, order_ops, peak_bytes
from workloads.caching_allocator import reserved_bytes
from workloads.networks import NETWORKS, OLLA
from workloads.networks.sharing import with_fused_updates, with_sharing
from workloads.networks.tape import TrainingStep
from workloads.published import published


@dataclass(frozen=True, slots=True)
class Row:
    """One network at one batch. All bytes include what is resident.

    Attributes:
        network, batch, ops: what was ordered.
        pytorch_peak_bytes: live bytes at most, in PyTorch's order.
        pytorch_reserved_bytes: what the model of its caching allocator reserves for it.
        pytorch1_peak_bytes, pytorch1_reserved_bytes: the same before PyTorch 2.0.
        peak_bytes: live bytes at most, in our order, without sharing.
        lower_bound_bytes: no order has a smaller peak without sharing.
        shared_peak_bytes: live bytes at most with sharing, in the order that was found for it.
        shared_lower_bound_bytes: no order has a smaller peak with sharing.
        arena_bytes: what that takes when placed at fixed addresses.
        fused_arena_bytes: the same with large weight gradients applied and never stored.
        kept_bytes: what every order holds between the forward and the backward pass.
        shared_tensors: tensors that are written over another one, besides PyTorch's own.
        ordering_time_s, sharing_time_s, placement_time_s: seconds for each; sharing includes the
            second ordering.
    """

    network: str
    batch: int
    ops: int
    pytorch_peak_bytes: int
    pytorch_reserved_bytes: int
    pytorch1_peak_bytes: int
    pytorch1_reserved_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    shared_peak_bytes: int
    shared_lower_bound_bytes: int
    arena_bytes: int
    fused_arena_bytes: int
    kept_bytes: int
    shared_tensors: int
    ordering_time_s: float
    sharing_time_s: float
    placement_time_s: float

    @property
    def gap(self) -> float:
        """Share of the ordered peak that another order might still save."""
        return 1 - self.lower_bound_bytes / self.peak_bytes

    @property
    def shared_gap(self) -> float:
        """Share of the peak with sharing that another order might still save."""
        return 1 - self.shared_lower_bound_bytes / self.shared_peak_bytes

    @property
    def ordering_reduction(self) -> float:
        """Share of PyTorch's peak that ordering saves."""
        return 1 - self.peak_bytes / self.pytorch_peak_bytes

    @property
    def ordering_reduction_1(self) -> float:
        """Share of the peak before PyTorch 2.0 that ordering and freeing gradients save."""
        return 1 - self.peak_bytes / self.pytorch1_peak_bytes

    @property
    def sharing_reduction(self) -> float:
        """Share of the ordered peak that sharing saves."""
        return 1 - self.shared_peak_bytes / self.peak_bytes

    @property
    def fragmentation(self) -> float:
        """Share of our arena that is never needed at once."""
        return 1 - self.shared_peak_bytes / self.arena_bytes

    @property
    def pytorch_fragmentation(self) -> float:
        """Share of what PyTorch reserves that is never live at once."""
        return 1 - self.pytorch_peak_bytes / self.pytorch_reserved_bytes

    @property
    def total_reduction(self) -> float:
        """Share of what PyTorch reserves that ordering, sharing and placement save."""
        return 1 - self.arena_bytes / self.pytorch_reserved_bytes

    @property
    def fused_reduction(self) -> float:
        """Share of what PyTorch reserves that is saved with fused updates as well."""
        return 1 - self.fused_arena_bytes / self.pytorch_reserved_bytes

    @property
    def total_reduction_1(self) -> float:
        """Share of what PyTorch before 2.0 reserves that is saved in all."""
        return 1 - self.arena_bytes / self.pytorch1_reserved_bytes

    @property
    def reduction_limit(self) -> float:
        """Share of what PyTorch reserves that no order, sharing or placement saves more than."""
        return 1 - self.kept_bytes / self.pytorch_reserved_bytes


def kept_bytes(problem: OrderingProblem) -> int:
    """Bytes that are live in every order where a backward pass begins, resident ones included.

    A tensor that some op before it in every order produces and another one after it in every order
    reads is live then, whatever is shared: lifetimes that meet do not share.
    """
    producer = {tensor: op.name for op in problem.ops for tensor in op.outputs}
    before = {
        op.name: {*op.after, *(producer[tensor] for tensor in op.inputs)} for op in problem.ops
    }
    most = 0
    for begin in (op.name for op in problem.ops if op.name.endswith(" ones_like")):
        earlier: set[str] = set()
        pending = [begin]
        while pending:
            fresh = before[pending.pop()] - earlier
            earlier |= fresh
            pending.extend(fresh)
        later = {begin}
        kept: set[str] = set()
        for op in problem.ops:
            if op.name not in later and later.isdisjoint(before[op.name]):
                continue
            later.add(op.name)
            if op.name != begin:
                kept.update(tensor for tensor in op.inputs if producer[tensor] in earlier)
        most = max(most, sum(problem.sizes[tensor] for tensor in kept))
    return problem.resident_bytes + most


class _Stages(NamedTuple):
    """A step ordered, shared and placed; bytes include what is resident."""

    ordering: Ordering
    sharing: Ordering
    arena_bytes: int
    buffers: int
    ordering_time_s: float
    sharing_time_s: float
    placement_time_s: float


def buffers_of(problem: OrderingProblem, order: Sequence[str]) -> list[Buffer]:
    """Tensors and workspaces to be placed if the ops run in an order."""
    workspace = {op.name: op.workspace_bytes for op in problem.ops}
    return [
        *(
            Buffer(life.tensor, life.lower, life.upper, problem.sizes[life.tensor])
            for life in lifetimes(problem, order)
        ),
        *(
            Buffer(f"{name}.workspace", at, at + 1, workspace[name])
            for at, name in enumerate(order)
            if workspace[name]
        ),
    ]


def _plan(step: TrainingStep, work_limit: float) -> _Stages:
    begin = time.perf_counter()
    ordering = order_ops(step.problem, Work(work_limit))
    ordering_time_s = time.perf_counter() - begin

    begin = time.perf_counter()
    shared = with_sharing(step, ordering.order)
    again = order_ops(shared, Work(work_limit))
    sharing_time_s = time.perf_counter() - begin

    begin = time.perf_counter()
    buffers = buffers_of(shared, again.order)
    placement = place(buffers, work=Work(work_limit))
    placement_time_s = time.perf_counter() - begin
    validate_placement(buffers, placement)
    return _Stages(
        ordering,
        again,
        shared.resident_bytes + placement.height_bytes,
        len(buffers),
        ordering_time_s,
        sharing_time_s,
        placement_time_s,
    )


def measure(network: str, batch: int, work_limit: float = 60.0) -> Row:
    """Order, share and place one network; each search may take so much work."""
    step = NETWORKS[network](batch)
    problem = step.problem
    kept = step.with_kept_gradients()
    ours = _plan(step, work_limit)
    fused = _plan(with_fused_updates(step), work_limit)
    return Row(
        network=network,
        batch=batch,
        ops=len(problem.ops),
        pytorch_peak_bytes=peak_bytes(problem),
        pytorch_reserved_bytes=reserved_bytes(problem, step.resident),
        pytorch1_peak_bytes=peak_bytes(kept.problem),
        pytorch1_reserved_bytes=reserved_bytes(kept.problem, kept.resident),
        peak_bytes=peak_bytes(problem, ours.ordering.order),
        lower_bound_bytes=ours.ordering.lower_bound_bytes,
        shared_peak_bytes=ours.sharing.peak_bytes,
        shared_lower_bound_bytes=ours.sharing.lower_bound_bytes,
        arena_bytes=ours.arena_bytes,
        fused_arena_bytes=fused.arena_bytes,
        kept_bytes=kept_bytes(problem),
        shared_tensors=len(problem.sizes) - ours.buffers,
        ordering_time_s=ours.ordering_time_s,
        sharing_time_s=ours.sharing_time_s,
        placement_time_s=ours.placement_time_s,
    )


def summarize(rows: Sequence[Row], pytorch_fragmentation: float | None) -> dict[str, float]:
    """Means and medians over networks.

    Args:
        rows: of the networks, at one batch.
        pytorch_fragmentation: the mean fragmentation that OLLA measured of PyTorch; None if it is
            not known.
    """
    mean, median = statistics.mean, statistics.median
    figures = {
        "mean_ordering_reduction": mean(r.ordering_reduction for r in rows),
        "mean_ordering_reduction_from_pytorch_1": mean(r.ordering_reduction_1 for r in rows),
        "mean_sharing_reduction": mean(r.sharing_reduction for r in rows),
        "mean_pytorch_fragmentation": mean(r.pytorch_fragmentation for r in rows),
        "mean_fragmentation": mean(r.fragmentation for r in rows),
        "mean_total_reduction": mean(r.total_reduction for r in rows),
        "mean_total_reduction_fused": mean(r.fused_reduction for r in rows),
        "mean_total_reduction_limit": mean(r.reduction_limit for r in rows),
        "median_total_reduction": median(r.total_reduction for r in rows),
        "mean_total_reduction_from_pytorch_1": mean(r.total_reduction_1 for r in rows),
        "median_ordering_time_s": median(r.ordering_time_s for r in rows),
        "median_sharing_time_s": median(r.sharing_time_s for r in rows),
        "median_placement_time_s": median(r.placement_time_s for r in rows),
        "largest_ordering_gap": max(r.gap for r in rows),
        "largest_sharing_gap": max(r.shared_gap for r in rows),
    }
    if pytorch_fragmentation is not None:
        kept = mean(r.arena_bytes / r.pytorch_peak_bytes for r in rows)
        figures[_AT_MEASURED] = 1 - (1 - pytorch_fragmentation) * kept
    return figures


_AT_MEASURED = "mean_total_reduction_at_measured_fragmentation"
"""Saving if PyTorch's fragmentation were the mean that OLLA measured, on each network."""


def published_figures(batch: int) -> dict[str, float]:
    """OLLA's figures for a batch, named as in `summarize`; none for a batch it does not report."""
    figures = published("olla_2022")
    ordering, addresses = figures["reordering_only"], figures["address_assignment"]
    key = f"batch{batch}"
    if key not in ordering["mean_peak_reduction"]:
        return {}
    saved, fragmentation = (
        ordering["mean_peak_reduction"][key],
        addresses["pytorch_fragmentation"][key],
    )
    return {
        "mean_ordering_reduction": saved,
        "mean_pytorch_fragmentation": fragmentation,
        "mean_fragmentation": addresses["fragmentation_after"],
        "mean_total_reduction": figures["total"]["mean_peak_reduction"][key],
        _AT_MEASURED: 1 - (1 - fragmentation) * (1 - saved),
        "median_ordering_time_s": ordering["median_time_s"],
        "median_placement_time_s": addresses["median_time_s"],
    }


@dataclass(frozen=True, slots=True)
class Summary:
    """Means and medians over some networks at one batch.

    Attributes:
        networks: which, in words.
        batch: samples.
        figures: ours, by name.
    """

    networks: str
    batch: int
    figures: Mapping[str, float]

    @property
    def published(self) -> Mapping[str, float]:
        """OLLA's figures, under the same names."""
        return published_figures(self.batch)

    @staticmethod
    def of(networks: str, rows: Sequence[Row]) -> Summary:
        """Summarize the rows of one batch."""
        batch = rows[0].batch
        fragmentation = published_figures(batch).get("mean_pytorch_fragmentation")
        return Summary(networks, batch, summarize(rows, fragmentation))


@dataclass(frozen=True)
class Report:
    """All measurements.

    Attributes:
        rows: one for each network and batch.
        summaries: for each batch, over OLLA's networks and over all.
    """

    rows: tuple[Row, ...]
    summaries: tuple[Summary, ...]

    @staticmethod
    def of(rows: Sequence[Row]) -> Report:
        """Summarize the rows of each batch: OLLA's networks, and all."""
        summaries: list[Summary] = []
        for batch in dict.fromkeys(row.batch for row in rows):
            every = [row for row in rows if row.batch == batch]
            theirs = [row for row in every if row.network in OLLA]
            if theirs:
                words = f"{len(theirs)} of OLLA's {len(OLLA)} networks"
                summaries.append(Summary.of(words, theirs))
            if len(theirs) < len(every):
                summaries.append(Summary.of(f"all {len(every)} networks", every))
        return Report(tuple(rows), tuple(summaries))

    def to_json(self) -> dict[str, object]:
        """The report as plain JSON values, OLLA's figures beside it."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "summaries": [
                {
                    "networks": summary.networks,
                    "batch": summary.batch,
                    "ours": dict(summary.figures),
                    "olla": dict(summary.published),
                }
                for summary in self.summaries
            ],
        }
