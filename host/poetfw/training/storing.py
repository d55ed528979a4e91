# SPDX-License-Identifier: Apache-2.0
"""Storing of tensors: activations and gradients lie in storage, and ops on them run in pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops import streamed_kind
from poetfw.ops.base import KINDS
from poetfw.ops.nests import op_axes
from poetfw.ops.pieces import pieced_name
from poetfw.training.program import Program

Chooser = Callable[[Op, Mapping[str, Tensor], int], Op]
"""Chooses the pieces of an op, given its tensors, some of which are stored, and the bytes of others
that have to stay in RAM meanwhile."""


def storable_tensors(graph: Graph) -> tuple[Tensor, ...]:
    """Tensors of a step that can be stored: images whose ops all run in pieces."""
    bases = {tensor.base for tensor in graph.windows}
    can_be_cut = {op.name: _can_be_cut(op, graph) for op in graph.ops}
    return tuple(
        tensor
        for tensor in graph.tensors
        if tensor.role.transient
        and tensor.dtype is Dtype.F32
        and len(tensor.shape) == 4
        and tensor.base is None
        and tensor.name not in bases
        and tensor.name != graph.output
        and tensor.name in graph.producer
        and can_be_cut[graph.producer[tensor.name].name]
        and all(can_be_cut[op.name] for op in graph.consumers[tensor.name])
    )


def _can_be_cut(op: Op, graph: Graph) -> bool:
    if pieced_name(op.kind) not in KINDS:
        return False
    kind = streamed_kind(op)
    plain = (op,) if kind is None else kind.plain(op)
    return all(op_axes(each, graph.by_name) is not None for each in plain)


def store(
    program: Program,
    chosen: Collection[str],
    tile_of: Callable[[Tensor], tuple[int, int]],
    pieces: Chooser,
) -> Program:
    """The program with stored tensors.

    Args:
        program: a program in which no tensor is stored.
        chosen: names of the tensors, each storable in the graphs that have it.
        tile_of: channels and rows of a tensor's tiles.
        pieces: chooses the pieces of each op on stored tensors.
    """
    waiting = waiting_bytes(program.evaluation, chosen)
    return replace(
        program,
        training=_store(program.training, chosen, tile_of, pieces, {}),
        evaluation=_store(program.evaluation, chosen, tile_of, pieces, waiting),
    )


def waiting_bytes(graph: Graph, stored: Collection[str]) -> dict[str, int]:
    """For each op of an evaluation, bytes of tensors in RAM that later ops read, and it does not.

    An evaluation pages nothing. What training holds meanwhile is up to its schedule.
    """
    last = {name: op.name for op in graph.ops for name in graph.reads(op)}
    live: dict[str, int] = {}
    found = {}
    for op in graph.ops:
        reads = set(graph.reads(op))
        found[op.name] = sum(size for name, size in live.items() if name not in reads)
        live = {name: size for name, size in live.items() if last[name] != op.name}
        if op.output in last and op.output not in stored:
            live[op.output] = graph.by_name[op.output].size_bytes
    return found


def _store(
    graph: Graph,
    chosen: Collection[str],
    tile_of: Callable[[Tensor], tuple[int, int]],
    pieces: Chooser,
    waiting: Mapping[str, int],
) -> Graph:
    tensors = {
        tensor.name: replace(tensor, tile=tile_of(tensor)) if tensor.name in chosen else tensor
        for tensor in graph.tensors
    }
    ops = tuple(
        pieces(op, tensors, waiting.get(op.name, 0))
        if any(name in chosen for name in (*op.inputs, op.output))
        else op
        for op in graph.ops
    )
    return replace(graph, tensors=tuple(tensors.values()), ops=ops)


def stored_tensors(program: Program) -> tuple[Tensor, ...]:
    """Stored tensors of both graphs, those of the training step first."""
    both = (*program.training.tensors, *program.evaluation.tensors)
    return tuple({tensor.name: tensor for tensor in both if tensor.tile}.values())
