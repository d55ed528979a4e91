# SPDX-License-Identifier: Apache-2.0
"""What a network's ops read: without an FPU, how long an op takes depends on its numbers.

A zero takes less time there, a row of zeros much less, and a sum's depends on the signs and
exponents of its terms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from poetfw.costs import Case, case_of
from poetfw.errors import DataError
from poetfw.firmware import sample_order
from poetfw.firmware.sketch import Operands
from poetfw.importers import load_data
from poetfw.ir import Dtype
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning import BuildSettings
from poetfw.training import Program, Reference, value_of

STEPS = range(1, 9)
"""Training steps whose tensors are looked at: those that a trace times piece by piece. In the
first, an optimizer has no state yet."""

VALUES = 256
"""A larger operand is stood for by so many of its numbers, each in place of those around it."""

_IDS = 100
"""Random inputs of whole numbers are less than that."""

_GOLDEN = (5**0.5 - 1) / 2


def operands_of(program: Program, model: Model, settings: BuildSettings) -> Operands:
    """Numbers of each f32 operand of each case, from the first training steps: inputs, updates.

    An operand is part by part that of each op, where a case occurs several times, and of each step.
    All samples of a batch have an element of the same, and a channel's mean is that of the channel.
    The steps are of the data, in the order of training; where the model takes no such data, of
    random numbers.
    """
    graph = program.training
    seen: dict[str, list[list[Array]]] = defaultdict(list)
    reference = Reference(program, model.weights, np.float32)
    for step, (x, y) in enumerate(_batches(program, model, settings)):
        known = {name: value.copy() for name, value in reference.persistent.items()}
        with np.errstate(all="ignore"):
            known |= reference.values(x, y)
        for op in graph.ops if step in STEPS else ():
            names = (*op.inputs, *op.updates)
            operands = [value_of(graph.by_name[name], known) for name in names]
            seen[op.name].append([_some(operand) for operand in operands])
    of_cases: dict[Case, list[list[Array]]] = defaultdict(list)
    for op in graph.ops:
        of_cases[case_of(op, graph)] += seen[op.name]
    return {
        case: tuple(tuple(map(float, _parts(alike))) for alike in zip(*ops, strict=True))
        for case, ops in of_cases.items()
    }


def _some(tensor: Array) -> Array:
    """At most `VALUES` of its elements [rows, values in a row], of each stretch one.

    Where in a stretch differs, so that they are not all of one column of an image.
    """
    count = min(tensor.size, VALUES)
    stretches = np.arange(count)
    places = (stretches + stretches * _GOLDEN % 1) * (tensor.size / count)
    some: Array = np.nan_to_num(
        tensor.ravel()[places.astype(int)], nan=1.0, posinf=1.0, neginf=-1.0
    )
    rows = tensor.shape[0] if tensor.ndim > 1 and count % tensor.shape[0] == 0 else 1
    return some.reshape(rows, -1)


def _parts(alike: Sequence[Array]) -> Array:
    """The first columns of the first one, and so on; flat."""
    columns = np.arange(alike[0].shape[1])
    of = columns * len(alike) // len(columns)
    parts = [alike[i][:, j] for i, j in zip(of.tolist(), columns.tolist(), strict=True)]
    return np.column_stack(parts).ravel()


def _batches(
    program: Program, model: Model, settings: BuildSettings
) -> Iterator[tuple[Array, Array]]:
    try:
        data = load_data(settings.data, model, settings.features)
        order = [
            sample_order(len(data.x_train), program.batch, settings.seed, step)
            for step in range(STEPS.stop)
        ]
    except (DataError, ValueError):
        yield from _random(program, settings.seed)
        return
    for places in order:
        yield data.x_train[places], data.y_train[places]


def _random(program: Program, seed: int) -> Iterator[tuple[Array, Array]]:
    random = np.random.default_rng(seed)
    dtype = np.int64 if program.label.dtype is Dtype.I32 else np.float32
    for _ in range(STEPS.stop):
        x: Array = random.standard_normal(program.input.shape, np.float32)
        if program.input.dtype is Dtype.I32:
            x = random.integers(0, _IDS, program.input.shape)
        yield x, np.zeros(program.label.shape, dtype)
