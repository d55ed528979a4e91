# SPDX-License-Identifier: Apache-2.0
"""The distinct cases of a program, which can be measured."""

from __future__ import annotations

from collections.abc import Iterable

from poetfw.boards import Board
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.costs import MOVES, TRANSFERS, Case, case_of, own_case_of
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Dtype, Graph, Op
from poetfw.ops import in_variants, kind_of

_ONE_BLOCK_BYTES = BLOCK_BYTES - TRAILER_BYTES  # a tensor that its trailer fits behind
_SEVERAL = 8


def cases_of(graph: Graph, board: Board) -> tuple[Case, ...]:
    """The cases of a training step: its ops in their order, then transfers, the smallest first.

    An op that several kernels run has a case by each. One whose time depends on its numbers has
    cases of its own. A view's case is the copy that it
    is where it cannot be in place. Transfers are of every size
    that a plan may page, of one block, and of several; where they overlap with computing, also
    beside a kernel.
    """
    ops = (case_in(way, graph, board) for op in graph.ops for way in in_variants(op, graph))
    return tuple(dict.fromkeys([*ops, *_transfers(graph, board)]))


def case_in(op: Op, graph: Graph, board: Board) -> Case:
    """The case that an op of a graph is measured as on a board."""
    return own_case_of(op, graph) if _by_numbers(op, graph, board) else case_of(op, graph)


def _by_numbers(op: Op, graph: Graph, board: Board) -> bool:
    """True if what an op takes depends on its numbers: without an FPU, all but a copy's does."""
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
