# SPDX-License-Identifier: Apache-2.0
"""Streaming of weights: ops of a layer load its weight from storage, and it takes no RAM."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.ops import KINDS, UpdateKind, kind_of, streamed_kind
from poetfw.ops.streamed import (
    FAMILIES,
    FORWARD,
    LOOKUP,
    StreamedKind,
    loaded_name,
    streamed_backward_name,
    streamed_name,
)
from poetfw.ops.update import FusedUpdate
from poetfw.training.program import Program


@dataclass(frozen=True, slots=True)
class StreamableWeight:
    """Weight that can be streamed.

    Attributes:
        weight: the weight.
        x: input of its layer.
        y: output of its layer.
        family: operator of its layer.
        states: optimizer state, and the sum of micro-batches.
        forward: op of the training step that reads it.
        back: op with the gradient of the layer's input; None without one.
        apply: ops with the weight's gradient and its update: one, or two; none of a frozen weight.
    """

    weight: Tensor
    x: Tensor
    y: Tensor
    family: str
    states: tuple[str, ...]
    forward: str
    back: str | None
    apply: tuple[str, ...]

    @property
    def group(self) -> tuple[str, ...]:
        """Names of the weight and its optimizer state."""
        return (self.weight.name, *self.states)

    @property
    def group_bytes(self) -> int:
        """Bytes of the weight with its optimizer state."""
        return (1 + len(self.states)) * self.weight.size_bytes

    @property
    def is_frozen(self) -> bool:
        """True if it is only read."""
        return not self.apply

    @property
    def ops(self) -> tuple[str, ...]:
        """Names of the streamed ops of its layer in the training step."""
        return (self.forward, *([self.back] if self.back else self.apply[:1]))


def streamable_weights(program: Program) -> tuple[StreamableWeight, ...]:
    """Weights that are to be streamed, then those that can be, the largest first.

    Ties are in the order of the program.
    """
    trained = program.training.persistent
    found = filter(None, (_streamable(program, tensor) for tensor in trained))
    frozen = (
        each for each in streamable_constants(program) if each.weight.name in program.beyond_flash
    )
    return (*frozen, *sorted(found, key=lambda each: -each.group_bytes))


def streamable_constants(program: Program) -> tuple[StreamableWeight, ...]:
    """Frozen weights that can be streamed, the largest first; ties in the order of the program."""
    found = filter(None, (_streamable(program, tensor) for tensor in program.training.constants))
    return tuple(sorted(found, key=lambda each: -each.group_bytes))


def lookup_tables(program: Program) -> tuple[Tensor, ...]:
    """Frozen tables that only embeddings read, the largest first."""
    readers: dict[str, list[bool]] = {}
    for op in (*program.training.ops, *program.evaluation.ops):
        for position, name in enumerate(op.inputs):
            readers.setdefault(name, []).append(op.kind == LOOKUP and position == 1)
    found = (each for each in program.constants if all(readers.get(each.name, [False])))
    return tuple(sorted(found, key=lambda tensor: -tensor.size_bytes))


def look_up(program: Program, tables: Collection[str]) -> Program:
    """The program with tables in storage, of which embeddings load rows."""

    def changed(graph: Graph) -> Graph:
        ops = (
            replace(op, kind=streamed_name(LOOKUP))
            if op.kind == LOOKUP and op.inputs[1] in tables
            else op
            for op in graph.ops
        )
        return replace(graph, ops=tuple(ops))

    training, evaluation = changed(program.training), changed(program.evaluation)
    return replace(program, training=training, evaluation=evaluation)


def _streamable(program: Program, tensor: Tensor) -> StreamableWeight | None:
    graph, name = program.training, tensor.name
    readers = [op for op in graph.consumers[name] if name not in op.updates]
    updates = [op for op in graph.ops if name in op.updates]
    evaluated = program.evaluation.by_name.get(name)
    others = program.evaluation.consumers[name] if evaluated is not None else ()
    frozen = tensor.role is Role.CONSTANT
    families = FORWARD if frozen else FAMILIES
    if (
        not readers
        or len(updates) != (0 if frozen else 1)
        or not all(_is_forward(op, name, families) for op in others)
    ):
        return None
    forward, *rest = readers
    if not _is_forward(forward, name, families) or len(rest) > 1:
        return None
    back = rest[0] if rest else None
    if back is not None and (
        forward.kind not in FAMILIES
        or back.kind != f"{forward.kind}_backward_input"
        or back.inputs.count(name) != 1
    ):
        return None
    apply = () if frozen else _apply(graph, forward.kind, updates[0], tensor)
    if not frozen and not apply:
        return None
    return StreamableWeight(
        tensor,
        graph.by_name[forward.inputs[0]],
        graph.by_name[forward.output or ""],
        forward.kind,
        () if frozen else updates[0].updates[1:],
        forward.name,
        None if back is None else back.name,
        tuple(op.name for op in apply),
    )


def _is_forward(op: Op, weight: str, families: Collection[str]) -> bool:
    """True if an op is a layer of one group with this weight."""
    if op.kind not in families or op.inputs[1] != weight or op.inputs.count(weight) != 1:
        return False
    return op.attributes.get("groups", 1) == 1


def _apply(graph: Graph, family: str, update: Op, weight: Tensor) -> tuple[Op, ...]:
    """Ops with a weight's gradient and its update; none if they cannot be one streamed op."""
    kind, gradient_kind = kind_of(update), f"{family}_backward_weight"
    if update.updates[0] != weight.name:
        return ()
    if isinstance(kind, FusedUpdate):
        return (update,) if kind.gradient_kind.name == gradient_kind else ()
    name, *rest = update.inputs
    producer = graph.producer.get(name)
    if (
        not isinstance(kind, UpdateKind)
        or len(rest) > int("paced" in update.attributes)
        or producer is None
        or producer.kind != gradient_kind
        or len(graph.consumers[name]) > 1
        or graph.by_name[name].shape != weight.shape
    ):
        return ()
    return (producer, update)


def streamable_vectors(program: Program) -> tuple[str, ...]:
    """Names of persistent tensors that all their ops can load as a whole, in the program's order.

    Each is updated by one op. Weights that can be streamed in tiles are left out.
    """
    tiled = {name for each in streamable_weights(program) for name in each.group}
    ops: dict[str, list[Op]] = {}
    for op in (*program.training.ops, *program.evaluation.ops):
        for name in dict.fromkeys((*op.inputs, *op.updates)):
            ops.setdefault(name, []).append(op)
    found: list[str] = []
    for op in program.training.ops:
        touching = [each for name in op.updates for each in ops[name]]
        updating = [each for each in touching if not set(op.updates).isdisjoint(each.updates)]
        if (
            op.updates
            and tiled.isdisjoint(op.updates)
            and all(each is op for each in updating)
            and all(loaded_name(each.kind) in KINDS for each in touching)
        ):
            found += op.updates
    return tuple(found)


def not_loadable(program: Program) -> dict[str, Op]:
    """For each trained tensor that stays in RAM, by name, an op that cannot load it."""
    found: dict[str, Op] = {}
    resident = {tensor.name for tensor in program.resident if tensor.role is Role.PARAMETER}
    for op in (*program.training.ops, *program.evaluation.ops):
        kind = streamed_kind(op)
        plain = (op,) if kind is None else kind.plain(op)
        if not any(loaded_name(each.kind) in KINDS for each in plain):
            for name in (*op.inputs, *op.updates):
                if name in resident:
                    found.setdefault(name, op)
    return found


def stream(
    program: Program,
    tiles: Mapping[str, tuple[int, ...]],
    vectors: Collection[str] = (),
) -> Program:
    """The program with streamed weights and vectors.

    Args:
        program: a program in which nothing is streamed.
        tiles: tiles by the name of a streamable weight or constant, as for `TileLayout.of`.
        vectors: names of streamed vectors.
    """
    chosen = [each for each in streamable_weights(program) if each.weight.name in tiles]
    training = program.training
    ops = {op.name: op for op in training.ops}
    merged: dict[str, Op] = {}  # by the name of each op that they replace
    gone: set[str] = set()
    for each in chosen:
        tile = tiles[each.weight.name]
        forward = ops[each.forward]
        merged[each.forward] = _forward(forward, tile, vectors)
        if each.is_frozen:
            if each.back is not None:
                merged[each.back] = _forward(ops[each.back], tile, ())
            continue
        op = _backward(each, ops, tile)
        merged |= dict.fromkeys((*([each.back] if each.back else ()), *each.apply), op)
        gone.update(ops[name].output or "" for name in each.apply)
    merged |= {op.name: _loaded(op, vectors) for op in training.ops if op.name not in merged}
    evaluation = program.evaluation
    evaluated = tuple(
        _forward(op, tiles[op.inputs[1]], vectors)
        if len(op.inputs) > 1 and op.inputs[1] in tiles
        else _loaded(op, vectors)
        for op in evaluation.ops
    )
    return replace(
        program,
        training=replace(
            training,
            tensors=tuple(tensor for tensor in training.tensors if tensor.name not in gone),
            ops=reordered(training, merged),
        ),
        evaluation=replace(evaluation, ops=evaluated),
    )


def _forward(op: Op, tile: tuple[int, ...], vectors: Collection[str]) -> Op:
    attributes = {**op.attributes, "tile": tile, **_positions(op, vectors)}
    return replace(op, kind=streamed_name(op.kind), attributes=attributes)


def _loaded(op: Op, vectors: Collection[str]) -> Op:
    positions = _positions(op, vectors)
    if not positions:
        return op
    return replace(op, kind=loaded_name(op.kind), attributes={**op.attributes, **positions})


def _positions(op: Op, vectors: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Attribute with the positions of an op's streamed vectors; none without such."""
    operands = (*op.inputs, *op.updates)
    found = tuple(operands.index(name) for name in dict.fromkeys(operands) if name in vectors)
    return {"loaded": found} if found else {}


def _backward(each: StreamableWeight, ops: Mapping[str, Op], tile: tuple[int, ...]) -> Op:
    first, last = ops[each.apply[0]], ops[each.apply[-1]]
    back = None if each.back is None else ops[each.back]
    kind = kind_of(last)
    update = kind.update if isinstance(kind, FusedUpdate) else kind
    paced = last.inputs[-1:] if "paced" in last.attributes else ()
    attributes = {**(back.attributes if back else {}), **first.attributes, **last.attributes}
    return Op(
        back.name if back else first.name,
        streamed_backward_name(each.family, update.name),
        (each.weight.name, first.inputs[0], first.inputs[1], *paced),
        back.output if back else None,
        {**attributes, "tile": tile},
        last.updates,
        backward=True,
    )


def reordered(graph: Graph, merged: Mapping[str, Op]) -> tuple[Op, ...]:
    """Ops with replacements, in an executable order close to the graph's, the forward pass first.

    Accesses of persistent tensors keep their order.
    """
    place: dict[str, tuple[bool, int]] = {}
    named: dict[str, Op] = {}
    for index, op in enumerate(graph.ops):
        op = merged.get(op.name, op)
        named[op.name] = op
        place.setdefault(op.name, (op.backward, index))
    before: dict[str, set[str]] = {name: set() for name in named}
    for name, later in waiting_ops(graph).items():
        own = merged[name].name if name in merged else name
        for each in later:
            other = merged[each].name if each in merged else each
            if other != own:
                before[other].add(own)
    ordered = tuple(named[name] for name in _topological(before, place))
    assert len(ordered) == len(named), "replacements depend on each other"
    return ordered


def waiting_ops(graph: Graph) -> dict[str, set[str]]:
    """For each op, those after it that read its output, or share a tensor that one updates."""
    found: dict[str, set[str]] = {op.name: set() for op in graph.ops}
    touching: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in graph.reads(op):
            if name in graph.producer:
                found[graph.producer[name].name].add(op.name)
        for name in dict.fromkeys((*op.inputs, *op.updates)):
            for other in touching.setdefault(name, []):
                if name in op.updates or name in other.updates:
                    found[other.name].add(op.name)
            touching[name].append(op)
    return found


def _topological(
    before: Mapping[str, set[str]], place: Mapping[str, tuple[bool, int]]
) -> Iterator[str]:
    """Names with all those before them, the first ones by place wherever there is a choice."""
    after: dict[str, list[str]] = {name: [] for name in before}
    left = {name: len(others) for name, others in before.items()}
    for name, others in before.items():
        for other in others:
            after[other].append(name)
    ready = [(place[name], name) for name, count in left.items() if not count]
    heapq.heapify(ready)
    while ready:
        _, name = heapq.heappop(ready)
        yield name
        for other in after[name]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (place[other], other))


def resident_form(program: Program) -> Program:
    """The program with trained weights in RAM: what each streamed op is equivalent to.

    Frozen weights that flash has no room for are streamed in the tiles that they have.
    """
    resident = replace(
        program,
        training=_resident_form(program.training),
        evaluation=_resident_form(program.evaluation),
        beyond_flash=frozenset(program.streamed_constants),
    )
    resident = look_up(resident, resident.beyond_flash)
    tiles = {
        part.inputs[1]: part.integers("tile")
        for op in program.training.ops
        for part in op.parts
        if "tile" in part.attributes and part.inputs[1] in resident.beyond_flash
    }
    return stream(resident, tiles)


def _resident_form(graph: Graph) -> Graph:
    ops: list[Op] = []
    tensors = [replace(tensor, tile=()) for tensor in graph.tensors]
    for op in graph.ops:
        kind = streamed_kind(op)
        ops += (op,) if kind is None else kind.plain(op)
        tensors += [] if kind is None else kind.inner(op, graph.by_name).values()
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def streamed_ops(graph: Graph) -> Sequence[tuple[Op, StreamedKind]]:
    """Streamed ops of a graph with their kinds, in order."""
    found = ((op, streamed_kind(op)) for op in graph.ops)
    return [(op, kind) for op, kind in found if kind is not None]
