# SPDX-License-Identifier: Apache-2.0
"""Operands of a network's ops whose time depends on their numbers.

Without an FPU a zero takes less time, a row of zeros much less, and a sum's time depends on the
signs and exponents of its terms. With one, some functions go another way by what their argument is.
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
from poetfw.ops import Array, in_variants, kind_of
from poetfw.planning import BuildSettings
from poetfw.profiling.update import Update
from poetfw.training import Program, Reference, value_of

STEPS = range(1, 9)
"""Training steps whose tensors are looked at: those that a trace times piece by piece. In the
first, an optimizer has no state yet."""

VALUES = 256
"""A larger operand is stood for by so many of its numbers, each in place of those around it. Of
smaller ones there are several sets, of as many together: up to one for each step."""

_LOOKED_AT = 1 << 14
"""Number of elements that are sorted, of a tensor with more."""

_IDS = 100
"""Random inputs of whole numbers are less than that."""

_GOLDEN = (5**0.5 - 1) / 2

_RUNNING = "running steps of the network on this computer"


def operands_of(
    program: Program,
    model: Model,
    settings: BuildSettings,
    cases: Collection[Case],
    update: Update,
) -> Operands:
    """Numbers of each operand of those cases that are one op's: inputs, then updates.

    They are from the first training steps, part by part of each; where there is room for several
    sets, the same part is of another step in each. All samples of a batch have an
    element of the same step, and a channel's mean is that of the channel. Where an op looks at its
    elements one by one, they are in every range as often as in the tensor. The steps are of
    the data, in the order of training; where the model takes no such data, of random numbers.

    Args:
        program: what is trained.
        model: with its first weights.
        settings: which data, and in which order.
        cases: which are asked for. Where none is one op's, no step is run.
        update: is told how many steps are done.
    """
    graph = program.training
    ways = (way for op in graph.ops for way in in_variants(op, graph))
    ops = {own_case_of(op, graph): op for op in ways}
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
    """Sets of numbers from several steps: as many sets as fit, and at most one per step."""
    largest = max(operand.size for operand in steps[0])
    count = max(1, min(len(steps), VALUES // largest))
    return [
        [_parts(alike, i * len(steps) // count) for alike in zip(*steps, strict=True)]
        for i in range(count)
    ]


def _some(tensor: Array) -> Array:
    """At most `VALUES` of its elements [rows, values in a row], of each stretch one."""
    some = _numbers(tensor)[_places(tensor.size, VALUES)]
    rows = tensor.shape[0] if tensor.ndim > 1 and some.size % tensor.shape[0] == 0 else 1
    return some.reshape(rows, -1)


def _numbers(tensor: Array) -> Array:
    numbers: Array = np.nan_to_num(tensor.ravel(), nan=1.0, posinf=1.0, neginf=-1.0)
    return numbers


def _places(size: int, most: int) -> Array:
    """At most `most` places of a tensor, one from each of as many equal stretches.

    Where in a stretch differs, so that they are not all of one column of an image.
    """
    count = min(size, most)
    stretches = np.arange(count)
    places = (stretches + stretches * _GOLDEN % 1) * (size / count)
    return places.astype(int)


def _parts(alike: Sequence[Array], first: int) -> Array:
    """The first columns of the first one, and so on, and around; flat."""
    columns = np.arange(alike[0].shape[1])
    of = (first + columns * len(alike) // len(columns)) % len(alike)
    parts = [alike[i][:, j] for i, j in zip(of.tolist(), columns.tolist(), strict=True)]
    return np.column_stack(parts).ravel()


def _in_order(operands: Sequence[Array], most: int = VALUES) -> list[Array]:
    """At most so many elements of each, by the first: of each stretch in its order the middle."""
    first, *others = (_numbers(operand)[_places(operand.size, _LOOKED_AT)] for operand in operands)
    count = min(first.size, most)
    middles = ((np.arange(count) + 0.5) * (first.size / count)).astype(int)
    places = np.argsort(first, kind="stable")[middles]
    return [part[places] if part.size == first.size else part for part in (first, *others)]


def _joined(steps: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """One set with as many elements as one step has, drawn from those of all steps and shuffled."""
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
