# SPDX-License-Identifier: Apache-2.0
"""Layers on a tape: what each records in the forward pass, and what autograd keeps and runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from workloads.networks.tape import Gradients, Tape, Value

BYTE = 1
"""Bytes of a dropout mask's element."""

INDEX = 8
"""Bytes of an index."""


def _window(size: Sequence[int], kernel: int, stride: int, padding: int) -> tuple[int, ...]:
    return tuple((n + 2 * padding - kernel) // stride + 1 for n in size)


class Layers:
    """A network under construction.

    Attributes:
        tape: where it is recorded.
    """

    def __init__(self) -> None:
        self.tape = Tape()

    def convolution(
        self,
        x: Value,
        channels: int,
        kernel: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        *,
        groups: int = 1,
        bias: bool = False,
    ) -> Value:
        """Convolution over however many axes x has behind batch and channels."""
        axes = len(x.shape) - 2
        kernels, strides, paddings = (
            (v,) * axes if isinstance(v, int) else v for v in (kernel, stride, padding)
        )
        size = [
            _window([n], k, s, p)[0]
            for n, k, s, p in zip(x.shape[2:], kernels, strides, paddings, strict=True)
        ]
        weight = self.tape.parameter(channels, x.shape[1] // groups, *kernels)
        parameters = [weight, *([self.tape.parameter(channels)] if bias else [])]
        (y,) = self.tape.op("convolution", [x, *parameters], (x.shape[0], channels, *size))

        def backward(dy: Value) -> Gradients:
            wanted = [v for v in (x, *parameters) if v.trained]
            shapes = [v.shape for v in wanted]
            # The gradient of x is written last, when x itself is not read any more.
            over = [x] if x.trained else []
            parts = self.tape.op("convolution_backward", [dy, x, weight], *shapes, over=over)
            return list(zip(wanted, parts, strict=True))

        return self.tape.on_backward(y, backward)

    def batch_norm(self, x: Value) -> Value:
        """Batch norm in training: keeps its input and the batch's statistics."""
        channels = (x.shape[1],)
        weight, bias = self.tape.parameter(*channels), self.tape.parameter(*channels)
        reads = [x, weight, bias]
        y, mean, deviation = self.tape.op(
            "batch_norm", reads, x.shape, channels, channels, over=[x]
        )

        def backward(dy: Value) -> Gradients:
            kept = [dy, x, weight, mean, deviation]
            parts = self.tape.op(
                "batch_norm_backward", kept, x.shape, channels, channels, over=[dy, x]
            )
            return list(zip((x, weight, bias), parts, strict=True))

        return self.tape.on_backward(y, backward)

    def layer_norm(self, x: Value) -> Value:
        """Layer norm over the last axis."""
        width, rows = (x.shape[-1],), x.shape[:-1]
        weight, bias = self.tape.parameter(*width), self.tape.parameter(*width)
        y, mean, deviation = self.tape.op(
            "layer_norm", [x, weight, bias], x.shape, rows, rows, over=[x]
        )

        def backward(dy: Value) -> Gradients:
            kept = [dy, x, weight, bias, mean, deviation]
            parts = self.tape.op("layer_norm_backward", kept, x.shape, width, width, over=[dy, x])
            return list(zip((x, weight, bias), parts, strict=True))

        return self.tape.on_backward(y, backward)

    def relu(self, x: Value, *, in_place: bool = True) -> Value:
        """ReLU: its gradient is found from its output."""
        y = self.tape.overwrite("relu_", x) if in_place else self._elementwise("relu", x)
        return self._elementwise_backward("threshold_backward", x, y, [y])

    def relu6(self, x: Value) -> Value:
        """ReLU6 in place: its gradient is found from its input, of which it keeps a copy."""
        (kept,) = self.tape.op("clone", [x], x.shape)
        y = self.tape.overwrite("hardtanh_", x)
        return self._elementwise_backward("hardtanh_backward", x, y, [kept])

    def silu(self, x: Value) -> Value:
        """SiLU: keeps its input."""
        y = self._elementwise("silu", x)
        return self._elementwise_backward("silu_backward", x, y, [x])

    def gelu(self, x: Value) -> Value:
        """GELU: keeps its input."""
        y = self._elementwise("gelu", x)
        return self._elementwise_backward("gelu_backward", x, y, [x])

    def tanh(self, x: Value) -> Value:
        """Tanh: keeps its output."""
        y = self._elementwise("tanh", x)
        return self._elementwise_backward("tanh_backward", x, y, [y])

    def sigmoid(self, x: Value) -> Value:
        """Sigmoid: keeps its output."""
        y = self._elementwise("sigmoid", x)
        return self._elementwise_backward("sigmoid_backward", x, y, [y])

    def softmax(self, x: Value) -> Value:
        """Softmax: keeps its output."""
        y = self._elementwise("_softmax", x)
        return self._elementwise_backward("_softmax_backward_data", x, y, [y])

    def scale(self, x: Value) -> Value:
        """Multiplication by a number."""
        y = self._elementwise("mul", x)
        return self._elementwise_backward("mul", x, y, [])

    def dropout(self, x: Value) -> Value:
        """Dropout: keeps its mask, a byte per element."""
        y, mask = self.tape.op(
            "native_dropout", [x], x.shape, x.shape, item_bytes=[x.item_bytes, BYTE], over=[x]
        )
        return self._elementwise_backward("native_dropout_backward", x, y, [mask])

    def _elementwise(self, name: str, x: Value) -> Value:
        return self.tape.op(name, [x], x.shape, over=[x])[0]

    def _elementwise_backward(self, name: str, x: Value, y: Value, kept: list[Value]) -> Value:
        """The gradient's elements, or rows, each depend on those in the same place."""

        def backward(dy: Value) -> Gradients:
            return [(x, self.tape.op(name, [dy, *kept], x.shape, over=[dy, *kept])[0])]

        return self.tape.on_backward(y, backward)

    def _backward(
        self, name: str, x: Value, y: Value, kept: Sequence[Value], over: Sequence[Value] = ()
    ) -> Value:
        def backward(dy: Value) -> Gradients:
            return [(x, self.tape.op(name, [dy, *kept], x.shape, over=over)[0])]

        return self.tape.on_backward(y, backward)

    def max_pool(self, x: Value, kernel: int, stride: int, padding: int = 0) -> Value:
        """Max pooling: keeps its input and the indices of the maxima."""
        return self._max_pool(x, _window(x.shape[2:], kernel, stride, padding))

    def max_pool_up(self, x: Value, kernel: int, stride: int) -> Value:
        """Max pooling without padding whose last window may reach beyond the image."""
        return self._max_pool(x, tuple(-(-(n - kernel) // stride) + 1 for n in x.shape[2:]))

    def _max_pool(self, x: Value, size: tuple[int, ...]) -> Value:
        shape = (*x.shape[:2], *size)
        y, indices = self.tape.op(
            "max_pool2d_with_indices", [x], shape, shape, item_bytes=[x.item_bytes, INDEX]
        )
        # It is told x for the shape alone.
        return self._backward("max_pool2d_backward", x, y, [x, indices], over=[x])

    def average_pool(self, x: Value, size: int) -> Value:
        """Adaptive average pooling to size x size: keeps its input."""
        shape = (*x.shape[:2], *(size,) * (len(x.shape) - 2))
        (y,) = self.tape.op("_adaptive_avg_pool2d", [x], shape)
        return self._backward("_adaptive_avg_pool2d_backward", x, y, [x], over=[x])

    def mean_pool(self, x: Value) -> Value:
        """The mean over each channel: keeps nothing."""
        (y,) = self.tape.op("mean", [x], (*x.shape[:2], *(1,) * (len(x.shape) - 2)))
        return self._backward("div", x, y, [])

    def reshape(self, x: Value, *shape: int) -> Value:
        """A view of x in another shape, or with its axes permuted."""
        y = self.tape.view("view", x, shape)
        return self.tape.on_backward(y, lambda dy: [(x, self.tape.view("view", dy, x.shape))])

    def flatten(self, x: Value) -> Value:
        """A view of x with one axis behind the batch."""
        return self.reshape(x, x.shape[0], prod(x.shape[1:]))

    def copy(self, x: Value, *shape: int) -> Value:
        """A contiguous copy of permuted axes."""
        (y,) = self.tape.op("clone", [x], shape)
        return self._backward("clone", x, y, [])

    def stretch(self, x: Value, batch: int) -> Value:
        """A parameter x [1, ...] as a view for each sample; its gradient is the sum over them."""
        y = self.tape.view("expand", x, (batch, *x.shape[1:]))
        return self.tape.on_backward(y, lambda dy: [(x, self.tape.op("sum", [dy], x.shape)[0])])

    def add(self, x: Value, z: Value, *, in_place: bool = False) -> Value:
        """The sum of two values of one shape; both get its gradient as it is."""
        if in_place:
            y = self.tape.overwrite("add_", x, z)
        else:
            (y,) = self.tape.op("add", [x, z], x.shape, over=[x, z])
        return self.tape.on_backward(y, lambda dy: [(x, dy), (z, dy)])

    def add_parameter(self, x: Value) -> Value:
        """The sum of x and a parameter that all samples share."""
        parameter = self.tape.parameter(*x.shape[1:])
        (y,) = self.tape.op("add", [x, parameter], x.shape, over=[x])

        def backward(dy: Value) -> Gradients:
            return [(x, dy), (parameter, self.tape.op("sum", [dy], parameter.shape)[0])]

        return self.tape.on_backward(y, backward)

    def multiply(self, x: Value, z: Value) -> Value:
        """The product of x and z, which has an element per channel of x."""
        (y,) = self.tape.op("mul", [x, z], x.shape, over=[x])

        def backward(dy: Value) -> Gradients:
            (full,) = self.tape.op("mul", [dy, x], x.shape, over=[dy, x])
            (part,) = self.tape.op("sum", [full], z.shape)
            return [(z, part), (x, self.tape.op("mul", [dy, z], x.shape, over=[dy])[0])]

        return self.tape.on_backward(y, backward)

    def concatenate(self, parts: Sequence[Value], axis: int = 1) -> Value:
        """The parts side by side; their gradients are views of one."""
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        (y,) = self.tape.op("cat", parts, tuple(shape))

        def backward(dy: Value) -> Gradients:
            return [(part, self.tape.view("slice", dy, part.shape)) for part in parts]

        return self.tape.on_backward(y, backward)

    def first(self, x: Value) -> Value:
        """The first position of each sequence of x, [batch, positions, width]."""
        y = self.tape.view("select", x, (x.shape[0], x.shape[2]))
        return self._backward("select_backward", x, y, [])

    def linear(self, x: Value, width: int) -> Value:
        """A linear layer over the last axis."""
        weight, bias = self.tape.parameter(width, x.shape[-1]), self.tape.parameter(width)
        (y,) = self.tape.op("addmm", [x, weight, bias], (*x.shape[:-1], width))

        def backward(dy: Value) -> Gradients:
            parts = []
            if x.trained:
                parts.append((x, self.tape.op("mm", [dy, weight], x.shape)[0]))
            parts.append((weight, self.tape.op("mm", [dy, x], weight.shape)[0]))
            parts.append((bias, self.tape.op("sum", [dy], bias.shape)[0]))
            return parts

        return self.tape.on_backward(y, backward)

    def matmul(self, x: Value, z: Value, shape: tuple[int, ...]) -> Value:
        """The batched product of two activations."""
        (y,) = self.tape.op("bmm", [x, z], shape)

        def backward(dy: Value) -> Gradients:
            (dz,) = self.tape.op("bmm", [x, dy], z.shape)
            return [(z, dz), (x, self.tape.op("bmm", [dy, z], x.shape)[0])]

        return self.tape.on_backward(y, backward)

    def embedding(self, tokens: Value, entries: int, width: int) -> Value:
        """Rows of a table; the table's gradient is dense."""
        table = self.tape.parameter(entries, width)
        (y,) = self.tape.op("embedding", [tokens, table], (*tokens.shape, width))

        def backward(dy: Value) -> Gradients:
            return [(table, self.tape.op("embedding_dense_backward", [dy, tokens], table.shape)[0])]

        return self.tape.on_backward(y, backward)

    def total(self, x: Value) -> Value:
        """The sum of all elements; its gradient is one number, seen in every place."""
        (y,) = self.tape.op("sum", [x], ())
        return self.tape.on_backward(y, lambda dy: [(x, self.tape.view("expand", dy, x.shape))])
