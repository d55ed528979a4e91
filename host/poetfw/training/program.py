# SPDX-License-Identifier: Apache-2.0
"""Program of a device: the training step and the evaluation step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Head, Record, Tensor
from poetfw.ops import (
    Array,
    ImageLayout,
    TileLayout,
    is_update,
    layouts_of,
    stores_gradient,
)
from poetfw.ops.load import first_byte
from poetfw.ops.mean_losses import MEAN_LOSSES
from poetfw.ops.pieces import plain_name

LOSSES: Mapping[str, str] = {
    "softmax_cross_entropy": "correct_count",
    "nll": "correct_count",
    "mse": "mse",
    **{name: name for name in MEAN_LOSSES},
}
"""Losses, with the ops that measure them in evaluation."""

DEFAULT_LOSS = "softmax_cross_entropy"
CLASSIFYING = ("softmax_cross_entropy", "nll")
"""Losses whose targets are class numbers."""

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Program:
    """Graphs of a device, which share the persistent tensors.

    Attributes:
        training: training step: load a batch, forward, loss, backward, updates.
        evaluation: evaluation step: load a batch, inference, metric.
        loss: persistent tensor for the batch's mean loss, which a training step writes.
        metric: persistent tensor for the batch's metric, which an evaluation step writes: the
            number of correct answers, or the mean loss.
        fingerprint: digest of the constants' values, which a storage image must match; empty
            without constants.
        heads: outputs of the network, which are concatenated per sample in the prediction; empty
            for a single output.
        made: values of constants that are derived and not the model's, by name.
        beyond_flash: names of the frozen weights that flash has no room for: they are to be
            streamed from storage.
    """

    training: Graph
    evaluation: Graph
    loss: Tensor
    metric: Tensor
    fingerprint: str = ""
    heads: tuple[Head, ...] = ()
    made: Mapping[str, Array] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    beyond_flash: frozenset[str] = field(default=frozenset(), compare=False)

    @cached_property
    def constants(self) -> tuple[Tensor, ...]:
        """Constants of both graphs, in a fixed order."""
        both = (*self.training.constants, *self.evaluation.constants)
        return tuple({tensor.name: tensor for tensor in both}.values())

    def with_values(self, values: Mapping[str, Array]) -> Program:
        """Set the fingerprint from the constants' values.

        Args:
            values: values by tensor name; those in `made` may be left out.
        """
        if not self.constants:
            return self
        digest = hashlib.sha256()
        for tensor in self.constants:
            value = self.made[tensor.name] if tensor.name in self.made else values[tensor.name]
            kind = "<i4" if tensor.dtype is Dtype.I32 else "<f4"
            digest.update(np.ascontiguousarray(value, kind).tobytes())
        return replace(self, fingerprint=digest.hexdigest()[:16])

    @cached_property
    def persistent(self) -> tuple[Tensor, ...]:
        """Persistent tensors of both graphs, in a fixed order."""
        both = (*self.training.persistent, *self.evaluation.persistent)
        return tuple({tensor.name: tensor for tensor in both}.values())

    @cached_property
    def _layouts(self) -> Mapping[str, TileLayout | ImageLayout]:
        return {**layouts_of(self.training), **layouts_of(self.evaluation)}

    @cached_property
    def streamed(self) -> Mapping[str, TileLayout | ImageLayout]:
        """Layout in storage of each persistent tensor that is not in RAM, by name."""
        names = {tensor.name for tensor in self.persistent}
        return {name: layout for name, layout in self._layouts.items() if name in names}

    @cached_property
    def streamed_constants(self) -> Mapping[str, TileLayout | ImageLayout]:
        """Layout in storage of each frozen weight that is not in flash, by name; tables come last.

        Ops read whole slices of a weight, and rows of a table.
        """
        names = {tensor.name for tensor in self.constants}
        found = [each for each in self._layouts.items() if each[0] in names]
        return dict(sorted(found, key=lambda each: isinstance(each[1], ImageLayout)))

    @cached_property
    def in_flash(self) -> tuple[Tensor, ...]:
        """Constants that are in flash, in a fixed order."""
        return tuple(each for each in self.constants if each.name not in self.streamed_constants)

    @cached_property
    def resident(self) -> tuple[Tensor, ...]:
        """Persistent tensors that are in RAM, in a fixed order."""
        return tuple(tensor for tensor in self.persistent if tensor.name not in self.streamed)

    @cached_property
    def x(self) -> Record:
        """Layout of a sample's features."""
        return self._loaded("load_x")

    @cached_property
    def y(self) -> Record:
        """Layout of a sample's targets."""
        return self._loaded("load_y")

    def _loaded(self, kind: str) -> Record:
        loads = [op for op in self.training.ops if plain_name(op.kind) == kind]
        loads.sort(key=first_byte)
        return Record(tuple(self.training.by_name[op.output or ""] for op in loads))

    def members(self, x: Array, y: Array) -> dict[str, Array]:
        """Members of a batch's samples, by tensor of the training step."""
        split = ((self.x, self.x.split(x)), (self.y, self.y.split(y)))
        return {n: v for record, values in split for n, v in zip(record.names, values, strict=True)}

    @property
    def batch(self) -> int:
        """Number of samples in a batch."""
        return self.x.members[0].shape[0]

    @cached_property
    def parameter_gradients(self) -> Mapping[str, str]:
        """Complete, unclipped gradient of each trained parameter, by parameter name.

        Gradients that are applied without being stored are left out.
        """
        return {op.updates[0]: op.inputs[0] for op in self.training.ops if stores_gradient(op)}

    @cached_property
    def parameter_states(self) -> Mapping[str, tuple[str, ...]]:
        """Optimizer state of each trained parameter, by parameter name."""
        parts = (part for op in self.training.ops for part in op.parts)
        return {part.updates[0]: part.updates[1:] for part in parts if is_update(part)}

    @cached_property
    def trained_channels(self) -> Mapping[str, int]:
        """Number of trained input channels of partially trained weights, by name."""
        tensors = self.training.by_name
        shapes = {name: tensors[g].shape for name, g in self.parameter_gradients.items()}
        return {n: shape[1] for n, shape in shapes.items() if shape != tensors[n].shape}

    @cached_property
    def optimizer_states(self) -> tuple[str, ...]:
        """All tensors of the optimizer: states of parameters, and step counters."""
        counts = (name for op in self.training.ops if op.kind == "pace" for name in op.updates)
        kept = (name for names in self.parameter_states.values() for name in names)
        return (*counts, *kept)

    def to_json(self) -> dict[str, Any]:
        """Program as plain JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "training": self.training.to_json(),
            "evaluation": self.evaluation.to_json(),
            "loss": self.loss.name,
            "metric": self.metric.name,
            **({"fingerprint": self.fingerprint} if self.fingerprint else {}),
            **({"heads": self.heads} if self.heads else {}),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Program:
        """Read a program from the values of `to_json`.

        Raises:
            ModelError: The document is not a program in this format.
        """
        try:
            training = Graph.from_json(document["training"])
            evaluation = Graph.from_json(document["evaluation"])
            return Program(
                training,
                evaluation,
                training.by_name[document["loss"]],
                evaluation.by_name[document["metric"]],
                document.get("fingerprint", ""),
                tuple((name, tuple(shape)) for name, shape in document.get("heads", ())),
            )
        except (KeyError, TypeError) as error:
            raise ModelError(f"the program's JSON is malformed: {error!r}") from error


def constant_bytes(program: Program) -> int:
    """Size of the constants in flash, in bytes."""
    return sum(tensor.size_bytes for tensor in program.in_flash)
