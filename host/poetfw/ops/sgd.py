# SPDX-License-Identifier: Apache-2.0
"""Stochastic gradient descent with momentum and weight decay, by PyTorch's `torch.optim.SGD`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, expect_integer, expect_number, register
from poetfw.ops.rounding import gamma
from poetfw.ops.update import UpdateKind, decayed, decayed_bound


@register
class SgdUpdate(UpdateKind):
    """g ← g + weight_decay·w;  v ← momentum·v + g;  w ← w - learning_rate·v.

    Where attribute `momentum` is 0, there is no v and g takes its place; else v starts at 0, so
    that the first step has v = g, as in PyTorch. With attribute `nesterov` of 1, w moves by
    g + momentum·v.
    """

    name = "sgd"
    struct = "poet_sgd"

    def states(self, op: Op) -> tuple[str, ...]:
        return ("momentum",) if expect_number(op, "momentum", 0, 1) > 0 else ()

    def expect(self, op: Op) -> None:
        if "nesterov" in op.attributes:
            expect_integer(op, "nesterov", 0, 1)

    def step(self, op: Op, gradient: Array, pace: Array, updates: Sequence[Array]) -> None:
        parameter = updates[0]
        momentum = parameter.dtype.type(op.number("momentum"))
        step = decayed(op, gradient, parameter)
        for velocity in updates[1:]:
            velocity[...] = momentum * velocity + step
            step = step + momentum * velocity if op.attributes.get("nesterov") else velocity
        parameter[...] = parameter - pace[0] * step

    def bounds(
        self, op: Op, gradient: Array, error: Array, pace: Array, updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        # The step is a sum of up to three terms, each with one constant rounded, one product and
        # two additions. The new parameter w - rate·s adds the rounding of the rate, of the product
        # and of the difference.
        parameter, *momenta = updates
        terms, in_step = decayed_bound(op, gradient, error, parameter)
        in_states = []
        for momentum in momenta:
            factor = op.number("momentum")
            in_velocity = gamma(4) * (terms + factor * np.abs(momentum)) + (1 + gamma(4)) * error
            in_states.append(in_velocity)
            velocity = terms + factor * np.abs(momentum)
            if op.attributes.get("nesterov"):
                terms = terms + factor * velocity
                in_step = in_step + gamma(3) * terms + factor * (1 + gamma(3)) * in_velocity
            else:
                terms, in_step = velocity, in_velocity
        updated = [value.copy() for value in updates]
        self.step(op, gradient, pace, updated)
        in_parameter = gamma(1) * np.abs(updated[0]) + pace[0] * (
            gamma(3) * terms + (1 + gamma(3)) * in_step
        )
        return (in_parameter, *in_states)

    def fields(self, op: Op) -> tuple[tuple[str, int | float], ...]:
        nesterov = int(op.number("nesterov")) if "nesterov" in op.attributes else 0
        return (("momentum", op.number("momentum")), ("nesterov", nesterov))
