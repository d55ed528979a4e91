# SPDX-License-Identifier: Apache-2.0
"""What there is to measure of a program: its distinct cases."""

from __future__ import annotations

from collections.abc import Iterable

from poetfw.boards import Board
from poetfw.costs import MOVES, TRANSFERS, Case, case_of
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Graph
from poetfw.transfer import TRAILER_BYTES

_ONE_BLOCK_BYTES = BLOCK_BYTES - TRAILER_BYTES  # a tensor that its trailer fits behind
_SEVERAL = 8


def cases_of(graph: Graph, board: Board) -> tuple[Case, ...]:
    """The cases of a training step: its ops in their order, then transfers, the smallest first.

    A view's case is the copy that it is where it cannot be in place. Transfers are of every size
    that a plan may page, of one block, and of several; where they overlap with computing, also
    beside a kernel.
    """
    ops = (case_of(op, graph) for op in graph.ops)
    return tuple(dict.fromkeys([*ops, *_transfers(graph, board)]))


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
