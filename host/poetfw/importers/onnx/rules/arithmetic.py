# SPDX-License-Identifier: Apache-2.0
"""Rules of arithmetic and reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.rules.registry import Rule, onnx_rule
from poetfw.importers.onnx.rules.shapes import BATCH
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import UnsupportedError


@onnx_rule("ReduceMean")
def _reduce_mean(node: OnnxNode, values: Values) -> str:
    return _reduce(node, values, total=False)


@onnx_rule("ReduceSum")
def _reduce_sum(node: OnnxNode, values: Values) -> str:
    return _reduce(node, values, total=True)


@onnx_rule("ReduceMax")
def _reduce_max(node: OnnxNode, values: Values) -> str:
    x, axes, keep = _reduced(node, values)
    return values.net.largest(node.name, x, axes, keep=keep)


@onnx_rule("ReduceMin")
def _reduce_min(node: OnnxNode, values: Values) -> str:
    x, axes, keep = _reduced(node, values)
    negative = values.net.scale(node.name, x, -1.0)
    least = values.net.largest(node.name, negative, axes, keep=keep)
    return values.net.scale(node.name, least, -1.0)


def _reduce_of(kind: str, after: str | None = None) -> Rule:
    """Create the rule of a reduction that sums a function `kind`, then applies `after`."""

    def rule(node: OnnxNode, values: Values) -> str:
        x, axes, keep = _reduced(node, values)
        each = values.builder.op(kind, node.name, (x,))
        y = values.net.mean(node.name, each, axes, keep=keep, total=True)
        return y if after is None else values.builder.op(after, node.name, (y,))

    return rule


def _reduce(node: OnnxNode, values: Values, *, total: bool) -> str:
    x, axes, keep = _reduced(node, values)
    return values.net.mean(node.name, x, axes, keep=keep, total=total)


def _reduced(node: OnnxNode, values: Values) -> tuple[str, list[int], bool]:
    """Input of a reduction, its axes, and whether they are kept."""
    x = values.weight(node.inputs[0])
    rank = len(values.builder.shape(x))
    axes: Sequence[int] = node.attributes.get("axes", ())
    if node.has_input(1):
        axes = values.integers(node.inputs[1])
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        raise UnsupportedError("it reduces no axes")
    found = [range(rank)[axis] for axis in axes or range(rank)]
    if (0 in found and values.has_batch(x)) or len(set(found)) != len(found):
        raise UnsupportedError(f"it reduces axes {list(axes)}: {BATCH}")
    return x, found, bool(node.attributes.get("keepdims", 1))


@onnx_rule("Add")
def _add(node: OnnxNode, values: Values) -> str:
    return _sum(node, values, 1.0)


def _sum(node: OnnxNode, values: Values, factor: float) -> str:
    """First input plus `factor` times the second."""
    first, second = node.inputs
    number = _number(values, second)
    if number is not None and not values.is_constant(first):
        return values.net.shift(node.name, values.tensor(first), factor * number)
    scaled = values.net.scale(node.name, values.weight(second), factor)
    number = _number(values, first)
    if number is not None:
        return values.net.shift(node.name, scaled, number)
    return values.net.add(node.name, values.weight(first), scaled)


@onnx_rule("Mul")
def _multiply(node: OnnxNode, values: Values) -> str:
    """Multiply by a tensor, or by a single number that is not a weight."""
    first, second = node.inputs
    for x, number in ((first, second), (second, first)):
        factor = _number(values, number)
        if factor is not None and not values.is_constant(x):
            values.expect_free_of_batch(factor)
            return values.net.scale(node.name, values.tensor(x), factor)
    return values.net.multiply(node.name, values.weight(first), values.weight(second))


@onnx_rule("Sub")
def _subtract(node: OnnxNode, values: Values) -> str:
    return _sum(node, values, -1.0)


@onnx_rule("Greater")
def _above(node: OnnxNode, values: Values) -> str:
    """The mask of elements of the first that are above the second."""
    return values.builder.op("positive", node.name, (_sum(node, values, -1.0),))


@onnx_rule("Div")
def _divide(node: OnnxNode, values: Values) -> str:
    first, second = node.inputs
    divisor = _number(values, second)
    if divisor:
        values.expect_free_of_batch(divisor)
        return values.net.scale(node.name, values.weight(first), 1 / divisor)
    inverse = values.builder.op("reciprocal", node.name, (values.weight(second),))
    return values.net.multiply(node.name, values.weight(first), inverse)


def _number(values: Values, name: str) -> float | None:
    """Constant number that a name stands for; None if it is not one."""
    if not values.is_fixed(name) or math.prod(values.dims(name)) != 1:
        return None
    return float(values.masks(name).reshape(-1)[0])


@onnx_rule("Neg")
def _negate(node: OnnxNode, values: Values) -> str:
    return values.net.scale(node.name, values.weight(node.inputs[0]), -1.0)


@onnx_rule("Pow")
def _power(node: OnnxNode, values: Values) -> str:
    if not values.is_constant(node.inputs[1]):
        raise UnsupportedError("its exponent is calculated")
    values.expect_fixed(node.inputs[1])
    exponent = values.array(node.inputs[1])
    if exponent.size != 1:
        raise UnsupportedError("it has several exponents")
    return values.net.power(
        node.name, values.weight(node.inputs[0]), float(exponent.reshape(-1)[0])
    )


@onnx_rule("Sum")
def _sum_all(node: OnnxNode, values: Values) -> str:
    first, *others = map(values.weight, node.inputs)
    for other in others:
        first = values.net.add(node.name, first, other)
    return first


onnx_rule("ReduceL1")(_reduce_of("abs"))
onnx_rule("ReduceL2")(_reduce_of("square", "sqrt"))
onnx_rule("ReduceSumSquare")(_reduce_of("square"))
