# SPDX-License-Identifier: Apache-2.0
"""The loss that a program may end in: a module that is called with labels and returns its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from pydantic import ValidationError, validate_call

from poetfw.common.errors import ModelError
from poetfw.common.reading import first_flaw
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.calls import CHECKED, plain
from poetfw.importers.torch_export.file import Exported, Weight
from poetfw.ops.class_losses import ALIKE, ClassOptions
from poetfw.training import CLASSIFYING

_MEAN, _NOTHING_IGNORED = 1, -100
"""PyTorch's numbers: of the reduction, and of the label to ignore where nobody names one."""
_SAME_ORDER = frozenset(
    f"torch.ops.aten.{name}"
    for name in (
        *("view.default", "reshape.default", "flatten.using_ints", "unsqueeze.default"),
        *("squeeze.default", "squeeze.dim", "squeeze.dims", "contiguous.default", "alias.default"),
        *("to.dtype", "to.dtype_layout", "to.device", "to.other"),
    )
)
"""Operators behind which a target's elements follow one another as before."""
_SYMMETRIC = ("mse", "l1", "huber")
"""Losses that are the same with prediction and target exchanged."""
_KNOWN = frozenset(schema.DTYPES.values()) - {"bfloat16"}
"""Types that NumPy has, too."""


@dataclass(frozen=True)
class Ending:
    """A loss at the end of a program.

    Attributes:
        input: what the prediction is calculated from.
        target: the input of the program that holds the labels.
        prediction: the tensor that the loss is of.
        loss: a key of `poetfw.training.LOSSES`.
        options: how much classes and samples count.
    """

    input: str
    target: str
    prediction: str
    loss: str
    options: ClassOptions = ALIKE


@dataclass(frozen=True)
class _Loss:
    """A call of a loss: the names of what it compares, what it is, and its options."""

    prediction: str
    target: str
    name: str
    options: ClassOptions = ALIKE


def read_ending(exported: Exported) -> Ending | None:
    """The loss that is a program's first output; None where that is something else.

    Raises:
        ModelError: poetfw has no such loss, or its target is no second input of the program.
    """
    graph, signature = exported.program.graph_module.graph, exported.program.graph_module.signature
    outputs = [
        schema.tensors_in(s.user_output.arg) for s in signature.output_specs if s.user_output
    ]
    producers = {name: node for node in graph.nodes for name in node.gives}
    last = producers.get(outputs[0][0]) if outputs and outputs[0] else None
    if last is None or last.target not in _LOSSES:
        return None
    try:
        values = {name: exported.weights.get(name, name) for name in last.reads}
        loss = _LOSSES[last.target](**{each.name: plain(each.arg, values) for each in last.inputs})
        prediction, target = (
            _unstretched(name, producers) for name in (loss.prediction, loss.target)
        )
        inputs = [
            name
            for spec in signature.input_specs
            if spec.user_input
            for name in schema.tensors_in(spec.user_input.arg)
        ]
        first, second = (_origin(name, producers)[-1] for name in (prediction, target))
        if loss.name in _SYMMETRIC and first in inputs and second not in inputs:
            prediction, target = target, prediction
        of, to = graph.tensor_values[prediction], graph.tensor_values[target]
        if loss.name in CLASSIFYING and to.dtype != schema.LONG:
            raise UnsupportedError("its target is not a class number")
        if loss.name not in CLASSIFYING and of.sizes != to.sizes:
            raise UnsupportedError("its prediction and its target have different shapes")
        path = _origin(target, producers)
        if len(inputs) != 2 or path[-1] not in inputs:
            raise UnsupportedError(
                f"of its {len(inputs)} inputs, one must be the target, as it is, and the other "
                "must be what the prediction is calculated from"
            )
        types = [graph.tensor_values[name].dtype for name in reversed(path)]
        for before, after in pairwise(types):
            _expect_kept(before, after)
        (source,) = (name for name in inputs if name != path[-1])
        sizes = graph.tensor_values[source].sizes
        if loss.name in CLASSIFYING and of.sizes[:1] != sizes[:1]:
            raise UnsupportedError(
                "its prediction does not have one row per sample: poetfw's losses take one "
                "class number per sample"
            )
        return Ending(source, path[-1], prediction, loss.name, loss.options)
    except (UnsupportedError, LookupError, ValidationError) as error:
        flaw = first_flaw(error) if isinstance(error, ValidationError) else str(error)
        kind = last.target.removeprefix("torch.ops.")
        raise ModelError(
            f"the loss that the program ends in ({kind}) cannot be trained with: {flaw}",
            "return the prediction from forward(), and choose a loss with --loss",
        ) from error


def _unstretched(name: str, producers: Mapping[str, schema.Node]) -> str:
    """The tensor before it was stretched to another."""
    node = producers.get(name)
    if node is None or node.target != "torch.ops.aten.broadcast_tensors.default":
        return name
    return node.reads[node.gives.index(name)]


def _origin(name: str, producers: Mapping[str, schema.Node]) -> list[str]:
    """A tensor, and those that it holds the elements of, in the same order, back to the first."""
    path = [name]
    for _ in producers:  # more steps would go in circles
        node = producers.get(path[-1])
        if node is None or node.target not in _SAME_ORDER:
            break
        path.append(node.reads[0])
    return path


def _expect_kept(before: int, after: int) -> None:
    """Check that numbers of one type are the same in another.

    Float32 is what poetfw makes of targets that are numbers, whatever their type in the file.

    Raises:
        UnsupportedError: they may be others.
    """
    if after in (before, schema.FLOAT):
        return
    old, new = (schema.DTYPES.get(dtype, "an unknown type") for dtype in (before, after))
    if not _KNOWN.issuperset((old, new)) or not np.can_cast(old, new):
        raise UnsupportedError(
            f"its target is converted from {old} to {new}, which may change numbers"
        )


def _of_classes(name: str) -> Callable[..., _Loss]:
    def rule(
        self: str,
        target: str,
        weight: Weight | None = None,
        reduction: int = _MEAN,
        ignore_index: int = _NOTHING_IGNORED,
        label_smoothing: float = 0.0,
    ) -> _Loss:
        _expect_mean(reduction)
        options = ClassOptions(
            () if weight is None else tuple(weight.values.reshape(-1).astype(float)),
            label_smoothing,
            None if ignore_index == _NOTHING_IGNORED else ignore_index,
        )
        return _Loss(self, target, name, options)

    return rule


def _of_numbers(name: str) -> Callable[..., _Loss]:
    def rule(
        self: str, target: str, reduction: int = _MEAN, beta: float = 1.0, delta: float = 1.0
    ) -> _Loss:
        _expect_mean(reduction)
        if beta * delta != 1:
            raise UnsupportedError(f"its threshold is {beta * delta:g}, but must be 1")
        return _Loss(self, target, name)

    return rule


def _of_logits(
    self: str,
    target: str,
    weight: Weight | None = None,
    pos_weight: Weight | None = None,
    reduction: int = _MEAN,
) -> _Loss:
    _expect_mean(reduction)
    if weight is not None or pos_weight is not None:
        raise UnsupportedError("it has weights, which only losses of classes have in poetfw")
    return _Loss(self, target, "binary_cross_entropy")


def _expect_mean(reduction: int) -> None:
    if reduction != _MEAN:
        raise UnsupportedError("its reduction is not 'mean'")


_LOSSES: Mapping[str, Callable[..., _Loss]] = MappingProxyType(
    {
        f"torch.ops.aten.{target}": validate_call(config=CHECKED)(rule)
        for target, rule in {
            "cross_entropy_loss.default": _of_classes("softmax_cross_entropy"),
            "nll_loss_nd.default": _of_classes("nll"),
            "mse_loss.default": _of_numbers("mse"),
            "l1_loss.default": _of_numbers("l1"),
            "smooth_l1_loss.default": _of_numbers("huber"),
            "huber_loss.default": _of_numbers("huber"),
            "binary_cross_entropy_with_logits.default": _of_logits,
        }.items()
    }
)
