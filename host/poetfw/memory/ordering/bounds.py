# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the peak of every op order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poetfw.memory.ordering.indexed import IndexedOps

Matrix = NDArray[np.bool_]


def ancestors(problem: IndexedOps) -> Matrix:
    """Matrix [i, j], True if op j must run before op i."""
    reach = np.zeros((problem.n, problem.n), dtype=np.bool_)
    for j, successors in enumerate(problem.successors):
        for i in successors:  # ops are in topological order, so row j is complete
            reach[i] |= reach[j]
            reach[i, j] = True
    return reach


def unavoidable_bytes(problem: IndexedOps, before: Matrix) -> NDArray[np.int64]:
    """Per op, bytes live while it runs under every order.

    Args:
        problem: the ops.
        before: matrix [i, j], True if op j must run before op i.

    These are its inputs, outputs and workspace, and every tensor with a producer that must run
    earlier and a reader that must run later. An output that may overwrite an input in place counts
    only if some op that must run later reads that input.
    """
    live = np.array(problem.grows, dtype=np.int64)
    for i, share in enumerate(problem.shares):
        if share is not None and not before[list(problem.values[share[1]].readers), i].any():
            live[i] -= share[0]
    for value in problem.values:
        if not value.readers:
            continue
        readers = list(value.readers)
        across = before[:, value.producer] & before[readers].any(axis=0)
        across[readers] = True
        live[across] += value.size
    return live
