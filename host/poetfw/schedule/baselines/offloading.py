# SPDX-License-Identifier: Apache-2.0
"""Paging model of methods without recomputation: pageable tensors, bytes saved, delays.

Model and lower bound of O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading
Strategies for Deep Neural Network Training", Euro-Par 2020: a tensor is paged out after its last
use in the forward pass and paged in before its first use in the backward pass, on one channel that
overlaps with compute; compute stalls while RAM is short. In place of their chain's activations are
the tensors that the backward pass reads, by their last use in the forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from poetfw.common.errors import UnsuitableError
from poetfw.schedule.baselines.passes import (
    Gap,
    bridge,
    forward_nodes,
    gaps,
    kept_bytes,
    require,
)
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, Storage

TransferTime = Callable[[int], float]
"""Seconds to transfer a tensor."""


@dataclass(frozen=True)
class Offloading:
    """Problem of a method that only pages.

    Attributes:
        graph: the problem.
        storage: the storage, with its transfer costs.
        forward: number of nodes of the forward pass.
        gaps: gap of each pageable tensor, by start.
        kept: per node, bytes live while it runs without paging.
    """

    graph: Indexed
    storage: Storage
    forward: int
    gaps: tuple[Gap, ...]
    kept: tuple[int, ...]

    @staticmethod
    def of(problem: ScheduleProblem, method: str) -> Offloading:
        """Derive the paging model of a problem.

        Raises:
            UnsuitableError: no storage or no two passes.
        """
        if problem.storage is None:
            raise UnsuitableError(method, "it only pages, and there is no storage")
        graph = Indexed.of(problem)
        forward = forward_nodes(graph, method)
        pageable = tuple(gap for gap in gaps(graph, forward) if graph.pageable[gap.tensor])
        return Offloading(graph, problem.storage, forward, pageable, kept_bytes(graph))

    def live_bytes(self, paged: Set[int]) -> list[int]:
        """Per node, bytes live while it runs with these tensors paged and all transfers done."""
        change = [0] * (self.graph.n + 1)
        for gap in self.gaps:
            if gap.tensor in paged:
                change[gap.start + 1] -= self.graph.size[gap.tensor]
                change[gap.end] += self.graph.size[gap.tensor]
        live, saved = [], 0
        for kept, delta in zip(self.kept, change, strict=False):
            saved += delta
            live.append(kept + saved)
        return live

    def fits(self, paged: Set[int]) -> bool:
        """True if the peak with these tensors paged is within the budget."""
        return max(self.live_bytes(paged)) <= self.graph.problem.ram_bytes

    def first_that_fit(self, order: Iterable[Gap]) -> frozenset[int] | None:
        """Shortest prefix of this order whose paging fits; None if all of it does not fit."""
        paged: set[int] = set()
        remaining = iter(order)
        while not self.fits(paged):
            gap = next(remaining, None)
            if gap is None:
                return None
            paged.add(gap.tensor)
        return frozenset(paged)

    def plan(self, paged: Set[int] | None, method: str) -> ExecutionPlan:
        """Plan that pages these tensors.

        Raises:
            UnsuitableError: it does not fit, or `paged` is None because no choice fits.
        """
        if paged is None:
            least = max(self.live_bytes({gap.tensor for gap in self.gaps}))
            least += self.graph.problem.resident_bytes
            raise UnsuitableError(
                method,
                f"paging everything it can still needs {least:,} bytes of a budget of "
                f"{self.graph.problem.budget_bytes:,}",
            )
        return require(self.graph, bridge(self.graph, self.forward, page=paged), method)

    def step_time_s(self, paged: Set[int]) -> float:
        """Seconds of a step with these tensors paged, transfers overlapping; infinite if none fits.

        Model of the paper: in the forward pass, compute stalls until enough is written for the next
        node to fit; the backward pass is the same in reverse. A transfer frees RAM byte by byte.
        """
        nodes = self.graph.problem.nodes
        starts: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for gap in self.gaps:
            if gap.tensor in paged:
                starts.setdefault(gap.start, []).append(gap.tensor)
                ends.setdefault(gap.end, []).append(gap.tensor)
        live = self.live_bytes(paged)
        ahead = self._waits_s(range(self.forward), starts, live, self.out_s)
        back = self._waits_s(range(self.graph.n - 1, self.forward - 1, -1), ends, live, self.in_s)
        return max(math.fsum(node.time_s for node in nodes) + ahead + back, self.moved_s(paged))

    def moved_s(self, paged: Set[int]) -> float:
        """Seconds of channel time to page these tensors."""
        return math.fsum(self.out_s(i) + self.in_s(i) for i in paged)

    def _waits_s(
        self,
        order: range,
        begun: dict[int, list[int]],
        live: list[int],
        transfer_s: TransferTime,
    ) -> float:
        """Seconds of compute stalls for RAM, with transfers that begin after these nodes."""
        waits_s = 0.0
        queue: list[list[float]] = []  # [seconds to go, bytes to go]
        for t in order:
            excess = live[t] + sum(size for _, size in queue) - self.graph.problem.ram_bytes
            wait_s = 0.0
            for left_s, size in queue:
                if excess <= 0:
                    break
                wait_s += left_s * min(1.0, excess / size)
                excess -= size
            if excess > 0:
                return math.inf
            waits_s += wait_s
            _drain(queue, wait_s + self.graph.problem.nodes[t].time_s)
            queue += [[transfer_s(i), float(self.graph.size[i])] for i in begun.get(t, ())]
        return waits_s

    def out_s(self, i: int) -> float:
        """Seconds to page out tensor i."""
        return self.storage.page_out_time_s(self.graph.size[i])

    def in_s(self, i: int) -> float:
        """Seconds to page in tensor i."""
        return self.storage.page_in_time_s(self.graph.size[i])


def _drain(queue: list[list[float]], time_s: float) -> None:
    """Advance the transfers at the head of a queue by a time."""
    while queue and time_s > 0:
        left_s, size = queue[0]
        if left_s <= time_s:
            queue.pop(0)
        else:
            queue[0] = [left_s - time_s, size * (1 - time_s / left_s)]
        time_s -= left_s


def lower_bound_s(problem: ScheduleProblem) -> float:
    """Lower bound on the seconds of every step without recomputation, at any overlap (Prop. 3).

    max(Σ u, 2 (M_peak - M) / β), with the two directions' own bandwidths in place of one β.

    Raises:
        UnsuitableError: there is no storage.
    """
    if problem.storage is None:
        raise UnsuitableError("lower bound", "it only pages, and there is no storage")
    excess = max(0, max(kept_bytes(Indexed.of(problem))) - problem.ram_bytes)
    storage = problem.storage
    per_byte_s = 0.0
    for transfer in (storage.page_out, storage.page_in):
        beside = transfer.beside if storage.overlap else None
        per_byte_s += 1 / (beside or transfer).bandwidth_bytes_per_s
    return max(math.fsum(node.time_s for node in problem.nodes), excess * per_byte_s)
