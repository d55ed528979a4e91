# SPDX-License-Identifier: Apache-2.0
"""Results of a network: one or several predictions, and the labels they are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.importers.network import Network
from poetfw.ir import Dtype, FreshNames, Head, Role
from poetfw.models import Model
from poetfw.ops.class_losses import ALIKE, ClassOptions
from poetfw.ops.objective import OWN_LOSS
from poetfw.training import CLASSIFYING

_MOVES = ("to_float", "to_integer", "reshape", "transpose", "take_strided", "slice")
"""Kinds of ops that move or convert numbers without computing new ones."""


class Result(NamedTuple):
    """A prediction: the author's name of it, and its tensor [batch, ...]."""

    name: str
    tensor: str


def note_classes(net: Network, numbers: str, classes: int, ignored: int | None = None) -> bool:
    """Record the number of classes of a tensor of class numbers, if it holds labels, to check data.

    Returns True if it does.

    Args:
        net: network under construction.
        numbers: name of the tensor of class numbers.
        classes: number of classes.
        ignored: class number that the loss ignores; None to ignore no class.
    """
    producer = net.builder.producer(numbers)
    while producer is not None and producer.kind in _MOVES:
        numbers = producer.inputs[0]
        producer = net.builder.producer(numbers)
    if producer is not None or net.builder.role(numbers) is not Role.LABEL:
        return False
    fewest, before = net.classes.get(numbers, (classes, None))
    net.classes[numbers] = (min(classes, fewest), before if ignored is None else ignored)
    return True


def mark_loss(net: Network, value: str, results: Sequence[Result]) -> None:
    """Append the op that marks a network's own loss [1].

    Right answers of held-out samples are counted if there is a single result and one label per
    sample, which is a class number of this result.
    """
    counts = 0
    if len(results) == 1 and len(net.classes) == 1:
        ((label, (classes, _)),) = net.classes.items()
        if len(net.shape(label)) == 1 and net.shape(results[0].tensor)[1:] == (classes,):
            counts = classes
    one = net.constant("one", np.ones(1))
    net.builder.op("objective", "objective", (value, one), {"classes": counts})


def finished(
    net: Network,
    results: Sequence[Result],
    description: str,
    options: ClassOptions = ALIKE,
    warnings: Sequence[str] = (),
) -> Model:
    """Create the model of a network.

    Several results without an own loss are trained with the sum of the chosen loss over all
    results; the label of each is named after the result, with the suffix `_y`.

    Args:
        net: the network.
        results: predictions of the network.
        description: one-line description of the model.
        options: class weights, label smoothing and ignored label of the loss.
        warnings: warnings about the file, in addition to the network's.

    Raises:
        ModelError: The loss does not fit a result, or the model is malformed.
    """
    named = _named(results)
    if len(named) > 1 and net.loss != OWN_LOSS:
        _add_losses(net, named)
    output, heads = named[0].tensor, tuple[Head, ...]()
    if net.loss in CLASSIFYING and len(net.shape(output)) < 2:
        raise _without_classes(net, named[0])
    if len(named) > 1:
        heads = tuple((name, net.shape(tensor)) for name, tensor in named)
        output = _joined(net, [tensor for _, tensor in named])
    return Model(
        *net.builder.build(output),
        loss=net.loss,
        loss_options=options,
        told_apart=net.classes,
        heads=heads,
        description=description,
        warnings=tuple(dict.fromkeys((*warnings, *net.warnings))),
        frozen=tuple(net.frozen),
        state_dict=tuple(entry for entry in net.entries if entry.name not in net.unlisted),
    )


def _without_classes(net: Network, result: Result) -> ModelError:
    """Error of a result that a loss of classes cannot take."""
    return ModelError(
        f"the result {result.name!r:.60} has the shape {list(net.shape(result.tensor))}; the loss "
        f"{net.loss} needs [batch, classes]",
        "choose another loss, or return a loss of your own first from forward(): a scalar, such as "
        "loss.mean()",
    )


def _named(results: Sequence[Result]) -> list[Result]:
    """Results with distinct names."""
    names, named = FreshNames(), dict[str, str]()
    for name, tensor in results:
        named[names.fresh(name, named)] = tensor
    return [Result(name, tensor) for name, tensor in named.items()]


def _joined(net: Network, tensors: Sequence[str]) -> str:
    """Concatenate tensors per sample, each flattened."""
    rows = []
    for tensor in tensors:
        batch, *rest = net.shape(tensor)
        rows.append(net.reshape("results", net.floats("results", tensor), (batch, math.prod(rest))))
    return net.concat("results", rows, 1)


def _add_losses(net: Network, results: Sequence[Result]) -> None:
    """Append the sum of the chosen loss over all results, as the network's own loss."""
    terms = []
    for name, tensor in results:
        shape, classifies = net.shape(tensor), net.loss in CLASSIFYING
        if classifies and len(shape) != 2:
            raise _without_classes(net, Result(name, tensor))
        target = (shape[:1], Dtype.I32) if classifies else (shape, Dtype.F32)
        label = net.builder.label(f"{name}_y", *target)
        kind = "weighted_cross_entropy" if net.loss == "softmax_cross_entropy" else net.loss
        attributes = ALIKE.attributes(shape[1]) if classifies else {}
        inputs = (tensor, label)
        terms.append(net.builder.op(f"{kind}_term", f"{name}.loss", inputs, attributes))
        if classifies:
            note_classes(net, label, shape[1])
    total = terms[0]
    for term in terms[1:]:
        total = net.add("loss of all", total, term)
    net.loss = OWN_LOSS
    mark_loss(net, total, results)
