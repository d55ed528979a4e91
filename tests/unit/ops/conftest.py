# SPDX-License-Identifier: Apache-2.0
"""A tape that runs what is emitted at once: forward, backward and every op's shape rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from poetfw.ir import Attribute, Dtype, Op, Role, Tensor
from poetfw.ops import KINDS, Array, LossKind, Shape, infer_output, kind_of


class EagerTape:
    """Implements `poetfw.ops.Tape`; also holds every tensor's value in one precision."""

    def __init__(self, dtype: type[np.floating]) -> None:
        self.dtype = dtype
        self.values: dict[str, Array] = {}
        self.gradients: dict[str, str] = {}
        self.ops: list[Op] = []
        self._tensors: dict[str, Tensor] = {}
        self._trained: set[str] = set()

    def leaf(self, name: str, value: Array, *, trained: bool = True, state: bool = False) -> str:
        """Add a tensor without a producer."""
        floating = np.issubdtype(value.dtype, np.floating)
        self.values[name] = value.astype(self.dtype if floating else np.int32)
        role = Role.STATE if state else Role.INPUT
        self._tensors[name] = Tensor(name, value.shape, Dtype.F32 if floating else Dtype.I32, role)
        if trained and floating and not state:
            self._trained.add(name)
        return name

    def emit(
        self,
        kind: str,
        name: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        updates: Sequence[str] = (),
        output: str | None = None,
    ) -> str:
        name = f"{name}#{len(self.ops)}"
        produced = output or name
        op = Op(name, kind, tuple(inputs), produced, attributes or {}, tuple(updates))
        tensors = [self._tensors[i] for i in inputs]
        tensor = infer_output(op, tensors, Role.ACTIVATION)
        if tensor is None:
            op = Op(name, kind, op.inputs, None, op.attributes, op.updates)
        result = KINDS[kind].compute(
            op, [self.values[i] for i in inputs], [self.values[i] for i in updates]
        )
        work = KINDS[kind].work(op, tensors, tensor)
        assert work.macs >= 0
        assert work.bytes_moved > 0
        self.ops.append(op)
        if tensor is None:
            assert result is None
            return ""
        assert result is not None
        assert result.shape == tensor.shape
        assert result.dtype == self.dtype
        self.values[tensor.name] = result
        self._tensors[tensor.name] = tensor
        if not self._trained.isdisjoint(inputs):
            self._trained.add(tensor.name)
        return tensor.name

    def shape(self, tensor: str) -> Shape:
        return self._tensors[tensor].shape

    def needs_gradient(self, tensor: str) -> bool:
        return tensor in self._trained

    def trained_channels(self, x: str, w: str) -> str:
        return x

    def add_gradient(self, tensor: str, gradient: str) -> None:
        before = self.gradients.get(tensor)
        if before is not None:
            gradient = self.emit("add", f"{tensor}.gradient", (before, gradient))
        self.gradients[tensor] = gradient

    def forward(
        self,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        output: str = "y",
    ) -> str:
        """Append an inference op in its training form."""
        op = Op(f"{kind} {output}", kind, tuple(inputs), output, attributes or {})
        kind_of(op).training_form(op, self)
        return output

    def backward(self) -> None:
        """Run the gradient rules of all ops so far, from the losses and `gradients` set already."""
        for op in reversed(tuple(self.ops)):
            kind = kind_of(op)
            if isinstance(kind, LossKind):
                kind.start_gradient(op, self)
            elif op.output in self.gradients:
                kind.gradient(op, self, self.gradients[op.output])

    def gradient(self, tensor: str) -> Array:
        return self.values[self.gradients[tensor]]


@pytest.fixture(params=[np.float32, np.float64], ids=["f32", "f64"])
def tape(request: pytest.FixtureRequest) -> EagerTape:
    return EagerTape(request.param)


@pytest.fixture
def assert_close() -> Callable[[Array, Array], None]:
    """Largest error, relative to the largest value: 1e-5 in float32, 1e-12 in float64."""

    def check(actual: Array, expected: Array) -> None:
        assert actual.shape == expected.shape
        tolerance = 1e-5 if actual.dtype == np.float32 else 1e-12
        error = np.abs(actual.astype(np.float64) - expected).max()
        assert error <= tolerance * np.abs(expected).max(), error

    return check
