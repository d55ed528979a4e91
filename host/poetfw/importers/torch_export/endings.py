# SPDX-License-Identifier: Apache-2.0
"""Loss at the end of a program: a module that takes labels and returns its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from pydantic import ValidationError, validate_call

from poetfw.common.errors import ModelError
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.calls import CHECKED, plain
from poetfw.importers.torch_export.file import Exported, Weight
from poetfw.ops.class_losses import ALIKE, ClassOptions
from poetfw.ops.objective import OWN_LOSS
from poetfw.training import CLASSIFYING

_MEAN, _NOTHING_IGNORED = 1, -100
"""PyTorch's number of the mean reduction, and its default label to ignore."""
_SAME_ORDER = frozenset(
    f"torch.ops.aten.{name}"
    for name in (
        *("view.default", "reshape.default", "flatten.using_ints", "unsqueeze.default"),
        *("squeeze.default", "squeeze.dim", "squeeze.dims", "contiguous.default", "alias.default"),
        *("to.dtype", "to.dtype_layout", "to.device", "to.other"),
    )
)
"""Operators that keep a target's elements in order."""
_PARTS = _SAME_ORDER | {
    f"torch.ops.aten.{name}"
    for name in (
        *("permute.default", "transpose.int", "movedim.int", "select.int", "slice.Tensor"),
        *("chunk.default", "split.Tensor", "unbind.int", "split_with_sizes.default"),
    )
}
"""Operators that move elements, or take some of them."""
_STRETCHED = "torch.ops.aten.broadcast_tensors.default"
"""Operator by which losses broadcast prediction and target to each other."""
_SYMMETRIC = ("mse", "l1", "huber")
"""Losses that are symmetric in prediction and target."""
_KNOWN = frozenset(schema.DTYPES.values()) - {"bfloat16"}
"""Types that NumPy also has."""


@dataclass(frozen=True)
class Ending:
    """Loss at the end of a program.

    Attributes:
        inputs: names of the inputs from which predictions are computed.
        targets: names of the inputs that hold labels.
        predictions: names of the tensors compared with labels, or returned after the loss.
        loss: a key of `poetfw.training.LOSSES`, or `OWN_LOSS`.
        options: class weights, label smoothing and ignored label.
        value: name of the scalar loss if it is the program's own expression, else None.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    predictions: tuple[str, ...]
    loss: str
    options: ClassOptions = ALIKE
    value: str | None = None


@dataclass(frozen=True)
class _Loss:
    """A call of a loss: names of prediction and target, name of the loss, and its options."""

    prediction: str
    target: str
    name: str
    options: ClassOptions = ALIKE


def read_ending(exported: Exported) -> Ending | None:
    """Loss that is a program's first output; None if the output is something else.

    If it is one of poetfw's losses, it becomes the model's loss. Any other scalar is translated
    like the rest of the network.

    Raises:
        ModelError: The first output is a loss, but the labels are not a second input of the
            program, or its prediction cannot be determined.
    """
    named = _named_ending(exported)
    if named is not None:
        return named
    outputs = user_outputs(exported.program)
    values = exported.program.graph_module.graph.tensor_values
    if not outputs or outputs[0] not in values:
        return None
    value = values[outputs[0]]
    graph = exported.program.graph_module.graph
    last = [node.target for node in graph.nodes if outputs[0] in node.gives]
    if value.sizes and not _LOSSES.keys().isdisjoint(last):
        shape = [size.as_int for size in value.sizes]
        raise ModelError(
            f"the loss that forward() returns has shape {shape}, but must be a scalar",
            "leave reduction='none' out, or return loss.mean()",
        )
    if value.sizes or value.dtype != schema.FLOAT:
        return None
    return _own_ending(exported, *outputs)


def user_inputs(program: schema.ExportedProgram) -> tuple[str, ...]:
    """Names of the tensors that `forward` takes, in order."""
    specs = program.graph_module.signature.input_specs
    return tuple(
        name for spec in specs if spec.user_input for name in schema.tensors_in(spec.user_input.arg)
    )


def user_outputs(program: schema.ExportedProgram) -> tuple[str, ...]:
    """Names of the tensors that `forward` returns, in order."""
    specs = program.graph_module.signature.output_specs
    return tuple(
        name
        for spec in specs
        if spec.user_output
        for name in schema.tensors_in(spec.user_output.arg)
    )


def _own_ending(exported: Exported, value: str, *predictions: str) -> Ending:
    """Loss that is the program's own expression.

    Results returned after the loss are predictions, and inputs on which none of them depends are
    labels. If there are no such results, the last of several inputs is the label, and predictions
    are the tensors compared with it: computed without the label and read by ops that depend on it.

    Raises:
        ModelError: The loss does not depend on an input, or the predictions cannot be determined.
    """
    graph, inputs = exported.program.graph_module.graph, user_inputs(exported.program)
    producers = {name: node for node in graph.nodes for name in node.gives}
    predictions = tuple(_unstretched(name, producers) for name in predictions)
    of = {name: _dependent(graph, name) for name in inputs}
    if predictions:
        sources = tuple(n for n in inputs if not of[n].isdisjoint(predictions))
    else:
        sources = inputs[:-1] or inputs
    targets = tuple(name for name in inputs if name not in sources)
    for name in inputs:
        if value not in of[name]:
            raise ModelError(f"the loss does not depend on the input {name!r:.60} of forward()")
    if predictions and sources:
        return Ending(sources, targets, predictions, OWN_LOSS, value=value)
    if not sources or not targets:
        raise ModelError(
            "it cannot be told what the network predicts",
            "return the prediction behind the loss: return loss, prediction",
        )
    labelled = of[targets[0]]
    calculated = {name for source in sources for name in of[source] - {source}} - labelled
    compared = _compared(graph, sources[0], calculated, labelled)
    return Ending(sources, targets, compared, OWN_LOSS, value=value)


def _compared(
    graph: schema.ExportedGraph, source: str, calculated: set[str], labelled: set[str]
) -> tuple[str, ...]:
    """Tensors that a loss compares with labels, or combines with the result of that.

    If all of them follow from one, it is that one.

    Args:
        graph: graph of the program.
        source: name of its first input.
        calculated: names of tensors computed from inputs without labels.
        labelled: names of tensors computed with labels.

    Raises:
        ModelError: There are none with a row for each sample.
    """
    producers = {name: node for node in graph.nodes for name in node.gives}
    place = {name: at for at, node in enumerate(graph.nodes) for name in node.gives}
    batch = graph.tensor_values[source].sizes[:1]

    def whole(name: str) -> str:
        """Tensor that another is a part or a view of."""
        node = producers[name]
        while node.target in _PARTS and node.reads[0] in calculated:
            name, node = node.reads[0], producers[node.reads[0]]
        return name

    read = {
        name
        for node in graph.nodes
        if not labelled.isdisjoint(node.gives)
        for name in node.reads
        if name in calculated and graph.tensor_values[name].sizes
    }
    if len(read) != 1 or graph.tensor_values[min(read)].sizes[:1] != batch:
        read = {whole(name) for name in read}
    first = min(read, key=lambda name: place[name], default=None)
    if first is not None and read <= _dependent(graph, first):
        return (first,)
    for name in read.copy():
        read -= _dependent(graph, name) - {name}
    if read and all(graph.tensor_values[name].sizes[:1] == batch for name in read):
        return tuple(sorted(read, key=lambda name: place[name]))
    raise ModelError(
        "it cannot be told what the loss is of",
        "return the prediction behind the loss: return loss, prediction",
    )


def _dependent(graph: schema.ExportedGraph, name: str) -> set[str]:
    """A tensor, and all tensors computed from it."""
    dependent = {name}
    for node in graph.nodes:
        if node.target == _STRETCHED:  # whose results are of one input each
            pairs = zip(node.reads, node.gives, strict=True)
            dependent.update(gives for reads, gives in pairs if reads in dependent)
        elif not dependent.isdisjoint(node.reads):
            dependent.update(node.gives)
    return dependent


def _named_ending(exported: Exported) -> Ending | None:
    """Loss of poetfw's at the end of a program; None if it ends otherwise."""
    graph, outputs = exported.program.graph_module.graph, user_outputs(exported.program)
    producers = {name: node for node in graph.nodes for name in node.gives}
    last = producers.get(outputs[0]) if outputs else None
    if last is None or last.target not in _LOSSES or len(outputs) > 2:
        return None
    try:
        values = {name: exported.weights.get(name, name) for name in last.reads}
        loss = _LOSSES[last.target](**{each.name: plain(each.arg, values) for each in last.inputs})
        prediction, target = (
            _unstretched(name, producers) for name in (loss.prediction, loss.target)
        )
        inputs = user_inputs(exported.program)
        first, second = (_origin(name, producers)[-1] for name in (prediction, target))
        if loss.name in _SYMMETRIC and first in inputs and second not in inputs:
            prediction, target = target, prediction
        of, to = graph.tensor_values[prediction], graph.tensor_values[target]
        if loss.name in CLASSIFYING and to.dtype != schema.LONG:
            raise UnsupportedError("its target is not a class number")
        if loss.name not in CLASSIFYING and of.sizes != to.sizes:
            raise UnsupportedError("its prediction and its target have different shapes")
        path = _origin(target, producers)
        sources = tuple(name for name in inputs if name != path[-1])
        read = {name for name in sources if prediction in _dependent(graph, name)}
        own = prediction in _dependent(graph, path[-1])
        if not sources or path[-1] not in inputs or read != set(sources) or own:
            raise UnsupportedError(
                f"of its {len(inputs)} inputs, one must be the target, as it is, and the others "
                "must be what the prediction is calculated from"
            )
        types = [graph.tensor_values[name].dtype for name in reversed(path)]
        for before, after in pairwise(types):
            _expect_kept(before, after)
        sizes = graph.tensor_values[sources[0]].sizes
        if loss.name in CLASSIFYING and (of.sizes[:1] != sizes[:1] or len(of.sizes) != 2):
            raise UnsupportedError("its prediction does not have one row per sample")
        return Ending(sources, (path[-1],), (prediction,), loss.name, loss.options)
    except (UnsupportedError, LookupError, ValidationError):
        return None


def _unstretched(name: str, producers: Mapping[str, schema.OperatorCall]) -> str:
    """Tensor before broadcasting."""
    node = producers.get(name)
    if node is None or node.target != _STRETCHED:
        return name
    return node.reads[node.gives.index(name)]


def _origin(name: str, producers: Mapping[str, schema.OperatorCall]) -> list[str]:
    """A tensor and its sources, as long as elements keep their order, back to the first."""
    path = [name]
    for _ in producers:  # bounds the walk in a malformed, cyclic graph
        node = producers.get(path[-1])
        if node is None or node.target not in _SAME_ORDER:
            break
        path.append(node.reads[0])
    return path


def _expect_kept(before: int, after: int) -> None:
    """Check that a conversion keeps all values.

    Conversions to float32 are accepted: poetfw reads numeric targets as float32, whatever their
    type in the file.

    Raises:
        UnsupportedError: Values may change.
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
