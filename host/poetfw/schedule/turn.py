# SPDX-License-Identifier: Apache-2.0
"""Plans from one small program at the turn from the forward to the backward pass.

The *turn* is the start of the backward pass. For each forward tensor the program (`having`) chooses
to keep it in RAM until its last reader, or to recompute it or page it in when it is first read
after the turn. Each solution gives one plan. For moments where this plan overflows RAM, the program
gets rows: the bytes that its columns hold at that moment are at most the budget. Most networks need
one to three such rounds. If one recompute per tensor is not enough, the last plan exceeds the
budget, and `Moves.fitted` makes it fit by evictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.having import Having, in_highs
from poetfw.schedule.highs import Highs, Vector
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ScheduleProblem
from poetfw.schedule.sequences import EventTrace, Floats, Integers, Moves, Workload

if TYPE_CHECKING:
    from poetfw.schedule.found import Incumbent

_ROUNDS = 12
_ROUND_SHARE = 0.5  # of the work left
_MOMENTS = 12  # rows per round, at most
_APART = 4  # events between two moments with rows, at least
_GAP = 1e-3  # relative gap of the program, whose objective is the overhead
_NODE_WORK = 1e-5  # work units per node and round
_DROPS = 400  # evictions at most, to make the last plan fit


def search_turn(best: Incumbent, work: Work) -> None:
    """Offer the plan with the best choice of kept, recomputed and paged tensors at the turn.

    Args:
        best: the incumbent.
        work: limit of the search.
    """
    turn = first_backward(best.problem)
    if turn is None:
        return
    workload = Workload(Indexed.of(best.problem))
    last: EventTrace | None = None
    for trace in _rounds(workload, turn, work):
        last = trace
        if trace.fits:
            best.offer(workload.plan(trace.events.tolist()))
            return
    if last is not None:
        fitted = Moves(workload, work).fitted(last, 0.7, 0.0, _DROPS)
        if fitted is not None:
            best.offer(workload.plan(fitted.events.tolist()))


def first_backward(problem: ScheduleProblem) -> int | None:
    """Index of the first backward node; None if there is no backward pass."""
    return next((t for t, node in enumerate(problem.nodes) if node.backward), None)


def _rounds(workload: Workload, turn: int, work: Work) -> Iterator[EventTrace]:
    """Yield one trace per round; each round adds rows where the last trace overflows."""
    graph, n = workload.graph, workload.n
    read = {u for inputs in graph.inputs[turn:] for u in inputs if u < turn}
    first = [n] * n  # earliest stage after the turn that may read the tensor
    for i in reversed(range(n)):
        for u in graph.inputs[i]:
            first[u] = min(first[u], i if i >= turn else first[i])
    may = [
        recomputable and first[i] < workload.closes[i]
        for i, recomputable in enumerate(workload.recomputable)
    ]
    having = Having.of(graph, read, lambda i: may[i])
    if not having.tensors:
        return
    over = [(having.kept[i], graph.size[i]) for i in having.tensors]
    having.limit(over, graph.problem.ram_bytes)
    highs, _ = in_highs(having.program, _GAP)
    for _ in range(_ROUNDS):
        work.spend(n * _NODE_WORK)
        answer = highs.run(work.part(work.left * _ROUND_SHARE))
        if answer.values is None:
            return
        values = np.round(answer.values)
        events, late = _demanded(workload, turn, having, values)
        if late:  # recomputes after the update of a parameter that they read
            rows = [({having.again[i]: 1.0}, 0.0) for i in late]
        else:
            trace = EventTrace.of(workload, events, work)
            yield trace
            rows = _overflows(trace, turn, having, values)
        _add(highs, rows, having.program.columns)


def _demanded(
    workload: Workload, turn: int, having: Having, values: Vector
) -> tuple[list[int], list[int]]:
    """Events of a solution, each as late as possible, and nodes recomputed later than allowed."""
    n, inputs = workload.n, workload.graph.inputs
    there = [True] * turn + [False] * (n - turn)
    paged = {i for i, x in having.paged.items() if values[x]}
    for columns in (having.again, having.paged):
        for i, x in columns.items():
            if values[x] and not values[having.kept[i]]:
                there[i] = False
    events, late = list(range(turn)), []
    for t in range(turn, n):
        stack = [t]
        while stack:
            i = stack[-1]
            if there[i]:
                stack.pop()
                continue
            if i in paged:
                events.append(n + i)
            else:
                missing = [u for u in inputs[i] if not there[u]]
                if missing:
                    stack += reversed(missing)
                    continue
                events.append(i)
                if i < t and workload.closes[i] < t:
                    late.append(i)
            there[i] = True
            stack.pop()
    return events, late


@dataclass(frozen=True)
class _Spans:
    """Reads of a program's tensors, in the events of one plan.

    Attributes:
        forward: per tensor, its last reader before the turn, or its own event.
        begin, end: per tensor, the first and last event after the turn with the tensor in RAM, if
            it is recomputed or paged in.
    """

    forward: Integers
    begin: Integers
    end: Integers

    @staticmethod
    def of(trace: EventTrace, turn: int, tensors: Integers) -> _Spans:
        n, length = trace.workload.n, len(trace.events)
        read, nodes = trace.readers, trace.nodes[trace.sources]
        forward = np.arange(n)
        begin, end = np.full(n, length), np.full(n, -1)
        before = read < turn
        np.maximum.at(forward, nodes[before], read[before])
        np.minimum.at(begin, nodes[~before], read[~before])
        np.maximum.at(end, nodes[~before], read[~before])
        made = np.arange(turn, length)
        np.minimum.at(begin, trace.nodes[turn:], made)
        return _Spans(forward[tensors], begin[tensors], end[tensors])


def _overflows(
    trace: EventTrace, turn: int, having: Having, values: Vector
) -> list[tuple[dict[int, float], float]]:
    """Rows (coefficients by column, bound in bytes) for the moments of largest overflow."""
    workload, during = trace.workload, trace.during_bytes
    tensors = np.array(having.tensors, dtype=np.int64)
    spans, size = _Spans.of(trace, turn, tensors), workload.size[tensors]
    moments: list[int] = []
    for moment in np.argsort(-during, kind="stable").tolist():
        if during[moment] <= workload.ram_bytes or len(moments) == _MOMENTS:
            break
        if all(abs(moment - other) >= _APART for other in moments):
            moments.append(moment)
    rows = []
    for moment in moments:
        if moment < turn:
            held, brought = spans.forward < moment, np.zeros(len(tensors), dtype=np.bool_)
        else:
            unread = spans.end < 0
            held = unread | (spans.end >= moment)
            brought = held & (spans.begin <= moment)
        terms: dict[int, float] = {}
        for k in np.flatnonzero(held).tolist():
            i = int(tensors[k])
            terms[having.kept[i]] = float(size[k])
            for columns in (having.again, having.paged) if brought[k] else ():
                if i in columns:
                    terms[columns[i]] = float(size[k])
        now = math.fsum(m * values[x] for x, m in terms.items())
        rows.append((terms, now + workload.ram_bytes - int(during[moment])))
    return rows


def _add(highs: Highs, rows: list[tuple[dict[int, float], float]], columns: int) -> None:
    """Add rows to a program: Σ coefficient · column ≤ bound."""
    from scipy.sparse import csr_array  # slow to import

    scales: Floats = np.array([max(terms.values(), default=1.0) for terms, _ in rows])
    starts = np.cumsum([0, *(len(terms) for terms, _ in rows)], dtype=np.int32)
    numbers = np.array([x for terms, _ in rows for x in terms], dtype=np.int32)
    sizes = np.array([m for terms, _ in rows for m in terms.values()], dtype=float)
    sizes /= np.repeat(scales, np.diff(starts))
    matrix = csr_array((sizes, numbers, starts), shape=(len(rows), columns))
    most = np.array([bound for _, bound in rows]) / scales
    highs.add_rows(matrix, np.full(len(rows), -math.inf), most)
