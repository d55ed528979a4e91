# SPDX-License-Identifier: Apache-2.0
"""Advice of errors about RAM: only what can help with the program at hand."""

from __future__ import annotations

from poetfw.training import Program


def smaller_batch(program: Program) -> list[str]:
    """Advice to use a smaller batch, unless the batch is one sample already."""
    if program.batch == 1:
        return []
    return ["choose a smaller --batch, or a smaller --micro-batch of it"]


def fewer_layers(program: Program) -> list[str]:
    """Advice to train fewer layers, unless only one is trained."""
    if len({name.rpartition(".")[0] for name in program.parameter_states}) == 1:
        return []
    return ["train fewer layers, as with --train last:1: the other weights lie in flash"]
