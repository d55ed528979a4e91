# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, unrolled: each step has ops of its own, which share the layer's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poetfw.importers.network import Network
from poetfw.importers.refusal import UnsupportedError

Step = Callable[[Network, str, str, str, str, str], tuple[str, str]]
"""Step function: from (net, name, x·W, h·U, h, c) to the next (h, c)."""


@dataclass(frozen=True)
class Cell:
    """Recurrence of a layer.

    Attributes:
        gates: ratio of the weights' products' width to h's.
        step: step function.
    """

    gates: int
    step: Step


class Direction(NamedTuple):
    """Weights and initial states of one direction of a layer.

    Attributes:
        weights: weights of the input, [G·H, F], and of h, [G·H, H].
        biases: biases of both, [G·H] each; None if there are none.
        h: initial hidden state, [N, H]; None for zeros.
        c: initial cell state of an LSTM, [N, H]; None for zeros.
    """

    weights: tuple[str, str]
    biases: tuple[str, str] | None = None
    h: str | None = None
    c: str | None = None


class States(NamedTuple):
    """Results of a layer: h of all steps, [N, T, H] or [T, N, H], and the last h and c, [N, H]."""

    sequence: str
    h: str
    c: str


def run_direction(
    net: Network,
    name: str,
    cell: Cell,
    x: str,
    direction: Direction,
    *,
    batch_first: bool,
    backwards: bool,
) -> States:
    """Append one direction of a layer over sequences [N, T, F], or [T, N, F]."""
    time, batch = (1, 0) if batch_first else (0, 1)
    shape = net.shape(x)
    if len(shape) != 3:
        raise UnsupportedError("its input is not a batch of sequences")
    w_x, w_h = direction.weights
    hidden = net.shape(w_h)[1]
    if net.shape(w_h)[0] != cell.gates * hidden:
        raise UnsupportedError("its state is projected, which poetfw does not support")
    b_x, b_h = direction.biases or (None, None)
    wide = net.linear(f"{name}.input", x, w_x, b_x)
    zeros = np.zeros((shape[batch], hidden), np.float32)
    start = net.constant(f"{name}.start", zeros) if None in (direction.h, direction.c) else ""
    h, c = direction.h or start, direction.c or start
    states = [""] * shape[time]
    for t in reversed(range(shape[time])) if backwards else range(shape[time]):
        at = f"{name}.{t}"
        now = net.part(f"{at}.x", wide, time, t, 1)
        now = net.reshape(f"{at}.x", now, (shape[batch], cell.gates * hidden))
        h, c = cell.step(net, f"{at}.h", now, net.linear(f"{at}.product", h, w_h, b_h), h, c)
        one = [shape[batch], shape[batch], hidden]
        one[time] = 1
        states[t] = net.reshape(f"{at}.state", h, one)
    return States(net.concat(name, states, time), h, c)


def run_layers(
    net: Network,
    name: str,
    cell: Cell,
    x: str,
    directions: Sequence[Sequence[Direction]],
    *,
    batch_first: bool,
    share: float = 0.0,
) -> States:
    """Append stacked layers of one or two directions.

    Returns:
        the last layer's sequence, both directions one after the other, and the last h and c of all
        layers and directions, [layers · directions, N, H].

    Args:
        net: network under construction.
        name: name of the ops.
        cell: recurrence of each layer.
        x: name of the sequences.
        directions: directions of each layer; the second one, if present, runs backwards.
        batch_first: True if sequences are [N, T, F]; False for [T, N, F].
        share: dropout probability between layers.
    """
    last: list[States] = []
    for index, layer in enumerate(directions):
        if index:
            x = net.dropout(f"{name}.dropout", x, share)
        both = [
            run_direction(
                net,
                f"{name}.{index}{'r' * number}",
                cell,
                x,
                direction,
                batch_first=batch_first,
                backwards=number == 1,
            )
            for number, direction in enumerate(layer)
        ]
        x = net.concat(name, [states.sequence for states in both], 2)
        last += both

    def stacked(states: Sequence[str]) -> str:
        rows = [net.reshape(f"{name}.last", one, (1, *net.shape(one))) for one in states]
        return net.concat(f"{name}.last", rows, 0)

    return States(x, stacked([s.h for s in last]), stacked([s.c for s in last]))


def lstm(order: str = "ifgo") -> Cell:
    """LSTM cell with forget gate (Hochreiter and Schmidhuber, 1997); gates in the given order."""

    def step(net: Network, name: str, x: str, product: str, h: str, c: str) -> tuple[str, str]:
        hidden = net.shape(h)[1]
        gates = net.add(f"{name}.gates", x, product)
        kinds = {"i": "sigmoid", "f": "sigmoid", "g": "tanh", "o": "sigmoid"}
        gate = {}
        for at, letter in enumerate(order):
            part = net.part(f"{name}.gate", gates, 1, at * hidden, hidden)
            gate[letter] = net.builder.op(kinds[letter], f"{name}.{kinds[letter]}", (part,))
        kept = net.multiply(f"{name}.kept", gate["f"], c)
        c = net.add(f"{name}.cell", kept, net.multiply(f"{name}.new", gate["i"], gate["g"]))
        return net.multiply(name, gate["o"], net.builder.op("tanh", f"{name}.tanh", (c,))), c

    return Cell(4, step)


def gru(order: str = "rzn") -> Cell:
    """GRU cell as in cuDNN (Cho et al., 2014); gates in the given order."""

    def step(net: Network, name: str, x: str, product: str, h: str, c: str) -> tuple[str, str]:
        hidden = net.shape(h)[1]

        def gate(letter: str) -> tuple[str, str]:
            start = order.index(letter) * hidden
            first, second = (
                net.part(f"{name}.gate", part, 1, start, hidden) for part in (x, product)
            )
            return first, second

        r, z = (
            net.builder.op("sigmoid", f"{name}.sigmoid", (net.add(f"{name}.gates", *gate(i)),))
            for i in "rz"
        )
        new_x, new_h = gate("n")
        new = net.add(f"{name}.new", new_x, net.multiply(f"{name}.reset", r, new_h))
        n = net.builder.op("tanh", f"{name}.tanh", (new,))
        change = net.add(f"{name}.change", h, net.scale(f"{name}.negative", n, -1.0))
        return net.add(name, n, net.multiply(f"{name}.kept", z, change)), c

    return Cell(3, step)


def plain(kind: str) -> Cell:
    """Plain recurrent cell (Elman, 1990): h = f(x W + h U), where f is tanh or ReLU."""

    def step(net: Network, name: str, x: str, product: str, h: str, c: str) -> tuple[str, str]:
        return net.builder.op(kind, name, (net.add(f"{name}.sum", x, product),)), c

    return Cell(1, step)
