# SPDX-License-Identifier: Apache-2.0
"""Trying every plan of a small problem with overlapping transfers and a deadline."""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

from poetfw.schedule import ExecutionPlan, ScheduleProblem, Step, StepKind
from poetfw.schedule.simulator import TIME_TOLERANCE


class _Now(NamedTuple):
    """A moment of a plan, when the core goes on to the next step.

    Attributes:
        done, ram, aux: nodes that were computed, and whose tensors are there.
        last: the kind and node of the last step.
        core_s: the moment.
        channel_s: when the channel is free.
        here_s, out_s: per node, when its tensor is in RAM and in storage; 0 if long ago.
    """

    done: frozenset[int]
    ram: frozenset[int]
    aux: frozenset[int]
    last: tuple[StepKind, int] | None
    core_s: float
    channel_s: float
    here_s: tuple[float, ...]
    out_s: tuple[float, ...]

    @property
    def times_s(self) -> tuple[float, ...]:
        """What decides when later steps run."""
        here_s, out_s = ([max(self.core_s, x) for x in xs] for xs in (self.here_s, self.out_s))
        return (self.core_s, self.channel_s, *here_s, *out_s)


def best_overlapped_plan(problem: ScheduleProblem) -> tuple[float, ExecutionPlan] | None:
    """The least joules of any legal plan, and one that takes them; None if there is none.

    Plans are tried in ascending order of their joules, one step after the other. The core does
    nothing for a transfer.
    """
    latest_s = problem.deadline_s
    assert latest_s is not None
    latest_s *= 1 + TIME_TOLERANCE
    n, names = len(problem.nodes), [node.name for node in problem.nodes]
    zero = (0.0,) * n
    start = _Now(frozenset(), frozenset(), frozenset(), None, 0.0, 0.0, zero, zero)
    number = count()
    queue: list[tuple[float, int, _Now, ExecutionPlan]] = [(0.0, next(number), start, ())]
    seen: dict[tuple[object, ...], list[tuple[float, ...]]] = {}
    while queue:
        joules, _, now, plan = heapq.heappop(queue)
        if len(now.done) == n and not now.ram:
            return joules, plan
        label, key = now.times_s, (now.done, now.ram, now.aux, now.last)
        known = seen.setdefault(key, [])  # of less joules
        if any(all(x <= y for x, y in zip(other, label, strict=True)) for other in known):
            continue
        known.append(label)
        for more_j, kind, i, after in _following(problem, now):
            if max(after.core_s, after.channel_s) <= latest_s:
                step = Step(kind, names[i])
                heapq.heappush(queue, (joules + more_j, next(number), after, (*plan, step)))
    return None


def _following(problem: ScheduleProblem, now: _Now) -> list[tuple[float, StepKind, int, _Now]]:
    """Joules, kind and node of each legal next step, and the moment after it."""
    nodes, storage = problem.nodes, problem.storage
    assert storage is not None
    assert storage.overlap
    position = {node.name: i for i, node in enumerate(nodes)}
    live = sum(nodes[i].output_bytes for i in now.ram)
    found = []
    for i, node in enumerate(nodes):
        inputs = [position[name] for name in node.inputs]
        again = i in now.done
        if (
            i not in now.ram
            and all(u in now.done and (u in now.ram or not nodes[u].output_bytes) for u in inputs)
            and not (again and not (node.recompute and node.output_bytes))
            and position.get(node.recompute_before or "", -1) not in now.done
        ):
            output = {i} if node.output_bytes else set()
            begin_s = max([now.core_s, *(now.here_s[u] for u in inputs)])
            alone_s = begin_s + node.time_s
            after = now._replace(
                done=now.done | {i}, ram=now.ram | output, last=None, core_s=alone_s
            )
            during = live + node.output_bytes + node.workspace_bytes
            taken = position.get(node.in_place or "", -1)
            same = taken >= 0 and nodes[taken].output_bytes == node.output_bytes > 0
            if during <= problem.ram_bytes:
                last = (StepKind.COMPUTE, i) if same else None
                found.append((node.energy_j, StepKind.COMPUTE, i, after._replace(last=last)))
            if same and during - node.output_bytes <= problem.ram_bytes:
                late_s = max(begin_s, now.out_s[taken]) + node.time_s
                over = after._replace(core_s=late_s, last=(StepKind.FREE, taken))
                found.append((node.energy_j, StepKind.COMPUTE, i, over))
        if i in now.ram:
            core_s = max(now.core_s, now.here_s[i], now.out_s[i])
            after = now._replace(ram=now.ram - {i}, core_s=core_s, last=None)
            if now.last is None or not _takes_over(problem, now.last, i):
                found.append((0.0, StepKind.FREE, i, after))
            if node.page and i not in now.aux:
                begin_s = max(now.core_s, now.channel_s, now.here_s[i])
                end_s = begin_s + storage.page_out_time_s(node.output_bytes)
                out_s = _with(now.out_s, i, end_s)
                aux, joules = now.aux | {i}, storage.page_out_energy_j(node.output_bytes)
                after = now._replace(aux=aux, channel_s=end_s, out_s=out_s, last=None)
                found.append((joules, StepKind.PAGE_OUT, i, after))
        elif i in now.aux and live + node.output_bytes <= problem.ram_bytes:
            begin_s = max(now.core_s, now.channel_s, now.out_s[i])
            end_s = begin_s + storage.page_in_time_s(node.output_bytes)
            here_s = _with(now.here_s, i, end_s)
            after = now._replace(ram=now.ram | {i}, channel_s=end_s, here_s=here_s, last=None)
            joules = storage.page_in_energy_j(node.output_bytes)
            found.append((joules, StepKind.PAGE_IN, i, after))
    if now.last is not None and now.last[0] is StepKind.FREE:  # the taken input goes next
        i = now.last[1]
        after = now._replace(ram=now.ram - {i}, last=None)
        return [(0.0, StepKind.FREE, i, after)]
    return found


def _takes_over(problem: ScheduleProblem, last: tuple[StepKind, int], i: int) -> bool:
    kind, made = last
    return kind is StepKind.COMPUTE and problem.nodes[made].in_place == problem.nodes[i].name


def _with(times_s: tuple[float, ...], i: int, time_s: float) -> tuple[float, ...]:
    return (*times_s[:i], time_s, *times_s[i + 1 :])
