# SPDX-License-Identifier: Apache-2.0
"""The program that a device runs: the training step and the evaluation step."""

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
from poetfw.ops import Array, is_update, stores_gradient
from poetfw.ops.load import first_byte
from poetfw.ops.mean_losses import MEAN_LOSSES

LOSSES: Mapping[str, str] = {
    "softmax_cross_entropy": "correct_count",
    "nll": "correct_count",
    "mse": "mse",
    **{name: name for name in MEAN_LOSSES},
}
"""The losses, each with the op that measures it in evaluation."""

DEFAULT_LOSS = "softmax_cross_entropy"
CLASSIFYING = ("softmax_cross_entropy", "nll")
"""The losses whose targets are class numbers."""

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Program:
    """The graphs that the device runs. Both share the persistent tensors.

    Attributes:
        training: one training step: load a batch, forward, loss, backward, updates.
        evaluation: one evaluation step: load a batch, inference, metric.
        loss: the persistent tensor that a training step leaves the batch's mean loss in.
        metric: the persistent tensor that an evaluation step leaves the batch's metric in: the
            number of correct answers, or the mean loss.
        fingerprint: a digest of the constants' values, which a storage image must match. Empty
            without constants.
        heads: of the prediction, whose elements are theirs one after the other, sample by sample;
            empty where it is one tensor.
        made: values of the constants that the model itself does not have, by name.
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

    @cached_property
    def constants(self) -> tuple[Tensor, ...]:
        """Every tensor that the firmware holds in flash, once, in a fixed order."""
        both = (*self.training.constants, *self.evaluation.constants)
        return tuple({tensor.name: tensor for tensor in both}.values())

    def with_values(self, values: Mapping[str, Array]) -> Program:
        """The program with the fingerprint of its constants' values.

        Args:
            values: values by tensor name, of the constants at least that are not made.
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
        """Every tensor that lives in RAM for the whole run, once, in a fixed order."""
        both = (*self.training.persistent, *self.evaluation.persistent)
        return tuple({tensor.name: tensor for tensor in both}.values())

    @cached_property
    def x(self) -> Record:
        """The features of a sample."""
        return self._loaded("load_x")

    @cached_property
    def y(self) -> Record:
        """The targets of a sample: what the loss reads beside that."""
        return self._loaded("load_y")

    def _loaded(self, kind: str) -> Record:
        loads = [op for op in self.training.ops if op.kind == kind]
        loads.sort(key=first_byte)
        return Record(tuple(self.training.by_name[op.output or ""] for op in loads))

    def members(self, x: Array, y: Array) -> dict[str, Array]:
        """The members of a batch's samples, by tensor of the training step."""
        split = ((self.x, self.x.split(x)), (self.y, self.y.split(y)))
        return {n: v for record, values in split for n, v in zip(record.names, values, strict=True)}

    @property
    def batch(self) -> int:
        """Samples in a batch."""
        return self.x.members[0].shape[0]

    @cached_property
    def parameter_gradients(self) -> Mapping[str, str]:
        """The complete gradient of each trained parameter, by the parameter's name, not clipped.

        A gradient that is applied without being stored is not in it.
        """
        return {op.updates[0]: op.inputs[0] for op in self.training.ops if stores_gradient(op)}

    @cached_property
    def parameter_states(self) -> Mapping[str, tuple[str, ...]]:
        """The optimizer's tensors of each trained parameter, by the parameter's name."""
        return {op.updates[0]: op.updates[1:] for op in self.training.ops if is_update(op)}

    @cached_property
    def trained_channels(self) -> Mapping[str, int]:
        """Number of trained input channels, by name, of the weights that are trained in part."""
        tensors = self.training.by_name
        shapes = {name: tensors[g].shape for name, g in self.parameter_gradients.items()}
        return {n: shape[1] for n, shape in shapes.items() if shape != tensors[n].shape}

    @cached_property
    def optimizer_states(self) -> tuple[str, ...]:
        """All tensors of the optimizer: states of parameters and counters of steps."""
        counts = (name for op in self.training.ops if op.kind == "pace" for name in op.updates)
        kept = (name for names in self.parameter_states.values() for name in names)
        return (*counts, *kept)

    def to_json(self) -> dict[str, Any]:
        """The program as plain JSON values."""
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
        """The program that `to_json` wrote.

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
    """Bytes of flash that the constants take."""
    return sum(tensor.size_bytes for tensor in program.constants)
