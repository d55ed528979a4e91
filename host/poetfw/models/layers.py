"""Layers with freshly drawn weights, for the built-in models.

Convolution and linear weights are He normal: mean 0, variance 2 / fan_in (He, Zhang, Ren, Sun,
ICCV 2015, eq. 10), drawn from NumPy's PCG64 in the order of the layers and rounded to float32.
Biases and batch norm's shift start at 0, its scale and running variance at 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poetfw.ir import Attribute, Graph
from poetfw.models.builder import GraphBuilder
from poetfw.models.model import Weights


class Layers:
    """A network being built layer by layer: each method appends to `x` and returns the result."""

    def __init__(self, name: str, input_shape: Sequence[int], seed: int) -> None:
        self._builder = GraphBuilder(name, "x", input_shape)
        self._random = np.random.Generator(np.random.PCG64(seed))
        self.input = self._builder.input

    def shape(self, x: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._builder.shape(x)

    def conv(
        self,
        name: str,
        x: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        bias: bool = False,
    ) -> str:
        """Convolution to `channels`; padding is top, left, bottom, right."""
        shape = (channels, self.shape(x)[1], kernel, kernel)
        inputs = [x, self._builder.parameter(f"{name}.weight", self._he_normal(shape))]
        if bias:
            inputs.append(self._builder.parameter(f"{name}.bias", _zeros(channels)))
        attributes: dict[str, Attribute] = {
            "stride": (stride, stride),
            "padding": padding,
            "groups": 1,
        }
        return self._builder.op("conv2d", name, inputs, attributes)

    def batch_norm(self, name: str, x: str, *, eps: float = 1e-5, momentum: float = 0.1) -> str:
        """Batch normalisation; `momentum` is the new batch's share of the running statistics."""
        channels = self.shape(x)[1]
        affine = np.stack([np.ones(channels, np.float32), _zeros(channels)])
        running = np.stack([_zeros(channels), np.ones(channels, np.float32)])
        inputs = (
            x,
            self._builder.parameter(f"{name}.affine", affine),
            self._builder.state(f"{name}.running", running),
        )
        return self._builder.op("batch_norm", name, inputs, {"eps": eps, "momentum": momentum})

    def relu(self, name: str, x: str) -> str:
        """Rectified linear unit."""
        return self._builder.op("relu", name, (x,))

    def add(self, name: str, a: str, b: str) -> str:
        """Sum of two tensors of one shape."""
        return self._builder.op("add", name, (a, b))

    def pool(self, kind: str, name: str, x: str, kernel: int) -> str:
        """Pooling (`max_pool2d` or `avg_pool2d`) over windows that do not overlap."""
        attributes: dict[str, Attribute] = {
            "kernel": (kernel, kernel),
            "stride": (kernel, kernel),
            "padding": (0, 0, 0, 0),
        }
        if kind == "avg_pool2d":
            attributes["count_include_pad"] = 0
        return self._builder.op(kind, name, (x,), attributes)

    def flatten(self, name: str, x: str) -> str:
        """[N, ...] to [N, features]."""
        batch, *features = self.shape(x)
        return self._builder.op("reshape", name, (x,), {"shape": (batch, math.prod(features))})

    def linear(self, name: str, x: str, features: int) -> str:
        """Fully connected layer with bias: [N, in] to [N, features]."""
        weight = self._he_normal((features, self.shape(x)[1]))
        inputs = (
            x,
            self._builder.parameter(f"{name}.weight", weight),
            self._builder.parameter(f"{name}.bias", _zeros(features)),
        )
        return self._builder.op("linear", name, inputs)

    def build(self, output: str) -> tuple[Graph, Weights]:
        """The finished graph and its initial weights."""
        return self._builder.build(output)

    def _he_normal(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        fan_in = math.prod(shape[1:])
        return self._random.normal(0.0, math.sqrt(2 / fan_in), shape).astype(np.float32)


def _zeros(count: int) -> NDArray[np.float32]:
    return np.zeros(count, np.float32)
