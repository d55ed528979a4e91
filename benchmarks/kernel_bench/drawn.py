# SPDX-License-Identifier: Apache-2.0
"""Ops of shapes drawn at random, small ones above all: there, what surrounds the loops counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from kernel_bench.cases import (
    FUSED,
    SGD,
    Call,
    Case,
    Shape,
    convolution_calls,
    dense,
    elementwise,
    normalization,
)

MOST_WORK = 60_000
"""Products or elements of a drawn op, at most."""

MOST_BYTES = 48 << 10
"""Of an op's tensors: the RAM of a Cortex-M0+'s emulated machine has room for them."""

Draw = Callable[[random.Random], Iterator[Case]]


def drawn(family: str, count: int, seed: int) -> list[Case]:
    """Cases of `count` shapes of a family, the same for the same numbers."""
    chance = random.Random(f"{family} {seed}")
    cases: dict[str, Case] = {}
    shapes = 0
    while shapes < count:
        cases.update({case.key: case for case in FAMILIES[family](chance) if _is_small(case)})
        shapes += 1
    return list(cases.values())


def _is_small(case: Case) -> bool:
    graphs = [call.graph()[1] for call in case.calls]
    most = max(sum(tensor.size_bytes for tensor in graph.tensors) for graph in graphs)
    return 0 < case.work <= MOST_WORK and most <= MOST_BYTES


def _size(chance: random.Random, most: int) -> int:
    """From 1 to `most`, as often below its square root as above."""
    return min(most, int((most + 1) ** chance.random()))


def _plane(chance: random.Random, most: int = 28) -> Shape:
    rows = _size(chance, most)
    return (rows, rows) if chance.random() < 0.5 else (rows, _size(chance, most))


def _convolution(
    chance: random.Random, kernel: Shape, *, same: bool, depthwise: bool = False
) -> Iterator[Case]:
    """A convolution; `same`: with the usual strides and padding."""
    stride = (1, 1)
    if chance.random() < 0.5:
        stride = (2, 2) if same else (chance.randint(1, 3), chance.randint(1, 3))
    padding = (kernel[0] // 2, kernel[1] // 2) * 2
    if not same:
        top, left = chance.randrange(kernel[0]), chance.randrange(kernel[1])
        padding = (top, left, chance.randrange(kernel[0]), chance.randrange(kernel[1]))
    rows, columns = _plane(chance)
    if rows + padding[0] + padding[2] < kernel[0] or columns + padding[1] + padding[3] < kernel[1]:
        return
    inside, outside, groups = _size(chance, 24), _size(chance, 24), 1
    if depthwise:
        outside = groups = inside
    elif chance.random() < 0.1:
        inside, outside, groups = 2 * inside, 2 * outside, 2
    bias = chance.random() < 0.5
    x = (chance.choice((1, 1, 1, 2, 3, 4, 8, 32)), inside, rows, columns)
    calls, macs = convolution_calls(
        x, outside, kernel, stride=stride, padding=padding, groups=groups, bias=bias
    )
    name = (
        f"{kernel[0]}x{kernel[1]} {inside}>{outside} {rows}x{columns} by {stride[0]},{stride[1]}"
        f" padding {','.join(map(str, padding))} groups {groups} bias {bias:d} x{x[0]}"
    )
    for part, call in calls.items():
        yield Case(name, part, (call,), macs)


def _square(extent: int, *, depthwise: bool = False) -> Draw:
    return lambda chance: _convolution(
        chance, (extent, extent), same=chance.random() < 0.75, depthwise=depthwise
    )


def _general(chance: random.Random) -> Iterator[Case]:
    kernel = (chance.randint(1, 7), chance.randint(1, 7))
    kernel = (kernel[0], kernel[0]) if chance.random() < 0.5 else kernel
    return _convolution(chance, kernel, same=False, depthwise=chance.random() < 0.15)


def _dense(chance: random.Random) -> Iterator[Case]:
    batch, features, outputs = _size(chance, 64), _size(chance, 300), _size(chance, 300)
    name = f"dense {features}>{outputs} x{batch}"
    yield from dense(name, batch, features, outputs)
    x, w, y = (batch, features), (outputs, features), (batch, outputs)
    fused = Call("linear_backward_weight_sgd", (x, y), SGD, (w, w))
    yield Case(name, FUSED, (fused,), batch * features * outputs)


def _normalization(chance: random.Random) -> Iterator[Case]:
    x = (_size(chance, 32), _size(chance, 32), *_plane(chance))
    return normalization(f"batch norm {'x'.join(map(str, x))}", x)


def _others(chance: random.Random) -> Iterator[Case]:
    rows, columns = _plane(chance)
    x = (_size(chance, 32), _size(chance, 32), rows + 1, columns + 1)
    for case in elementwise(x):
        yield Case(
            f"{case.name} {'x'.join(map(str, x))}", case.part, case.calls, case.work, case.unit
        )


FAMILIES: dict[str, Draw] = {
    "conv 1x1": _square(1),
    "conv 3x3": _square(3),
    "conv 5x5": _square(5),
    "conv of any kernel": _general,
    "depthwise 3x3": _square(3, depthwise=True),
    "depthwise 5x5": _square(5, depthwise=True),
    "dense": _dense,
    "batch norm": _normalization,
    "other ops": _others,
}
"""By what a table of results says."""
