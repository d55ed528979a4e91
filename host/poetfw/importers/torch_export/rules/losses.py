# SPDX-License-Identifier: Apache-2.0
"""Rules of losses within an expression, composed of arithmetic as PyTorch defines them.

`reduction` is PyTorch's number: 0 for the elements, 1 for their mean, 2 for their sum.
"""

from __future__ import annotations

import numpy as np

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.results import note_classes
from poetfw.importers.torch_export.calls import Call, Value
from poetfw.importers.torch_export.expression import (
    Expression,
    class_numbers,
    expression,
    minimum,
    rows_of,
)
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.registry import Number, aten
from poetfw.ops.class_losses import ClassOptions

_TINY = 1e-37
"""A number above float32's smallest normal number, whose logarithm is finite."""
_LEAST_LOG = -100.0
"""PyTorch's lower bound of logarithms in binary cross-entropy."""


@aten("mse_loss.default")
def _mse(call: Call, self: Value, target: Value, reduction: int = 1) -> str:
    error = expression(call, self) - expression(call, target)
    return error.square().reduced(reduction).tensor


@aten("l1_loss.default")
def _l1(call: Call, self: Value, target: Value, reduction: int = 1) -> str:
    error = expression(call, self) - expression(call, target)
    return error.abs().reduced(reduction).tensor


@aten("huber_loss.default")
def _huber(call: Call, self: Value, target: Value, reduction: int = 1, delta: Number = 1) -> str:
    """Huber loss: e² / 2 up to delta, then linear; computed as q (e - q / 2), q = min(e, delta)."""
    error = (expression(call, self) - expression(call, target)).abs()
    bent = error.clip(high=float(delta))
    return (bent * (error - bent * 0.5)).reduced(reduction).tensor


@aten("smooth_l1_loss.default")
def _smooth_l1(call: Call, self: Value, target: Value, reduction: int = 1, beta: Number = 1) -> str:
    if beta == 0:
        return _l1(call, self, target, reduction)
    error = Expression(call, _huber(call, self, target, 0, beta))
    return (error / float(beta)).reduced(reduction).tensor


@aten("binary_cross_entropy_with_logits.default")
def _of_logits(
    call: Call,
    self: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = 1,
) -> str:
    x, t = expression(call, self), expression(call, target)
    hidden = (-x).softplus()
    if pos_weight is not None:
        hidden = hidden * ((expression(call, pos_weight) - 1.0) * t + 1.0)
    losses = (1.0 - t) * x + hidden
    return _weighted(call, losses, weight).reduced(reduction).tensor


@aten("binary_cross_entropy.default")
def _of_probabilities(
    call: Call, self: Value, target: Value, weight: Value | None = None, reduction: int = 1
) -> str:
    p, t = expression(call, self), expression(call, target)
    hit, missed = p.log().clip(low=_LEAST_LOG), (1.0 - p).log().clip(low=_LEAST_LOG)
    return _weighted(call, -(t * hit + (1.0 - t) * missed), weight).reduced(reduction).tensor


def _weighted(call: Call, losses: Expression, weight: Value | None) -> Expression:
    return losses if weight is None else losses * expression(call, weight)


@aten("kl_div.default")
def _kl_div(
    call: Call, self: Value, target: Value, reduction: int = 1, *, log_target: bool = False
) -> str:
    x, t = expression(call, self), expression(call, target)
    share, log = (t.exp(), t) if log_target else (t, t.clip(low=_TINY).log())
    return (share * (log - x)).reduced(reduction).tensor


@aten("poisson_nll_loss.default")
def _poisson(
    call: Call,
    input: Value,
    target: Value,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> str:
    if full:
        raise UnsupportedError("it has full=True: leave out what the labels alone come to")
    x, t = expression(call, input), expression(call, target)
    losses = x.exp() - t * x if log_input else x - t * (x + eps).log()
    return losses.reduced(reduction).tensor


@aten("soft_margin_loss.default")
def _soft_margin(call: Call, self: Value, target: Value, reduction: int = 1) -> str:
    x, t = expression(call, self), expression(call, target)
    return (-(x * t)).softplus().reduced(reduction).tensor


@aten("margin_ranking_loss.default")
def _ranking(
    call: Call,
    input1: Value,
    input2: Value,
    target: Value,
    margin: float = 0.0,
    reduction: int = 1,
) -> str:
    apart = expression(call, input1) - expression(call, input2)
    return (-(apart * expression(call, target)) + margin).relu().reduced(reduction).tensor


@aten("hinge_embedding_loss.default")
def _hinge_embedding(
    call: Call, self: Value, target: Value, margin: float = 1.0, reduction: int = 1
) -> str:
    x, t = expression(call, self), expression(call, target)
    near = t.equals(-1.0).keep(x, out=True)
    far = t.equals(1.0).keep((margin - x).relu(), out=True)
    return (near + far).reduced(reduction).tensor


@aten("triplet_margin_loss.default")
def _triplet(
    call: Call,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> str:
    a, near, far = (expression(call, value) for value in (anchor, positive, negative))

    def distance(x: Expression, y: Expression) -> Expression:
        return (x - y + eps).length(p, [-1])

    apart = distance(a, far)
    if swap:
        apart = minimum(apart, distance(near, far))
    return (distance(a, near) - apart + margin).relu().reduced(reduction).tensor


@aten("pairwise_distance.default")
def _distance(
    call: Call, x1: Value, x2: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> str:
    apart = expression(call, x1) - expression(call, x2) + eps
    return apart.length(p, [-1], keep=keepdim).tensor


@aten("cdist.default")
def _distances(
    call: Call, x1: Value, x2: Value, p: float = 2.0, compute_mode: int | None = None
) -> str:
    """Of each row of x1 [..., P, F] to each of x2 [..., R, F]."""
    a, b = expression(call, x1), expression(call, x2)
    rows = a.reshape((*a.shape[:-1], 1, a.shape[-1]))
    columns = b.reshape((*b.shape[:-2], 1, *b.shape[-2:]))
    return (rows - columns).length(p, [-1]).tensor


@aten("cosine_embedding_loss.default")
def _cosine_embedding(
    call: Call,
    input1: Value,
    input2: Value,
    target: Value,
    margin: float = 0.0,
    reduction: int = 1,
) -> str:
    a, b, t = (expression(call, value) for value in (input1, input2, target))
    eps = 1e-12
    lengths = (a.square().sum([-1]) + eps) * (b.square().sum([-1]) + eps)
    cosine = (a * b).sum([-1]) / lengths.sqrt()
    losses = t.equals(1.0).keep(1.0 - cosine) + t.equals(-1.0).keep((cosine - margin).relu())
    return losses.reduced(reduction).tensor


@aten("cosine_similarity.default")
def _cosine(call: Call, x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> str:
    a, b = expression(call, x1), expression(call, x2)
    lengths = [each.length(2, [dim], keep=True).clip(low=eps) for each in (a, b)]
    return ((a / lengths[0]) * (b / lengths[1])).sum([dim]).tensor


@aten("multi_margin_loss.default")
def _multi_margin(
    call: Call,
    self: Value,
    target: Value,
    p: Number = 1,
    margin: Number = 1,
    weight: Value | None = None,
    reduction: int = 1,
) -> str:
    if weight is not None or p not in (1, 2):
        raise UnsupportedError("it has weights, or a power other than 1 and 2")
    x = expression(call, self)
    hot = expression(call, target).one_hot(x.shape[-1])
    own = hot.keep(x).sum([-1], keep=True)
    losses = hot.keep((x - own + float(margin)).relu(), out=True).power(float(p))
    note_classes(call.net, call.tensor(target), x.shape[-1])
    return losses.mean([-1]).reduced(reduction).tensor


@aten("cross_entropy_loss.default")
def _cross_entropy(
    call: Call,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> str:
    """Cross-entropy of classes on axis 1, with labels for each position of the other axes."""
    x = expression(call, self)
    if len(x.shape) < 2:
        raise UnsupportedError("its logits have no batch")
    if call.shape(target) == x.shape:
        losses = _of_shares(call, x, target, weight, label_smoothing)
        return (losses.mean() if reduction == 1 else losses.reduced(reduction)).tensor
    if reduction == 1:
        term = "weighted_cross_entropy_term"
        return _classified(call, term, x, target, weight, ignore_index, label_smoothing)
    return _each(call, x.log_softmax(1), target, weight, reduction, ignore_index, label_smoothing)


@aten("nll_loss_nd.default", "nll_loss.default")
def _nll(
    call: Call,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> str:
    x = expression(call, self)
    if reduction == 1:
        return _classified(call, "nll_term", x, target, weight, ignore_index, 0.0)
    return _each(call, x, target, weight, reduction, ignore_index, 0.0)


def _classified(
    call: Call,
    kind: str,
    x: Expression,
    target: Value,
    weight: Value | None,
    ignored: int,
    smoothing: float,
) -> str:
    """Mean loss over labels that are not ignored, by poetfw's own loss of rows [N · ..., K]."""
    classes = x.shape[1]
    options = ClassOptions(_numbers(weight), smoothing, ignored)
    options.expect_fitting(classes)
    net, rows = call.net, rows_of(x)
    labels = class_numbers(call, target)
    note_classes(net, labels, classes, ignored)
    if net.shape(labels) != rows.shape[:1]:
        flat = net.reshape(call.name, net.floats(call.name, labels), rows.shape[:1])
        labels = net.integers(call.name, flat)
    return net.builder.op(kind, call.name, (rows.tensor, labels), options.attributes(classes))


def _each(
    call: Call,
    logs: Expression,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    smoothing: float,
) -> str:
    """Loss of each label, or their sum, from log-probabilities."""
    classes = logs.shape[1]
    labels = expression(call, target)
    note_classes(call.net, labels.tensor, classes, ignored)
    hot = labels.one_hot(classes)
    weights = _numbers(weight) or (1.0,) * classes
    row = logs.constant(np.array(weights).reshape((1,) * len(labels.shape) + (classes,)))
    weighed = logs.last(1) * row
    losses = hot.keep(weighed).sum([-1]) * (smoothing - 1.0)
    if smoothing:
        spread = weighed.sum([-1]) * (-smoothing / classes)
        losses = losses + labels.equals(float(ignored)).keep(spread, out=True)
    elif 0 <= ignored < classes:
        losses = labels.equals(float(ignored)).keep(losses, out=True)
    return losses.reduced(reduction).tensor


def _of_shares(
    call: Call, x: Expression, target: Value, weight: Value | None, smoothing: float
) -> Expression:
    """Losses for labels that are class probabilities."""
    classes = x.shape[1]
    shares = expression(call, target) * (1.0 - smoothing) + smoothing / classes
    logs = x.log_softmax(1)
    if weight is not None:
        logs = logs * logs.constant(
            np.array(_numbers(weight)).reshape((classes,) + (1,) * (len(x.shape) - 2))
        )
    return -(shares * logs).sum([1])


def _numbers(weight: Value | None) -> tuple[float, ...]:
    if weight is None:
        return ()
    if not isinstance(weight, Weight):
        raise UnsupportedError("its class weights are calculated: make them a buffer")
    return tuple(weight.values.reshape(-1).astype(float))
