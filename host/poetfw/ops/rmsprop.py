# SPDX-License-Identifier: Apache-2.0
"""RMSprop with momentum, by PyTorch's `torch.optim.RMSprop`, not centered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, expect_number, register
from poetfw.ops.rounding import gamma
from poetfw.ops.update import UpdateKind, decayed, decayed_bound, mean_square_bound, ratio_bound


@register
class RmsPropUpdate(UpdateKind):
    """One step of `RmsProp`; attributes `alpha`, `eps` and `momentum`."""

    name = "rmsprop"
    struct = "poet_rmsprop"
    macs = 4

    def states(self, op: Op) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if expect_number(op, "momentum", 0, 1) > 0 else ()
        return ("square_avg", *momentum)

    def expect(self, op: Op) -> None:
        expect_number(op, "alpha", 0, 1)
        expect_number(op, "eps", 0)

    def step(self, op: Op, gradient: Array, pace: Array, updates: Sequence[Array]) -> None:
        parameter, mean, *momenta = updates
        number = parameter.dtype.type
        alpha, eps, momentum = (number(op.number(name)) for name in ("alpha", "eps", "momentum"))
        gradient = decayed(op, gradient, parameter)
        mean[...] = alpha * mean + number(1 - op.number("alpha")) * (gradient * gradient)
        step = gradient / (np.sqrt(mean) + eps)
        for velocity in momenta:
            velocity[...] = momentum * velocity + step
            step = velocity
        parameter[...] = parameter - pace[0] * step

    def bounds(
        self, op: Op, gradient: Array, error: Array, pace: Array, updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        parameter, mean, *momenta = updates
        alpha, eps = op.number("alpha"), op.number("eps")
        terms, error = decayed_bound(op, gradient, error, parameter)
        in_mean = mean_square_bound(1 - alpha, alpha, terms, error, np.abs(mean))
        updated = [value.copy() for value in updates]
        self.step(op, gradient, pace, updated)
        exact = decayed(op, gradient, parameter)
        in_step = ratio_bound(exact, error, updated[1], in_mean, eps, 1)
        step = np.abs(exact) / (np.sqrt(updated[1]) + eps)
        in_states = [in_mean]
        for velocity in momenta:
            step = step + op.number("momentum") * np.abs(velocity)
            in_step = in_step + gamma(3) * step
            in_states.append(in_step)
        in_parameter = gamma(1) * np.abs(updated[0]) + pace[0] * (
            gamma(3) * step + (1 + gamma(3)) * in_step
        )
        return (in_parameter, *in_states)

    def fields(self, op: Op) -> tuple[tuple[str, int | float], ...]:
        alpha = op.number("alpha")
        return (
            ("alpha", alpha),
            ("share", 1 - alpha),
            ("eps", op.number("eps")),
            ("momentum", op.number("momentum")),
        )
