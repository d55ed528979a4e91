# SPDX-License-Identifier: Apache-2.0
"""A model ready to be trained: inference graph, initial weights, loss and training settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Head, Record, Role, Tensor, label_name
from poetfw.models.weights import DrawnWeights, StateEntry, Weights
from poetfw.ops import check_shapes, kind_of
from poetfw.ops.base import LARGEST_INTEGER
from poetfw.ops.class_losses import ALIKE, ClassOptions
from poetfw.ops.objective import OWN_LOSS
from poetfw.optimizers import Optimizer
from poetfw.training import CLASSIFYING, LOSSES, Sgd


@dataclass(frozen=True)
class Model:
    """A network, and the initial weights and settings of its training.

    Construction checks shapes, that all inputs have the same batch, that the loss fits the output,
    and that every persistent tensor has finite float32 weights of its shape.

    Attributes:
        graph: inference graph: tensors of role `INPUT`, weights of role `PARAMETER`, running
            statistics of role `STATE`. Axis 0 of inputs and output is the batch.
        weights: initial values of every persistent tensor; `DrawnWeights` are drawn when first
            read.
        loss: a key of `poetfw.training.LOSSES`, or `OWN_LOSS`: the graph then has tensors of role
            `LABEL` and an op of kind `objective` that marks the loss.
        heads: names and shapes [batch, ...] of several results, which the output concatenates per
            sample; empty for a single result, which is the output itself.
        told_apart: for an own loss, number of classes of each label that holds class numbers, and
            the ignored class number, if any.
        loss_options: class weights, label smoothing and ignored label of a classifier's loss.
        description: one-line description.
        optimizer: default optimizer and its settings.
        epochs: default number of passes over the data set.
        warnings: possible differences from the network that its author meant, one sentence each.
        frozen: names of parameters that the author does not train.
        constants: names of the author's tensors that are no parameters, and that `--freeze` may
            name.
        state_dict: mapping of the author's tensors to the graph's.

    Raises:
        ModelError: A check failed.
    """

    graph: Graph
    weights: Weights
    loss: str
    description: str
    optimizer: Optimizer = field(default_factory=Sgd)
    epochs: int = 3
    warnings: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    state_dict: tuple[StateEntry, ...] = ()
    loss_options: ClassOptions = ALIKE
    told_apart: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    heads: tuple[Head, ...] = ()

    def __post_init__(self) -> None:
        check_shapes(self.graph)
        if not self.x.members:
            raise ModelError(f"model {self.name!r} has no input")
        for tensor in (*self.x.members, *self.y.members, self.output):
            if tensor.shape[:1] != (self.batch,):
                raise ModelError(
                    f"model {self.name!r} has a tensor {tensor.name!r} of shape "
                    f"{list(tensor.shape)} and an input of shape {list(self.input.shape)}: axis 0 "
                    "of both must be the batch"
                )
        if self.loss not in (*LOSSES, OWN_LOSS):
            raise ModelError(
                f"{self.loss!r} is not a loss of poetfw", "use one of: " + ", ".join(LOSSES)
            )
        if self.loss in CLASSIFYING and (len(self.output.shape) != 2 or self.output.shape[1] < 2):
            raise ModelError(
                f"model {self.name!r} has an output of shape {list(self.output.shape)}; softmax "
                "cross-entropy needs [batch, classes] with 2 classes or more",
                "choose the loss mse",
            )
        self._check_loss_options()
        if not isinstance(self.weights, DrawnWeights):
            object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        self._check_weights()

    def _check_loss_options(self) -> None:
        if not self.loss_options.chosen or self.loss == OWN_LOSS:
            return
        if self.classes is None:
            raise ModelError(
                f"the loss {self.loss} has neither class weights, label smoothing nor a label to "
                "ignore"
            )
        if self.loss == "nll" and self.loss_options.label_smoothing:
            raise ModelError(
                "the loss nll has no label smoothing",
                "use the loss softmax_cross_entropy, for a network without a log-softmax at its "
                "end",
            )
        self.loss_options.expect_fitting(self.classes)

    def _check_weights(self) -> None:
        """Check shapes and finiteness without drawing; drawn values are finite float32."""
        weights = self.weights
        if isinstance(weights, DrawnWeights):
            shapes = weights.shapes
        else:
            shapes = {name: v.shape for name, v in weights.items() if v.dtype == np.float32}
        for tensor in self.graph.persistent:
            if shapes.get(tensor.name) != tensor.shape:
                raise ModelError(
                    f"tensor {tensor.name!r} needs float32 weights of shape {list(tensor.shape)}"
                )
            if (
                not isinstance(weights, DrawnWeights)
                and not np.isfinite(weights[tensor.name]).all()
            ):
                raise ModelError(f"the weights of tensor {tensor.name!r} hold NaN or infinity")

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.graph.name

    @cached_property
    def x(self) -> Record:
        """Features of a sample: the network's inputs."""
        return Record(self.graph.with_role(Role.INPUT))

    @cached_property
    def y(self) -> Record:
        """Targets of a sample: class numbers, or values that the loss compares."""
        if self.loss == OWN_LOSS:
            return Record(self.graph.with_role(Role.LABEL))
        if self.classes is not None:
            target = Tensor("y", (self.batch,), Dtype.I32, Role.LABEL)
        else:
            target = Tensor("y", self.output.shape, Dtype.F32, Role.LABEL)
        return Record((replace(target, name=label_name(self.graph)),))

    @property
    def input(self) -> Tensor:
        """First input tensor: a batch of features."""
        return self.x.members[0]

    @property
    def output(self) -> Tensor:
        """Output tensor: a batch of logits or predictions."""
        return self.graph.by_name[self.graph.output]

    @property
    def batch(self) -> int:
        """Number of samples in a batch."""
        return self.input.shape[0]

    @property
    def classes(self) -> int | None:
        """Number of classes; None if the model is not a classifier."""
        if self.loss == OWN_LOSS:
            if self.heads or len(self.y.members) != 1 or len(self.target.shape) != 1:
                return None
            classes, _ = self.label_classes(self.target)
            return classes if self.output.shape[1:] == (classes,) else None
        return self.output.shape[1] if self.loss in CLASSIFYING else None

    @property
    def target(self) -> Tensor:
        """Target tensor of a network with a single target: a batch of targets.

        Raises:
            ModelError: The network has no target, or several.
        """
        if len(self.y.members) != 1:
            raise ModelError(f"model {self.name!r} has {len(self.y.members)} targets, not 1")
        return self.y.members[0]

    def label_classes(self, tensor: Tensor) -> tuple[int | None, int | None]:
        """Number of classes of a label, and the class number to ignore; None for neither.

        Args:
            tensor: a member of `y`.
        """
        if self.loss == OWN_LOSS:
            return self.told_apart.get(tensor.name, (None, None))
        return self.classes, self.loss_options.ignore_index

    def ids(self, tensor: Tensor) -> int:
        """Smallest number of rows of the embedding tables that look up an input."""
        readers = self.graph.consumers.get(tensor.name, ())
        tables = (op.inputs[1] for op in readers if op.kind == "embedding")
        return min(
            (self.graph.by_name[table].shape[0] for table in tables), default=LARGEST_INTEGER
        )

    @property
    def layers(self) -> dict[str, int]:
        """Number of ops with parameters, and of dropouts, by kind.

        With convolutions, batch norms are listed even if their number is 0.
        """
        trained = {tensor.name for tensor in self.graph.with_role(Role.PARAMETER)}
        kinds = [
            op.kind
            for op in self.graph.ops
            if op.kind == "dropout" or not trained.isdisjoint(op.inputs)
        ]
        shown = sorted(set(kinds) | ({"batch_norm"} if "conv2d" in kinds else set()))
        return {kind: kinds.count(kind) for kind in shown}

    @property
    def parameter_count(self) -> int:
        """Number of trained weights."""
        return sum(math.prod(t.shape) for t in self.graph.with_role(Role.PARAMETER))

    @property
    def macs(self) -> int:
        """Multiply-accumulates per sample of inference, in convolutions and matrix products."""
        total = 0
        for op in self.graph.ops:
            if op.kind in ("conv2d", "linear", "matmul") and op.output is not None:
                inputs = [self.graph.by_name[name] for name in op.inputs]
                total += kind_of(op).work(op, inputs, self.graph.by_name[op.output]).macs
        return total // self.batch
