# SPDX-License-Identifier: Apache-2.0
"""Adam and AdamW, by PyTorch's `torch.optim.Adam` and `torch.optim.AdamW`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, expect_number, register
from poetfw.ops.rounding import gamma
from poetfw.ops.update import UpdateKind, decayed, decayed_bound, mean_square_bound, ratio_bound


@register
class AdamUpdate(UpdateKind):
    """One step of `Adam`: keeps both moments, and needs a pace, with the corrections of both.

    Attributes `beta1`, `beta2` and `eps`.
    """

    name = "adam"
    struct = "poet_adam"
    macs = 6
    decoupled: ClassVar[bool] = False

    def states(self, op: Op) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def expect(self, op: Op) -> None:
        expect_number(op, "paced", 1, 1)
        expect_number(op, "beta1", 0, 1)
        expect_number(op, "beta2", 0, 1)
        expect_number(op, "eps", 0)

    def step(self, op: Op, gradient: Array, pace: Array, updates: Sequence[Array]) -> None:
        parameter, first, second = updates
        number = parameter.dtype.type
        beta1, beta2, eps = (number(op.number(name)) for name in ("beta1", "beta2", "eps"))
        if self.decoupled:
            decay = number(op.number("weight_decay"))
            parameter[...] = parameter - pace[0] * decay * parameter
        else:
            gradient = decayed(op, gradient, parameter)
        first[...] = beta1 * first + number(1 - op.number("beta1")) * gradient
        second[...] = beta2 * second + number(1 - op.number("beta2")) * (gradient * gradient)
        root = np.sqrt(second * pace[3]) + eps
        parameter[...] = parameter - pace[0] * (first * pace[2] / root)

    def bounds(
        self, op: Op, gradient: Array, error: Array, pace: Array, updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        parameter, first, second = updates
        beta1, beta2, eps = (op.number(name) for name in ("beta1", "beta2", "eps"))
        terms = np.abs(gradient)
        if not self.decoupled:
            terms, error = decayed_bound(op, gradient, error, parameter)
        in_first = gamma(4) * (beta1 * np.abs(first) + (1 - beta1) * terms)
        in_first = in_first + (1 + gamma(4)) * (1 - beta1) * error
        in_second = mean_square_bound(1 - beta2, beta2, terms, error, np.abs(second))
        updated = [value.copy() for value in updates]
        self.step(op, gradient, pace, updated)
        moved = pace[2] * ratio_bound(updated[1], in_first, updated[2], in_second, eps, pace[3])
        step = np.abs(updated[1]) * pace[2] / (np.sqrt(updated[2] * pace[3]) + eps)
        in_parameter = gamma(2) * (np.abs(parameter) + np.abs(updated[0]))
        if self.decoupled:
            in_parameter = in_parameter + gamma(5) * pace[0] * op.number("weight_decay") * np.abs(
                parameter
            )
        in_parameter = in_parameter + pace[0] * (gamma(4) * step + (1 + gamma(4)) * moved)
        return in_parameter, in_first, in_second

    def fields(self, op: Op) -> tuple[tuple[str, int | float], ...]:
        beta1, beta2 = op.number("beta1"), op.number("beta2")
        return (
            ("beta1", beta1),
            ("beta2", beta2),
            ("share1", 1 - beta1),
            ("share2", 1 - beta2),
            ("eps", op.number("eps")),
            ("decoupled", int(self.decoupled)),
        )


@register
class AdamWUpdate(AdamUpdate):
    """One step of `AdamW`."""

    name = "adamw"
    decoupled = True
