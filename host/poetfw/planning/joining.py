# SPDX-License-Identifier: Apache-2.0
"""Choice of the ops on stored tensors that are joined, as they then move less.

A tensor that one op computes and others read is neither stored nor loaded if all of these are one
op, and is loaded less often if some are. So for each tensor, its op is joined with all that read
it, or with those that only serve updates, if that moves less and fits. Tensors in RAM between ops
of the frozen part may be features that are kept, so they stay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from poetfw.common.errors import ModelError
from poetfw.common.limits import Deadline
from poetfw.ir import Graph, Op, Tensor
from poetfw.ops import KINDS, UpdateKind, join, kind_of
from poetfw.ops.pieces import pieced_name
from poetfw.ops.streamed import LoadedOp
from poetfw.planning.pieces import PieceSearch, Tile
from poetfw.training import frozen_part, in_storage, reordered, waiting_ops

_MOST_OPS = 12
"""Most ops that are joined."""


class Joining:
    """Search for the ops of a graph that are to be joined."""

    def __init__(
        self, graph: Graph, tiles: Mapping[str, Tile], search: PieceSearch, room_bytes: int
    ) -> None:
        """Begin with single ops.

        Args:
            graph: ops, none of which sees a stored tensor in another shape.
            tiles: tiles of the stored tensors, by name.
            search: the search for pieces.
            room_bytes: limit of an op's workspace with its operands that are in RAM.
        """
        self._graph, self._search, self._room_bytes = graph, search, room_bytes
        self._tensors: dict[str, Tensor] = {
            tensor.name: in_storage(tensor, graph.by_name, tiles, lambda root: tiles[root.name])
            for tensor in graph.tensors
        }
        self._place = {op.name: place for place, op in enumerate(graph.ops)}
        self._groups: dict[str, tuple[Op, ...]] = {op.name: (op,) for op in graph.ops}
        self._frozen = frozen_part(graph)
        self._waiting = waiting_ops(graph)
        self._costs: dict[tuple[Op, ...], tuple[int, int] | None] = {}

    def run(self, deadline: Deadline) -> Graph:
        """The graph with joined ops."""
        graph, windowed = self._graph, {window.base for window in self._graph.windows}
        for tensor in graph.tensors:
            if deadline.has_passed():
                break
            producer = graph.producer.get(tensor.name)
            if producer is None or tensor.name in windowed:
                continue
            if producer.name in self._frozen and not self._tensors[tensor.name].tile:
                continue
            ops = graph.consumers[tensor.name]
            self._try([producer, *ops])
            for op in filter(self._serves, ops):
                self._try([producer, op])
        found: dict[str, Op] = {}
        for group in dict.fromkeys(self._groups.values()):
            joined = self._joined(group)
            assert joined is not None
            found |= {part.name: joined for part in group}
        gone = {
            part.output for op in found.values() for part in op.joined if part.output != op.output
        }
        return replace(
            graph,
            tensors=tuple(tensor for tensor in graph.tensors if tensor.name not in gone),
            ops=reordered(graph, found),
        )

    def _try(self, ops: Sequence[Op]) -> None:
        """Join some ops, and those that serve updates and read what they give, if it is better."""
        groups = dict.fromkeys(self._groups[op.name] for op in ops)
        group = self._in_order(groups)
        while self._joined(group) is None and (wanted := self._wanted(group)):
            groups = dict.fromkeys((*groups, *wanted))
            group = self._in_order(groups)
        if (
            len(groups) < 2
            or len(group) > _MOST_OPS
            or len({op.name in self._frozen for op in group}) > 1
            or not all(map(_joins, group))
            or not self._is_convex(group)
        ):
            return
        joined, each = self._cost(group), [self._cost(before) for before in groups]
        apart = [cost for cost in each if cost is not None]
        if joined is None or len(apart) < len(each):
            return
        if joined < (max(excess for excess, _ in apart), sum(moved for _, moved in apart)):
            self._groups |= {op.name: group for op in group}

    def _in_order(self, groups: Collection[tuple[Op, ...]]) -> tuple[Op, ...]:
        ops = (op for group in groups for op in group)
        return tuple(sorted(ops, key=lambda op: self._place[op.name]))

    def _wanted(self, group: Sequence[Op]) -> list[tuple[Op, ...]]:
        """Groups that serve updates, and are all others that read an output of this one."""
        names = {op.name for op in group}
        for op in group:
            readers = [each for each in self._readers(op) if each.name not in names]
            if readers and all(map(self._serves, readers)):
                return [self._groups[each.name] for each in readers]
        return []

    def _serves(self, op: Op) -> bool:
        """True if an op only updates tensors, or only such ops read its output."""
        readers = self._readers(op)
        return op.output is None or (any(readers) and all(each.output is None for each in readers))

    def _readers(self, op: Op) -> tuple[Op, ...]:
        return () if op.output is None else self._graph.consumers[op.output]

    def _is_convex(self, group: Sequence[Op]) -> bool:
        """True if nothing that depends on the ops has to run before one of them.

        Of another group, all ops run at once.
        """
        names = {op.name for op in group}
        left = [name for each in names for name in self._waiting[each] - names]
        seen: set[str] = set()
        while left:
            name = left.pop()
            if name in seen:
                continue
            for op in self._groups[name]:
                seen.add(op.name)
                if not names.isdisjoint(self._waiting[op.name]):
                    return False
                left += self._waiting[op.name] - seen
        return True

    def _joined(self, group: Sequence[Op]) -> Op | None:
        if len(group) == 1:
            return group[0]
        names = {op.name for op in group}
        later = {self._graph.output} | {
            op.output
            for op in group
            if op.output is not None
            and any(reader.name not in names for reader in self._readers(op))
        }
        return join(group, later)

    def _cost(self, group: tuple[Op, ...]) -> tuple[int, int] | None:
        """Excess over the room, and traffic, of a group; None if its ops cannot be joined."""
        if group not in self._costs:
            self._costs[group] = self._weighed(group)
        return self._costs[group]

    def _weighed(self, group: tuple[Op, ...]) -> tuple[int, int] | None:
        op = self._joined(group)
        if op is None or not _carries(op):
            return None
        names = (*op.inputs, *op.updates, *([op.output] if op.output is not None else []))
        if len(group) == 1 and not any(self._tensors[name].tile for name in names):
            return 0, 0
        try:
            return self._search.weigh(op, self._tensors, self._room_bytes)
        except ModelError:
            return None


def _joins(op: Op) -> bool:
    """True if an op can be one of several that run together on pieces; none loads samples."""
    if not op.inputs:
        return False
    kind = kind_of(op)
    if isinstance(kind, LoadedOp):
        kind = kind.wrapped_kind
    return isinstance(kind, UpdateKind) or pieced_name(kind.name) in KINDS


def _carries(op: Op) -> bool:
    """True if the effect of errors of all tensors within an op is known."""
    inner = {part.output for part in op.joined}
    return all(
        position in kind_of(part).carries
        for part in op.joined
        for position, name in enumerate(part.inputs)
        if name in inner
    )
