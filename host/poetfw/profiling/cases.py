# SPDX-License-Identifier: Apache-2.0
"""Distinct cases of a program to measure."""

from __future__ import annotations

from collections.abc import Iterable

from poetfw.boards import Board
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.costs import MOVES, TRANSFERS, Case, case_of, own_case_of
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Dtype, Graph, Op
from poetfw.ops import kind_of

_ONE_BLOCK_BYTES = BLOCK_BYTES - TRAILER_BYTES  # a tensor that shares a block with its trailer
_SEVERAL = 8


def cases_of(graph: Graph, board: Board) -> tuple[Case, ...]:
    """Cases of a training step: ops in order, then transfers in order of size.

    An op whose time depends on its operand values
    has a case of its own. The case of a view is the copy it becomes when it cannot be in place.
    Transfers cover all sizes that a plan may page, one block, and several blocks; if the board
    overlaps transfers with computation, also those beside a kernel.
    """
    ops = (case_in(op, graph, board) for op in graph.ops)
    return tuple(dict.fromkeys([*ops, *_transfers(graph, board)]))


def case_in(op: Op, graph: Graph, board: Board) -> Case:
    """Case by which an op of a graph is measured on a board."""
    return own_case_of(op, graph) if _by_numbers(op, graph, board) else case_of(op, graph)


def _by_numbers(op: Op, graph: Graph, board: Board) -> bool:
    """True if an op's time depends on its values: without an FPU, all ops but copies."""
    kind = kind_of(op)
    if kind.branches or not board.toolchain.soft_float:
        return kind.branches
    operands = (graph.by_name[name] for name in (*op.inputs, *op.updates))
    return not kind.view and any(tensor.dtype is Dtype.F32 for tensor in operands)


def _transfers(graph: Graph, board: Board) -> Iterable[Case]:
    if board.storage is None:
        return
    sizes = {
        tensor.size_bytes
        for tensor in graph.tensors
        if tensor.name in graph.producer and not tensor.role.persistent and tensor.base is None
    }
    several = BLOCK_BYTES * _SEVERAL
    for size_bytes in sorted({*sizes, _ONE_BLOCK_BYTES, several}):
        for kind in MOVES if board.overlaps else TRANSFERS:
            yield Case(kind, size_bytes=size_bytes)
