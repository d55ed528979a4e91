# SPDX-License-Identifier: Apache-2.0
"""Reference executor: runs a program on NumPy arrays, for comparison with a device."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from poetfw.ir import Dtype, Graph, Tensor
from poetfw.ops import Array, kind_of
from poetfw.ops.load import first_byte
from poetfw.ops.pieces import plain_name
from poetfw.training.program import Program


class Reference:
    """Executor of a program by the operators' NumPy references.

    Attributes:
        persistent: values of persistent tensors and constants, by name.
        gradients: gradients of the last training step, by parameter name.
    """

    def __init__(
        self, program: Program, weights: Mapping[str, Array], dtype: DTypeLike = np.float64
    ) -> None:
        """Start from initial weights.

        Args:
            program: the program.
            weights: initial values by tensor name, including all of the model's constants; other
                persistent tensors start at zero.
            dtype: precision of the arithmetic.
        """
        self._program = program
        self._dtype = dtype
        self.persistent: dict[str, Array] = {
            tensor.name: np.array(weights.get(tensor.name, np.zeros(tensor.shape)), dtype)
            for tensor in program.persistent
        } | {
            tensor.name: np.array(
                (program.made if tensor.name in program.made else weights)[tensor.name],
                dtype if tensor.dtype is Dtype.F32 else np.int32,
            )
            for tensor in program.constants
        }
        self.gradients: dict[str, Array] = {}

    def step(self, x: Array, y: Array) -> float:
        """Run one training step on a batch; returns its mean loss."""
        values = self.values(x, y)
        self.gradients = {
            parameter: value_of(self._program.training.by_name[gradient], values)
            for parameter, gradient in self._program.parameter_gradients.items()
        }
        return float(self.persistent[self._program.loss.name][0])

    def values(self, x: Array, y: Array) -> dict[str, Array]:
        """Run one training step on a batch; returns the outputs of its ops by tensor name."""
        return self._run(self._program.training, x, y)

    def evaluate(self, x: Array, y: Array) -> float:
        """Run one evaluation step on a batch; returns its metric."""
        self._run(self._program.evaluation, x, y)
        return float(self.persistent[self._program.metric.name][0])

    def _run(self, graph: Graph, x: Array, y: Array) -> dict[str, Array]:
        values: dict[str, Array] = {}
        known = ChainMap(values, self.persistent)
        loaded = {"load_x": (self._program.x, x), "load_y": (self._program.y, y)}
        for op in graph.ops:
            if op.output is not None and plain_name(op.kind) in loaded:
                record, samples = loaded[plain_name(op.kind)]
                value = record.loaded(samples, first_byte(op))
                integer = np.issubdtype(value.dtype, np.integer)
                values[op.output] = value if integer else value.astype(self._dtype)
                continue
            inputs = [value_of(graph.by_name[name], known) for name in op.inputs]
            updates = [self.persistent[name] for name in op.updates]
            result = kind_of(op).compute(op, inputs, updates)
            if op.output is not None:
                assert result is not None, op.name
                values[op.output] = result
        return values


def value_of(tensor: Tensor, values: Mapping[str, Array]) -> Array:
    """Look up a tensor's value; that of a window is a part of its base's."""
    if tensor.base is None:
        return values[tensor.name]
    first = tensor.offset_bytes // tensor.dtype.size_bytes
    flat = values[tensor.base].reshape(-1)
    return flat[first : first + tensor.elements].reshape(tensor.shape)
