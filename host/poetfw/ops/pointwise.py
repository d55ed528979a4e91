# SPDX-License-Identifier: Apache-2.0
"""Functions of one number, applied to every element, and their gradients.

A gradient is taken from the output where that is enough, so that the input need not be kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Arrays,
    Bounds,
    Kernel,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_number,
    register,
)
from poetfw.ops.elementwise import Elementwise
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma

LARGEST = float(np.finfo(np.float32).max)

Formula = Callable[[Array, float], Array]
Slope = Callable[[Array, Array, float], Array]


@dataclass(frozen=True)
class Function:
    """A function y = f(x) with at most one parameter p.

    Attributes:
        value: f of x and p.
        slope: dx from x (or y, with `from_output`), dy and p.
        error: how far float32 may lie from f(x), in units of 2^-24, of x and p, or of one sign
            and relative to the result, as a number.
        slope_error: the same for the gradient; of x (or y), dy and p.
        from_output: True if the gradient is taken from y.
        parameter: name of the attribute that holds p, and its smallest and largest value.
        onnx: the ONNX operator that is the same, if it has no attributes.
        passes: multiply-accumulates to an element that it counts as.
        branches: True if its kernel goes another way by what x is, as `OpKind.branches` has it.
        slope_branches: the same of the gradient's.
    """

    value: Formula
    slope: Slope
    error: int | Formula
    slope_error: int | Slope
    from_output: bool = False
    parameter: tuple[str, float, float] | None = None
    onnx: str | None = None
    passes: int = 1
    branches: bool = False
    slope_branches: bool = False


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # which cannot overflow
    y: Array = np.where(x < 0, small, 1) / (1 + small)
    return y


def _erf(x: Array) -> Array:
    """The error function."""
    # Imported here because it takes a fifth of a second, and few networks need it.
    from scipy.special import erf

    y: Array = erf(x)
    return y


def _cumulative(x: Array) -> Array:
    """Φ(x) = (1 + erf(x / √2)) / 2, the normal distribution's cumulative density."""
    phi: Array = (1 + _erf(x * x.dtype.type(math.sqrt(0.5)))) / 2
    return phi


def _density(x: Array) -> Array:
    """φ(x), the normal distribution's density."""
    phi: Array = np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi))
    return phi


_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _tanh_inside(x: Array) -> Array:
    return np.tanh(_ROOT * (x + _CUBIC * x * x * x))


def _gelu_tanh_slope(x: Array, dy: Array, p: float) -> Array:
    tanh = _tanh_inside(x)
    inner = _ROOT * (1 + 3 * _CUBIC * x * x)
    dx: Array = dy * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner)
    return dx


def _softplus(x: Array, p: float) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "sigmoid": Function(
            lambda x, p: _sigmoid(x),
            lambda y, dy, p: dy * y * (1 - y),
            6,
            3,
            from_output=True,
            onnx="Sigmoid",
        ),
        "tanh": Function(
            lambda x, p: np.tanh(x),
            lambda y, dy, p: dy * (1 - y * y),
            4,
            lambda y, dy, p: 3 * np.abs(dy) * (1 + y * y),
            from_output=True,
            onnx="Tanh",
        ),
        "silu": Function(
            lambda x, p: x * _sigmoid(x),
            lambda x, dy, p: dy * _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
            7,
            lambda x, dy, p: 16 * np.abs(dy) * _sigmoid(x) * (1 + np.abs(x)),
            passes=2,
        ),
        "gelu": Function(
            lambda x, p: x * _cumulative(x),
            lambda x, dy, p: dy * (_cumulative(x) + x * _density(x)),
            lambda x, p: 12 * np.abs(x),
            lambda x, dy, p: 24 * np.abs(dy),
            passes=3,
            branches=True,
            slope_branches=True,
        ),
        "gelu_tanh": Function(
            lambda x, p: 0.5 * x * (1 + _tanh_inside(x)),
            _gelu_tanh_slope,
            lambda x, p: 16 * np.abs(x),
            lambda x, dy, p: 48 * np.abs(dy),
            passes=3,
        ),
        "leaky_relu": Function(
            lambda x, p: np.where(x > 0, x, x.dtype.type(p) * x),
            lambda y, dy, p: np.where(y > 0, dy, dy.dtype.type(p) * dy),
            2,
            2,
            from_output=True,
            parameter=("slope", 0, 1e6),
        ),
        "elu": Function(
            lambda x, p: np.where(x > 0, x, x.dtype.type(p) * np.expm1(np.minimum(x, 0))),
            lambda y, dy, p: np.where(y > 0, dy, dy * (y + dy.dtype.type(p))),
            lambda x, p: np.where(x > 0, 0, 10 * p),
            lambda y, dy, p: np.abs(dy) * np.where(y > 0, 0, 4 * (np.abs(y) + p)),
            from_output=True,
            parameter=("alpha", 0, 1e6),
            branches=True,
        ),
        "softplus": Function(
            _softplus,
            lambda x, dy, p: dy * _sigmoid(x),
            16,
            8,
            onnx="Softplus",
            passes=2,
            branches=True,
        ),
        "hard_sigmoid": Function(
            lambda x, p: np.clip(x + 3, 0, 6) / 6,
            lambda x, dy, p: np.where((x > -3) & (x < 3), dy / 6, 0),
            lambda x, p: np.abs(x) / 6 + 3 * np.clip(x + 3, 0, 6),
            2,
            branches=True,
            slope_branches=True,
        ),
        "hard_swish": Function(
            lambda x, p: x * np.clip(x + 3, 0, 6) / 6,
            lambda x, dy, p: np.where(x <= -3, 0, np.where(x < 3, dy * (x / 3 + 0.5), dy)),
            lambda x, p: np.abs(x) * (np.abs(x) / 6 + 4 * np.clip(x + 3, 0, 6)),
            lambda x, dy, p: np.where(np.abs(x) < 3, 5 * np.abs(dy) * (np.abs(x) + 1), 0),
            onnx="HardSwish",
            slope_branches=True,
        ),
        "at_least": Function(
            lambda x, p: np.maximum(x, np.float32(p)),
            lambda x, dy, p: np.where(x >= np.float32(p), dy, 0),
            0,
            0,
            parameter=("bound", -LARGEST, LARGEST),
        ),
        "at_most": Function(
            lambda x, p: np.minimum(x, np.float32(p)),
            lambda x, dy, p: np.where(x <= np.float32(p), dy, 0),
            0,
            0,
            parameter=("bound", -LARGEST, LARGEST),
        ),
        "erf": Function(
            lambda x, p: _erf(x),
            lambda x, dy, p: dy * 2 * _density(x * x.dtype.type(math.sqrt(2))) * math.sqrt(2),
            8,
            lambda x, dy, p: 8 * np.abs(dy),
            onnx="Erf",
            passes=3,
            branches=True,
            slope_branches=True,
        ),
        "exp": Function(
            lambda x, p: np.exp(x), lambda y, dy, p: dy * y, 4, 1, from_output=True, onnx="Exp"
        ),
        "log": Function(
            lambda x, p: np.log(x),
            lambda x, dy, p: dy / x,
            4,
            1,
            onnx="Log",
            branches=True,
        ),
        "sqrt": Function(
            lambda x, p: np.sqrt(x),
            lambda y, dy, p: dy * 0.5 / y,
            1,
            2,
            from_output=True,
            onnx="Sqrt",
        ),
        "norm_root": Function(  # of a sum of squares, whose norm has the gradient 0 at 0
            lambda x, p: np.sqrt(x),
            lambda y, dy, p: np.where(y == 0, 0, dy * 0.5 / y),
            1,
            2,
            from_output=True,
            slope_branches=True,
        ),
        "reciprocal": Function(
            lambda x, p: 1 / x,
            lambda y, dy, p: -dy * y * y,
            1,
            2,
            from_output=True,
            onnx="Reciprocal",
        ),
        "square": Function(lambda x, p: x * x, lambda x, dy, p: 2 * dy * x, 1, 2),
        "abs": Function(
            lambda x, p: np.abs(x),
            lambda x, dy, p: dy * np.sign(x),
            0,
            0,
            onnx="Abs",
            slope_branches=True,
        ),
        "scale": Function(
            lambda x, p: x * x.dtype.type(p),
            lambda y, dy, p: dy * dy.dtype.type(p),
            2,
            2,
            parameter=("factor", -LARGEST, LARGEST),
        ),
    }
)
"""Every function, by the name of its operator."""


class _Pointwise(Elementwise):
    """Shared by both passes."""

    source = "pointwise"
    function_name: str

    @property
    def function_of(self) -> Function:
        """The function."""
        return FUNCTIONS[self.function_name]

    def parameter(self, op: Op) -> float:
        """p; 0 where the function has none."""
        named = self.function_of.parameter
        return 0.0 if named is None else op.number(named[0])

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        if self.function_of.parameter is not None:
            expect_number(op, *self.function_of.parameter)
        return super().infer(op, inputs)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        macs = self.function_of.passes * len(inputs) * inputs[0].elements
        return OpWork(macs, bytes_of(*inputs, output))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        error = self._error()
        return error if isinstance(error, int) else 1

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        error = self._error()
        if isinstance(error, int):
            (result,) = self.results(op, inputs, updates)
            if error == 0:
                return (np.zeros_like(result),)
            return (gamma(error) * np.abs(result) + SMALLEST_NORMAL,)
        return (gamma(1) * error(*inputs, self.parameter(op)) + SMALLEST_NORMAL,)

    def _error(self) -> int | Callable[..., Array]:
        raise NotImplementedError

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        elements = graph.by_name[op.inputs[0]].elements
        return Kernel(
            source=self.source,
            function=self.function,
            arguments=(*op.inputs, op.output),
            struct="poet_pointwise",
            fields=(("elements", elements), ("parameter", self.parameter(op))),
        )


class _Forward(_Pointwise):
    """y = f(x)."""

    inputs_count = 1
    in_place = (0,)
    pointwise = True

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return self.function_of.value(inputs[0], self.parameter(op)).astype(inputs[0].dtype)

    def _error(self) -> int | Callable[..., Array]:
        return self.function_of.error

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        return (np.abs(self.compute(op, errors, updates)),)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        assert op.output is not None
        (x,) = op.inputs
        if not tape.needs_gradient(x):
            return
        inputs: tuple[str, ...]
        if op.kind == "scale":  # which is its own gradient
            kind, inputs = op.kind, (output_gradient,)
        else:
            seen = op.output if self.function_of.from_output else x
            kind, inputs = f"{op.kind}_backward", (seen, output_gradient)
        tape.add_gradient(x, tape.emit(kind, f"{op.name}.backward", inputs, op.attributes))


class _Backward(_Pointwise):
    """Inputs x, or y, and dy; dx = f'(x) · dy."""

    carries = (1,)
    inputs_count = 2

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            seen, dy = inputs
            return self.function_of.slope(seen, dy, self.parameter(op)).astype(dy.dtype)

    def _error(self) -> int | Callable[..., Array]:
        return self.function_of.slope_error

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        return (np.abs(self.compute(op, [inputs[0], errors[1]], updates)),)


for _name, _function in FUNCTIONS.items():
    for _base, _pass in ((_Forward, "forward"), (_Backward, "backward")):
        if _name == "scale" and _base is _Backward:
            continue
        register(
            type(
                f"{_name}_{_pass}",
                (_base,),
                {
                    "name": _name if _base is _Forward else f"{_name}_backward",
                    "onnx": _function.onnx if _base is _Forward else None,
                    "function_name": _name,
                    "carries": (0,) if _name == "scale" else _base.carries,
                    "branches": _function.branches
                    if _base is _Forward
                    else _function.slope_branches,
                    "function": f"poet_{_name}_{_pass}_f32",
                },
            )
        )
