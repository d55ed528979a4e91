# SPDX-License-Identifier: Apache-2.0
"""The frozen part of a training step: ops whose results for a sample are those of every epoch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poetfw.ir import Graph, Role
from poetfw.ops import Array
from poetfw.ops.pieces import plain_name
from poetfw.training.program import Program
from poetfw.training.reference import Reference

_LARGEST_DIFFERENCE = 1e-9
"""Relative to the largest magnitude: above roundings in float64, below what another sample adds."""


def frozen_part(graph: Graph) -> frozenset[str]:
    """Names of the ops that depend on a batch's inputs and on constants alone.

    An op that trains, draws random numbers or moves running statistics is left out, since it reads
    or updates a persistent tensor. So are all ops that depend on its output.
    """
    fixed = {tensor.name for tensor in graph.tensors if tensor.role is Role.CONSTANT}
    ops = set()
    for op in graph.ops:
        if plain_name(op.kind) != "load_y" and not op.updates and fixed.issuperset(graph.reads(op)):
            ops.add(op.name)
            fixed.add(op.output or "")
    return frozenset(ops)


def is_of_one_sample(
    program: Program, weights: Mapping[str, Array], tensor: str, x: Array, y: Array
) -> bool:
    """True if a tensor's row for a sample depends on neither the batch's other samples nor its row.

    Calculated by the reference: the first sample alone, in every row of a batch, must give the row
    that it gives as the first of a batch.

    Args:
        program: whose training step has the tensor.
        weights: initial values by tensor name.
        tensor: name of the tensor, [batch, ...].
        x: features of a batch of samples.
        y: their targets.
    """
    if program.batch == 1:
        return True
    both = (x, np.repeat(x[:1], len(x), axis=0))
    batch, alone = (Reference(program, weights).values(each, y)[tensor] for each in both)
    difference = np.abs(alone - batch[:1])
    return bool(np.max(difference) <= _LARGEST_DIFFERENCE * np.max(np.abs(alone), initial=1e-30))
