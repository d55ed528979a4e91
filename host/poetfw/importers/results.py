# SPDX-License-Identifier: Apache-2.0
"""Results of a network: its predictions, one or several, and what they are compared with."""

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
"""Kinds of ops whose results are numbers of what they read."""


class Result(NamedTuple):
    """A prediction: its author's name, and its tensor [batch, ...]."""

    name: str
    tensor: str


def note_classes(net: Network, numbers: str, classes: int, ignored: int | None = None) -> None:
    """Remember how many classes a tensor numbers, where it holds labels: data are checked by it.

    Args:
        net: the network.
        numbers: the tensor of class numbers.
        classes: number of classes.
        ignored: the class number that does not count; None for none.
    """
    producer = net.builder.producer(numbers)
    while producer is not None and producer.kind in _MOVES:
        numbers = producer.inputs[0]
        producer = net.builder.producer(numbers)
    if producer is None and net.builder.role(numbers) is Role.LABEL:
        fewest, before = net.classes.get(numbers, (classes, None))
        net.classes[numbers] = (min(classes, fewest), before if ignored is None else ignored)


def mark_loss(net: Network, value: str, results: Sequence[Result]) -> None:
    """Append the op that marks a network's own loss [1].

    Held-out samples are counted by right answers where there is one label a sample, which numbers
    the classes of the one result.
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
    """The model of a network.

    Several results without a loss of the network's own are trained by the sum of the chosen loss of
    each, which has labels called as the result is, with `_y` behind it.

    Args:
        net: the network.
        results: its predictions.
        description: of the model, for people.
        options: how much classes and samples count in the loss.
        warnings: about the file, beside those of the network.

    Raises:
        ModelError: the loss does not fit a result, or the model is malformed.
    """
    named = _named(results)
    if len(named) > 1 and net.loss != OWN_LOSS:
        _add_losses(net, named)
    output, heads = named[0].tensor, tuple[Head, ...]()
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
        state_dict=tuple(net.entries),
    )


def _named(results: Sequence[Result]) -> list[Result]:
    """The results, each with another name."""
    names, named = FreshNames(), dict[str, str]()
    for name, tensor in results:
        named[names.fresh(name, named)] = tensor
    return [Result(name, tensor) for name, tensor in named.items()]


def _joined(net: Network, tensors: Sequence[str]) -> str:
    """The elements of several tensors, one after the other, sample by sample."""
    rows = []
    for tensor in tensors:
        batch, *rest = net.shape(tensor)
        rows.append(net.reshape("results", net.floats("results", tensor), (batch, math.prod(rest))))
    return net.concat("results", rows, 1)


def _add_losses(net: Network, results: Sequence[Result]) -> None:
    """Append the sum of the chosen loss of each result, as the network's own."""
    terms = []
    for name, tensor in results:
        shape, classifies = net.shape(tensor), net.loss in CLASSIFYING
        if classifies and len(shape) != 2:
            raise ModelError(
                f"the result {name!r:.60} has the shape {list(shape)}; the loss {net.loss} needs "
                "[batch, classes]",
                "choose another loss, or return a loss of your own first from forward()",
            )
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
