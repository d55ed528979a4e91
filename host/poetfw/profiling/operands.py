# SPDX-License-Identifier: Apache-2.0
"""Operand values for ops whose time depends on them.

Without an FPU, a zero takes less time, a row of zeros much less, and the time of a sum depends on
signs and exponents. With an FPU, some functions still branch on their argument.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from poetfw.common.errors import DataError
from poetfw.costs import Case, own_case_of
from poetfw.firmware import sample_order
from poetfw.firmware.sketch import Operands
from poetfw.importers import load_data
from poetfw.ir import Dtype, Tensor
from poetfw.models import Model
from poetfw.ops import Array, kind_of
from poetfw.planning import BuildSettings
from poetfw.profiling.update import Update
from poetfw.training import Program, Reference, value_of

STEPS = range(1, 9)
"""Training steps to take values from, as many as a trace times. Step 0 is skipped, in which an
optimizer has no state yet."""

VALUES = 256
"""Most values of an operand: a larger operand is represented by a sample of its values. Smaller
operands have several sets of values, up to this total and at most one per step."""

_LOOKED_AT = 1 << 14
"""Most elements of a tensor that are sorted."""

_IDS = 100
"""Random integer inputs are below this number."""

_GOLDEN = (5**0.5 - 1) / 2

_RUNNING = "running steps of the network on this computer"


def operands_of(
    program: Program,
    model: Model,
    settings: BuildSettings,
    cases: Collection[Case],
    update: Update,
) -> Operands:
    """Values for the operands (inputs, then updates) of all cases that stand for a single op.

    They come from the first training steps. Each set combines parts of all steps; with several
    sets, a part comes from another step in each. All samples of a batch take an element from the
    same step, so a channel's mean stays that of the channel. For ops that branch on single
    elements, values keep the tensor's distribution. Steps use training data in training order, or
    random numbers if the model does not take the data.

    Args:
        program: program that is trained.
        model: the model with its initial weights.
        settings: data, and seed of the sample order.
        cases: requested cases; if none stands for a single op, no step is run.
        update: called with the number of finished steps.
    """
    graph = program.training
    ops = {own_case_of(op, graph): op for op in graph.ops}
    ops = {case: ops[case] for case in cases if case.numbers}
    if not ops:
        return {}
    update(0, STEPS.stop, _RUNNING)
    seen: dict[Case, list[list[Array]]] = defaultdict(list)
    reference = Reference(program, model.weights, np.float32)
    for step, (x, y) in enumerate(_batches(program, model, settings)):
        known = {name: value.copy() for name, value in reference.persistent.items()}
        with np.errstate(all="ignore"):
            known |= reference.values(x, y)
        for case, op in ops.items() if step in STEPS else ():
            names = (*op.inputs, *op.updates)
            operands = [value_of(graph.by_name[name], known) for name in names]
            some = _in_order if kind_of(op).branches else _some_of_each
            seen[case].append(some(operands))
        update(step + 1, STEPS.stop, _RUNNING)
    return {
        case: tuple(
            tuple(tuple(map(float, numbers.ravel())) for numbers in operands)
            for operands in (_joined if kind_of(op).branches else _parted)(seen[case])
        )
        for case, op in ops.items()
    }


def _some_of_each(operands: Sequence[Array]) -> list[Array]:
    return [_some(operand) for operand in operands]


def _parted(steps: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Sets of values from several steps: as many as fit, at most one per step."""
    largest = max(operand.size for operand in steps[0])
    count = max(1, min(len(steps), VALUES // largest))
    return [
        [_parts(alike, i * len(steps) // count) for alike in zip(*steps, strict=True)]
        for i in range(count)
    ]


def _some(tensor: Array) -> Array:
    """At most `VALUES` elements as [rows, values per row], one from each stretch of the tensor."""
    some = _numbers(tensor)[_places(tensor.size, VALUES)]
    rows = tensor.shape[0] if tensor.ndim > 1 and some.size % tensor.shape[0] == 0 else 1
    return some.reshape(rows, -1)


def _numbers(tensor: Array) -> Array:
    numbers: Array = np.nan_to_num(tensor.ravel(), nan=1.0, posinf=1.0, neginf=-1.0)
    return numbers


def _places(size: int, most: int) -> Array:
    """Positions of at most `most` elements, one from each of as many equal stretches.

    The position within a stretch varies, so that not all come from one image column.
    """
    count = min(size, most)
    stretches = np.arange(count)
    places = (stretches + stretches * _GOLDEN % 1) * (size / count)
    return places.astype(int)


def _parts(alike: Sequence[Array], first: int) -> Array:
    """Columns of several steps' arrays combined, starting with step `first`; returned flat."""
    columns = np.arange(alike[0].shape[1])
    of = (first + columns * len(alike) // len(columns)) % len(alike)
    parts = [alike[i][:, j] for i, j in zip(of.tolist(), columns.tolist(), strict=True)]
    return np.column_stack(parts).ravel()


def _in_order(operands: Sequence[Array], most: int = VALUES) -> list[Array]:
    """At most `most` elements of each operand: quantiles of the first one, in ascending order."""
    first, *others = (_numbers(operand)[_places(operand.size, _LOOKED_AT)] for operand in operands)
    count = min(first.size, most)
    middles = ((np.arange(count) + 0.5) * (first.size / count)).astype(int)
    places = np.argsort(first, kind="stable")[middles]
    return [part[places] if part.size == first.size else part for part in (first, *others)]


def _joined(steps: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """One set of the size of one step, drawn from the values of all steps and shuffled."""
    alike = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    joined = _in_order(alike, steps[0][0].size)
    order = np.argsort(np.arange(joined[0].size) * _GOLDEN % 1)
    return [[part[order] if part.size == order.size else part[:1] for part in joined]]


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

    def drawn(tensor: Tensor) -> Array:
        if tensor.dtype is Dtype.I32:
            return random.integers(0, _IDS, tensor.shape, np.int32)
        return random.standard_normal(tensor.shape, np.float32)

    for _ in range(STEPS.stop):
        x = program.x.join([drawn(tensor) for tensor in program.x.members], program.batch)
        zeros = np.zeros((program.batch, program.y.size_bytes), np.uint8)
        yield x, program.y.samples(zeros)
