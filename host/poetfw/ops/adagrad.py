# SPDX-License-Identifier: Apache-2.0
"""Adagrad, by PyTorch's `torch.optim.Adagrad`, without a decay of the learning rate of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, expect_number, register
from poetfw.ops.rounding import gamma
from poetfw.ops.update import UpdateKind, decayed, decayed_bound, mean_square_bound, ratio_bound


@register
class AdagradUpdate(UpdateKind):
    """One step of `Adagrad`; attribute `eps`."""

    name = "adagrad"
    struct = "poet_adagrad"
    macs = 3

    def states(self, op: Op) -> tuple[str, ...]:
        return ("sum",)

    def expect(self, op: Op) -> None:
        expect_number(op, "eps", 0)

    def step(self, op: Op, gradient: Array, pace: Array, updates: Sequence[Array]) -> None:
        parameter, total = updates
        gradient = decayed(op, gradient, parameter)
        total[...] = total + gradient * gradient
        eps = parameter.dtype.type(op.number("eps"))
        parameter[...] = parameter - pace[0] * (gradient / (np.sqrt(total) + eps))

    def bounds(
        self, op: Op, gradient: Array, error: Array, pace: Array, updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        parameter, total = updates
        terms, error = decayed_bound(op, gradient, error, parameter)
        in_total = mean_square_bound(1, 1, terms, error, np.abs(total))
        updated = [value.copy() for value in updates]
        self.step(op, gradient, pace, updated)
        exact, eps = decayed(op, gradient, parameter), op.number("eps")
        in_step = ratio_bound(exact, error, updated[1], in_total, eps, 1)
        step = np.abs(exact) / (np.sqrt(updated[1]) + eps)
        in_parameter = gamma(1) * np.abs(updated[0]) + pace[0] * (
            gamma(3) * step + (1 + gamma(3)) * in_step
        )
        return in_parameter, in_total

    def fields(self, op: Op) -> tuple[tuple[str, int | float], ...]:
        return (("eps", op.number("eps")),)
