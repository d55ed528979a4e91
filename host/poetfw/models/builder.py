# SPDX-License-Identifier: Apache-2.0
"""Builds an inference graph op by op; output shapes follow from the operators' shape rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, FreshNames, Graph, Op, Role, Tensor
from poetfw.models.weights import Weights
from poetfw.ops import infer_output

LARGEST_BATCH = 65_536

MOST_OPS = 1_000
"""Most ops of a model: ordering them takes time and memory quadratic in their number."""


class TooManyOpsError(ModelError):
    """A model has more ops than its builder allows."""


class GraphBuilder:
    """A graph under construction. Tensors are referred to by name.

    Attributes:
        input: name of the graph's first input.
        weights: values of the persistent tensors that were added with their values, by name.
    """

    def __init__(
        self,
        name: str,
        input_name: str,
        input_shape: Sequence[int],
        dtype: Dtype = Dtype.F32,
        most_ops: int = MOST_OPS,
    ) -> None:
        """Start with an input of shape [batch, features...]; `op` refuses more than `most_ops`.

        Raises:
            ModelError: See `add_input`.
        """
        self._name = name
        self._most_ops = most_ops
        self._tensors: dict[str, Tensor] = {}
        self._ops: dict[str, Op] = {}
        self._names = FreshNames()
        self.weights: dict[str, NDArray[np.float32]] = {}
        self.input = self.add_input(input_name, input_shape, dtype)

    def add_input(self, name: str, shape: Sequence[int], dtype: Dtype = Dtype.F32) -> str:
        """Add a further input of shape [batch, features...]; returns its name.

        Raises:
            ModelError: The batch is below 1 or above `LARGEST_BATCH`, or another extent is below 1.
        """
        if not 1 <= shape[0] <= LARGEST_BATCH:
            raise ModelError(f"the batch is {shape[0]}: it must be between 1 and {LARGEST_BATCH}")
        return self._add_tensor(Tensor(self._fresh(name), tuple(shape), dtype, Role.INPUT))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._tensors[tensor].shape

    def dtype(self, tensor: str) -> Dtype:
        """Element type of a tensor."""
        return self._tensors[tensor].dtype

    def role(self, tensor: str) -> Role:
        """Role of a tensor."""
        return self._tensors[tensor].role

    def producer(self, tensor: str) -> Op | None:
        """Op that computes a tensor; None for inputs, labels and weights."""
        return self._ops.get(tensor)

    def parameter(self, name: str, values: NDArray[np.float32]) -> str:
        """Add a trained tensor with its initial values; returns its name."""
        return self._persistent(name, values, Role.PARAMETER)

    def state(self, name: str, values: NDArray[np.float32]) -> str:
        """Add a persistent tensor that is not trained; returns its name."""
        return self._persistent(name, values, Role.STATE)

    def label(self, name: str, shape: Sequence[int], dtype: Dtype) -> str:
        """Add the tensor of targets for a network with its own loss; returns its name."""
        return self._add_tensor(Tensor(self._fresh(name), tuple(shape), dtype, Role.LABEL))

    def declare(self, name: str, shape: Sequence[int], role: Role) -> str:
        """Add a persistent tensor whose values are stored elsewhere; returns its name."""
        return self._add_tensor(Tensor(self._fresh(name), tuple(shape), role=role))

    def op(
        self,
        kind: str,
        name: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """Append an op, and its output tensor under the same name; returns that name.

        If the name is taken, a number is appended.

        Raises:
            ModelError: The inputs or attributes do not fit the operator, or there are too many ops.
        """
        if len(self._ops) == self._most_ops:
            raise TooManyOpsError(
                f"model {self._name!r} has more than {self._most_ops:,} ops: poetfw trains none "
                "so large"
            )
        name = self._fresh(name)
        op = Op(name, kind, tuple(inputs), name, attributes or {})
        output = infer_output(op, [self._tensors[i] for i in inputs], Role.ACTIVATION)
        assert output is not None, kind
        self._ops[name] = op
        return self._add_tensor(output)

    def build(self, output: str) -> tuple[Graph, Weights]:
        """Finish the graph; returns it and the values of persistent tensors added with values.

        Raises:
            ModelError: The graph is malformed.
        """
        graph = Graph(self._name, tuple(self._tensors.values()), tuple(self._ops.values()), output)
        return graph, self.weights

    def _persistent(self, name: str, values: NDArray[np.float32], role: Role) -> str:
        tensor = self.declare(name, values.shape, role)
        self.weights[tensor] = values
        return tensor

    def _add_tensor(self, tensor: Tensor) -> str:
        self._tensors[tensor.name] = tensor
        return tensor.name

    def _fresh(self, name: str) -> str:
        return self._names.fresh(name, self._tensors, self._ops)
