# SPDX-License-Identifier: Apache-2.0
"""Factors shared by all updates of a training step: learning rate and bias corrections.

One op calculates them in float32, with additions, multiplications and divisions only, so that a
device gets NumPy's bits. It counts steps in persistent state, so that training resumes from a
checkpoint with the right learning rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    bytes_of,
    expect_inputs,
    expect_integer,
    expect_number,
    register,
)
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma
from poetfw.optimizers import LARGEST_COUNT, SHAPES

_SINE = tuple(
    map(float.fromhex, ("0x1.921fb6p+1", "-0x1.4abbbap+2", "0x1.465e92p+1", "-0x1.2d9302p-1"))
)
"""sin(πv) / v as a polynomial in v², for |v| up to 1/4: the kernel's."""


def _betas(op: Op) -> tuple[float, ...]:
    return tuple(op.number(f"beta{i}") for i in (1, 2) if f"beta{i}" in op.attributes)


def _power(factor: Any, exponent: int) -> Any:
    """The factor ^ exponent, by the kernel's multiplications."""
    result = type(factor)(1)
    while exponent > 0:
        if exponent & 1:
            result = result * factor
        factor = factor * factor
        exponent >>= 1
    return result


def _half_cosine(part: Any) -> Any:
    """(1 + cos(π part)) / 2 for part in [0, 1], by the kernel's polynomial."""
    number = type(part)
    late = part >= 0.5
    v = number(0.5) * (number(1) - part if late else part)
    z = v * v
    p = number(_SINE[3])
    for coefficient in _SINE[2::-1]:
        p = p * z + number(coefficient)
    square = (v * p) * (v * p)
    return square if late else number(1) - square


@register
class Pace(OpKind):
    """No inputs; output [2 + moments]: learning rate, whether a batch is complete, corrections.

    Updates its state [2 + moments]: t, the updates done, the micro-batches since the last one, and
    1 - βᵗ for each moment's β. These begin at 0 and follow c ← β·c + (1 - β) as the moments do, so
    that rounding cannot set them apart. The second output is 1 in the last of `micro_batches` steps
    and else 0; only then t and c go on, and the corrections are 1 / c, else 0. Attributes
    `learning_rate`, `micro_batches`, those of `Schedule.attributes`, and up to two of `beta1`,
    `beta2`.
    """

    name = "pace"
    recomputable = False
    counts = True

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 0)
        expect_number(op, "learning_rate", 0)
        expect_integer(op, "schedule", 0, len(SHAPES) - 1)
        expect_integer(op, "period", 1, LARGEST_COUNT)
        expect_integer(op, "warm_up", 0, LARGEST_COUNT)
        expect_integer(op, "micro_batches", 1, LARGEST_COUNT)
        expect_number(op, "factor", 0, 1)
        for number, _ in enumerate(_betas(op), 1):
            expect_number(op, f"beta{number}", 0, 1)
        return (2 + len(_betas(op)),), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (state,) = updates
        number = state.dtype.type
        pace = np.zeros_like(state)
        pace[0] = self._learning_rate(op, int(state[0]), number)
        state[1] = (state[1] + 1) % op.integer("micro_batches")
        if state[1] > 0:
            return pace
        pace[1] = 1
        state[0] = min(state[0] + 1, LARGEST_COUNT)
        for i, beta in enumerate(_betas(op), 2):
            state[i] = number(beta) * state[i] + number(1 - beta)
            pace[i] = number(1) / state[i]
        return pace

    def _learning_rate(self, op: Op, done: int, number: Any) -> Any:
        rate, warm_up = number(op.number("learning_rate")), op.integer("warm_up")
        if done < warm_up:
            return rate * (number(done + 1) / number(warm_up))
        done, period = done - warm_up, op.integer("period")
        part = number(min(done, period)) / number(period)
        match SHAPES[op.integer("schedule")]:
            case "step":
                return rate * _power(number(op.number("factor")), done // period)
            case "linear":
                return rate * (number(1) - part)
            case "cosine":
                return rate * _half_cosine(part)
            case _:
                return rate

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        pace, state = self.results(op, inputs, updates)
        done = max(int(updates[0][0]) - op.integer("warm_up"), 0)
        # A power has a rounding for each factor, and one for each time that factor was rounded.
        roundings = 16 + (2 * (done // op.integer("period")) if op.integer("schedule") == 1 else 0)
        in_pace = gamma(8) * np.abs(pace)
        in_pace[1] = 0
        # The polynomial's rounding errors are in proportion to the whole rate.
        in_pace[0] = gamma(min(roundings, LARGEST_COUNT // 2)) * op.number("learning_rate")
        in_state = gamma(4) * np.abs(state)
        in_state[:2] = 0
        return in_pace + SMALLEST_NORMAL, in_state + SMALLEST_NORMAL

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        assert output is not None
        return OpWork(macs=16 + 4 * output.elements, bytes_moved=3 * bytes_of(output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        betas = _betas(op)
        moments: list[tuple[str, float]] = []
        for i in (1, 2):
            beta = betas[i - 1] if i <= len(betas) else 0.0
            moments += [(f"beta{i}", beta), (f"share{i}", 1 - beta)]
        return Kernel(
            source="pace",
            function="poet_pace_f32",
            arguments=(op.output, *op.updates),
            struct="poet_pace",
            fields=(
                ("learning_rate", op.number("learning_rate")),
                ("warm_up", op.integer("warm_up")),
                ("schedule", op.integer("schedule")),
                ("period", op.integer("period")),
                ("factor", op.number("factor")),
                ("micro_batches", op.integer("micro_batches")),
                ("moments", len(betas)),
                *moments,
            ),
        )
