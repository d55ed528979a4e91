# SPDX-License-Identifier: Apache-2.0
"""Tensor sharing: which op may write its output over an input (NNTrainer's modify-view).

Moon et al., "A New Frontier of AI: On-Device AI Training and Personalization", ICSE-SEIP 2024,
section 4.1. The schedule decides whether it does: only if the op is the input's last reader.
"""

from __future__ import annotations

from poetfw.ir import Graph, Op
from poetfw.ops import kind_of


def in_place_input(graph: Graph, op: Op) -> str | None:
    """The input whose RAM the output of an op may take over, or None.

    Of the inputs that its operator can write over, the one that is read last of all by this op;
    else the one with the fewest readers. Never a persistent tensor, a window, or one of another
    size.
    """
    if op.output is None:
        return None
    size_bytes = graph.by_name[op.output].size_bytes
    bases = [graph.by_name[name].base or name for name in op.inputs]
    candidates = [
        op.inputs[position]
        for position in kind_of(op).in_place
        if position < len(op.inputs)
        and op.inputs[position] in graph.producer
        and bases.count(op.inputs[position]) == 1
        and graph.by_name[op.inputs[position]].size_bytes == size_bytes
    ]
    return min(
        candidates,
        key=lambda name: (graph.consumers[name][-1] != op, len(graph.consumers[name])),
        default=None,
    )
