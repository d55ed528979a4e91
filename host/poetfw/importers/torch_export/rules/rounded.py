# SPDX-License-Identifier: Apache-2.0
"""Rules of rounding, remainders and whole quotients.

Rounded numbers have no gradient, as in PyTorch. Remainders pass the gradient of their dividend on.
"""

from __future__ import annotations

from collections.abc import Callable

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value
from poetfw.importers.torch_export.expression import Expression, expression
from poetfw.importers.torch_export.rules.registry import Number, aten


def nearest(x: Expression) -> Expression:
    """Append the nearest whole number, of two the even one."""
    return x.apply("nearest")


def floor(x: Expression) -> Expression:
    """Append the largest whole number that is not above x."""
    near = nearest(x)
    return near - near.above(x)


def truncated(x: Expression) -> Expression:
    """Append x without its fraction."""
    down = floor(x.abs())
    return (-x).positive().choose(-down, down)


for _target, _function in {
    "round.default": nearest,
    "floor.default": floor,
    "ceil.default": lambda x: -floor(-x),
    "trunc.default": truncated,
    "fix.default": truncated,
    "frac.default": lambda x: x - truncated(x),
}.items():

    def _register(target: str, function: Callable[[Expression], Expression]) -> None:
        @aten(target)
        def rule(call: Call, self: Value) -> str:
            return function(expression(call, self)).tensor

    _register(_target, _function)


def _remainder(x: Expression, y: Expression) -> Expression:
    """Append x - floor(x / y) · y, which has the sign of y.

    The quotient is rounded, so the floor may be wrong by one; the remainder shows that.
    """
    # as numbers of one sign: x / y is -x / -y, and the remainder of those is -remainder
    turned = (-y).positive()
    dividend, divisor = turned.choose(-x, x), y.abs()
    rest = dividend - floor(dividend / divisor) * divisor
    rest = rest + (-rest).positive().keep(divisor)
    rest = rest - (1.0 - divisor.above(rest)).keep(divisor)
    return turned.choose(-rest, rest)


def _signed_remainder(x: Expression, y: Expression) -> Expression:
    """Append the remainder with the sign of x."""
    rest = _remainder(x.abs(), y.abs())
    return (-x).positive().choose(-rest, rest)


def _pair(call: Call, self: Value | Number, other: Value | Number) -> tuple[Expression, Expression]:
    """Dividend and divisor, one of which may be a number."""
    if isinstance(self, int | float):
        if isinstance(other, int | float):
            raise UnsupportedError("it divides two numbers")
        y = expression(call, other)
        return y.of(float(self)), y
    x = expression(call, self)
    if isinstance(other, int | float):
        if other == 0:
            raise UnsupportedError("it divides by 0")
        return x, x.of(float(other))
    return x, expression(call, other)


@aten("remainder.Scalar", "remainder.Tensor", "remainder.Scalar_Tensor")
def _remainder_of(call: Call, self: Value | Number, other: Value | Number) -> str:
    return _remainder(*_pair(call, self, other)).tensor


@aten("fmod.Scalar", "fmod.Tensor")
def _signed_remainder_of(call: Call, self: Value, other: Value | Number) -> str:
    return _signed_remainder(*_pair(call, self, other)).tensor


@aten("floor_divide.default")
def _quotient(call: Call, self: Value, other: Value | Number) -> str:
    x, y = (each.detach() for each in _pair(call, self, other))
    return nearest((x - _remainder(x, y)) / y).tensor


@aten("div.Tensor_mode", "div.Scalar_mode")
def _quotient_by(
    call: Call, self: Value, other: Value | Number, rounding_mode: str | None = None
) -> str:
    x, y = _pair(call, self, other)
    if rounding_mode is None:
        return (x / y).tensor
    if rounding_mode not in ("floor", "trunc"):
        raise UnsupportedError(f"its rounding_mode is {rounding_mode!r:.40}")
    x, y = x.detach(), y.detach()
    rest = _remainder(x, y) if rounding_mode == "floor" else _signed_remainder(x, y)
    return nearest((x - rest) / y).tensor
