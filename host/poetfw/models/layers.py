# SPDX-License-Identifier: Apache-2.0
"""Layers for built-in models, whose weights are drawn when first read.

Weights of convolutions and linear layers are drawn in layer order from one distribution, by default
He's. Biases and shifts of normalisations start at 0, scales and running variances at 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from poetfw.ir import Attribute, Dtype, Graph, Role
from poetfw.models.builder import MOST_OPS, GraphBuilder
from poetfw.models.weights import DrawnWeights, Initializer, he_normal, rows, zeros

Pair = tuple[int, int]
"""Height and width."""


def same_padding(extents: Sequence[int], kernel: Pair, stride: int) -> tuple[int, int, int, int]:
    """Keras's "same" padding as (top, left, bottom, right); an odd row or column comes last."""
    totals = [
        max((-(-extent // stride) - 1) * stride + size - extent, 0)
        for extent, size in zip(extents, kernel, strict=True)
    ]
    top, left = (total // 2 for total in totals)
    return top, left, totals[0] - top, totals[1] - left


class Layers:
    """A network under construction: a method appends a layer to `x` and returns its output."""

    def __init__(
        self,
        name: str,
        input_shape: Sequence[int],
        seed: int,
        *,
        dtype: Dtype = Dtype.F32,
        weight: Callable[[tuple[int, ...]], Initializer] = he_normal,
        most_ops: int = MOST_OPS,
    ) -> None:
        """Start with an input; `weight` maps a weight's shape to its initial distribution."""
        self._builder = GraphBuilder(name, "x", input_shape, dtype, most_ops)
        self._seed = seed
        self._weight = weight
        self._initializers: dict[str, Initializer] = {}
        self.input = self._builder.input

    def shape(self, x: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._builder.shape(x)

    def op(
        self,
        kind: str,
        name: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """Append an op without weights of its own."""
        return self._builder.op(kind, name, inputs, attributes)

    def weight(self, name: str, shape: tuple[int, ...]) -> str:
        """Add a trained tensor with initial values from the network's distribution."""
        return self._persistent(name, self._weight(shape))

    def bias(self, name: str, length: int) -> str:
        """Add a trained vector that starts at 0."""
        return self._persistent(name, zeros(length))

    def constant_zeros(self, name: str, *shape: int) -> str:
        """Add a tensor of zeros that is not trained."""
        return self._persistent(name, zeros(*shape), Role.STATE)

    def conv(
        self,
        name: str,
        x: str,
        channels: int,
        kernel: int | Pair,
        *,
        stride: int = 1,
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        groups: int = 1,
        bias: bool = False,
    ) -> str:
        """Append a convolution to `channels`; padding is (top, left, bottom, right)."""
        shape = (channels, self.shape(x)[1] // groups, *_pair(kernel))
        inputs = [x, self.weight(f"{name}.weight", shape)]
        if bias:
            inputs.append(self.bias(f"{name}.bias", channels))
        attributes: dict[str, Attribute] = {
            "stride": (stride, stride),
            "padding": padding,
            "groups": groups,
        }
        return self._builder.op("conv2d", name, inputs, attributes)

    def batch_norm(self, name: str, x: str, *, eps: float = 1e-5, momentum: float = 0.1) -> str:
        """Append batch normalisation; `momentum` weights the new batch in running statistics."""
        channels = self.shape(x)[1]
        inputs = (
            x,
            self._persistent(f"{name}.affine", rows(channels, 1, 0)),
            self._persistent(f"{name}.running", rows(channels, 0, 1), Role.STATE),
        )
        return self._builder.op("batch_norm", name, inputs, {"eps": eps, "momentum": momentum})

    def layer_norm(self, name: str, x: str, *, eps: float) -> str:
        """Append layer normalisation over the last axis."""
        channels = self.shape(x)[-1]
        affine = self._persistent(f"{name}.affine", rows(channels, 1, 0))
        attributes: dict[str, Attribute] = {"groups": 1, "channels": channels, "inner": 1}
        return self._builder.op("layer_norm", name, (x, affine), {"eps": eps, **attributes})

    def relu(self, name: str, x: str) -> str:
        """Append a rectified linear unit."""
        return self._builder.op("relu", name, (x,))

    def add(self, name: str, a: str, b: str) -> str:
        """Append the sum of two tensors of the same shape."""
        return self._builder.op("add", name, (a, b))

    def pool(self, kind: str, name: str, x: str, kernel: int | Pair) -> str:
        """Append pooling (`max_pool2d` or `avg_pool2d`) with non-overlapping windows."""
        attributes: dict[str, Attribute] = {
            "kernel": _pair(kernel),
            "stride": _pair(kernel),
            "padding": (0, 0, 0, 0),
        }
        if kind == "avg_pool2d":
            attributes["count_include_pad"] = 0
        return self._builder.op(kind, name, (x,), attributes)

    def flatten(self, name: str, x: str) -> str:
        """Append a reshape from [N, ...] to [N, features]."""
        batch, *features = self.shape(x)
        return self._builder.op("reshape", name, (x,), {"shape": (batch, math.prod(features))})

    def reshape(self, name: str, x: str, *shape: int) -> str:
        """Append a reshape."""
        return self._builder.op("reshape", name, (x,), {"shape": shape})

    def part(self, name: str, x: str, axis: int, start: int, length: int = 1) -> str:
        """Append a slice: `length` positions along an axis, from `start` on."""
        attributes: dict[str, Attribute] = {"axis": axis, "start": start, "length": length}
        return self._builder.op("slice", name, (x,), attributes)

    def linear(self, name: str, x: str, features: int) -> str:
        """Append a fully connected layer with bias: [N, in] to [N, features]."""
        inputs = (
            x,
            self.weight(f"{name}.weight", (features, self.shape(x)[1])),
            self.bias(f"{name}.bias", features),
        )
        return self._builder.op("linear", name, inputs)

    def build(self, output: str) -> tuple[Graph, DrawnWeights]:
        """Finish the graph; returns it with its initial weights, which are not drawn yet."""
        graph, _ = self._builder.build(output)
        return graph, DrawnWeights(self._initializers, self._seed)

    def _persistent(self, name: str, initializer: Initializer, role: Role = Role.PARAMETER) -> str:
        name = self._builder.declare(name, initializer.shape, role)
        self._initializers[name] = initializer
        return name


def _pair(extent: int | Pair) -> Pair:
    return (extent, extent) if isinstance(extent, int) else extent
