# SPDX-License-Identifier: Apache-2.0
"""Fusion of frozen convolutions with the activation and the pooling that follow.

The feature map between a convolution and its pooling is several times as large as the input and the
output of the chain. If no gradient needs it, the three ops become a `pooled_conv2d`, which computes
the map slice by slice. Results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from poetfw.ir import Graph, Op, Role
from poetfw.ops import kind_of
from poetfw.ops.packed import PACKED
from poetfw.ops.pooled import POOLS, is_activation, pooled_conv2d
from poetfw.training.program import Program

_CONVOLUTIONS = ("conv2d", PACKED["conv2d"][0])


def fuse_pooling(program: Program) -> Program:
    """Fuse frozen convolutions with pooling where that takes less RAM."""
    return replace(program, training=_fuse(program.training), evaluation=_fuse(program.evaluation))


def _fuse(graph: Graph) -> Graph:
    for op in graph.ops:
        chain = _chain_from(graph, op)
        if chain is not None:
            graph = _fused(graph, chain) or graph
    return graph


def _chain_from(graph: Graph, conv: Op) -> tuple[Op, Op | None, Op] | None:
    """Frozen convolution, its activation or None, and its pooling; None for other ops."""
    if conv.kind not in _CONVOLUTIONS:
        return None
    if any(graph.by_name[name].role is not Role.CONSTANT for name in conv.inputs[1:]):
        return None
    activation, pool = None, _only_reader(graph, conv)
    if pool is not None and is_activation(pool, graph):
        activation, pool = pool, _only_reader(graph, pool)
    return None if pool is None or pool.kind not in POOLS else (conv, activation, pool)


def _only_reader(graph: Graph, op: Op) -> Op | None:
    """The only reader of an op's output; None if there are others, or for the network's output."""
    assert op.output is not None
    readers = graph.consumers[op.output]
    has_windows = any(tensor.base == op.output for tensor in graph.windows)
    return None if len(readers) != 1 or has_windows or op.output == graph.output else readers[0]


def _fused(graph: Graph, chain: tuple[Op, Op | None, Op]) -> Graph | None:
    """Replace a chain by one op; None if that does not reduce the RAM."""
    conv, activation, pool = chain
    new = pooled_conv2d(conv, activation, pool, graph.by_name[conv.inputs[1]])
    gone = {op.output for op in (conv, activation) if op is not None}
    apart = [op for op in (activation, pool) if op is not None]
    ops = tuple(new if op == conv else op for op in graph.ops if op not in apart)
    tensors = tuple(tensor for tensor in graph.tensors if tensor.name not in gone)
    fused = replace(graph, tensors=tensors, ops=ops)
    return fused if _needed(fused, [new]) < _needed(graph, [conv, pool]) else None


def _needed(graph: Graph, ops: Iterable[Op]) -> int:
    """Largest RAM of an op in bytes: operands and workspace."""
    sizes = {name: graph.by_name[name].size_bytes for name in graph.producer}
    return max(
        sum(sizes[name] for name in sizes.keys() & {*graph.reads(op), op.output})
        + kind_of(op).workspace_bytes(op, graph)
        for op in ops
    )
