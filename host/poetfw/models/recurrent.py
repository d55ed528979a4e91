# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks that read a sequence step by step; built-in ones, the rows of the digits.

The loop is unrolled: each time step has ops of its own, which share the layer's weights. Cells,
gate order and both biases are those of PyTorch's `nn.LSTM` and `nn.GRU`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from poetfw.models.builder import MOST_OPS
from poetfw.models.layers import Layers
from poetfw.models.model import Model
from poetfw.models.weights import Initializer, normal
from poetfw.training import Sgd

_STEPS, _FEATURES, _HIDDEN = 8, 8, 32

Cell = Callable[[Layers, str, str, str, str, str], tuple[str, str]]
"""Cell function: from (layers, name, W·x + b, U·h + b, h, c) to the next (h, c)."""


def lstm(batch: int, seed: int) -> Model:
    """One layer of 32 LSTM cells (Hochreiter and Schmidhuber, 1997; Gers et al., 2000)."""
    return recurrent("lstm", _described("LSTM"), 4, lstm_cell, batch, seed)


def gru(batch: int, seed: int) -> Model:
    """One layer of 32 gated recurrent units (Cho et al., 2014)."""
    return recurrent("gru", _described("GRU"), 3, _gru_cell, batch, seed)


def _described(cell: str) -> str:
    return f"{cell} of {_HIDDEN} that reads 8 x 8 handwritten digits row by row"


def recurrent(
    name: str,
    description: str,
    gates: int,
    cell: Cell,
    batch: int,
    seed: int,
    *,
    steps: int = _STEPS,
    most_ops: int = MOST_OPS,
) -> Model:
    """One layer of 32 cells that reads `steps` rows of 8 features, and a classifier of its end.

    Args:
        name: of the model.
        description: of the model.
        gates: number of sums in a cell; its weights have 32 rows for each.
        cell: function that appends the ops of one time step.
        batch: batch size.
        seed: seed of the initial weights.
        steps: time steps.
        most_ops: limit on the number of ops; see `GraphBuilder`.
    """
    layers = Layers(name, (batch, steps, _FEATURES), seed, weight=_weight, most_ops=most_ops)
    w_x = layers.weight("rnn.weight_ih", (gates * _HIDDEN, _FEATURES))
    w_h = layers.weight("rnn.weight_hh", (gates * _HIDDEN, _HIDDEN))
    b_x, b_h = (layers.bias(f"rnn.bias_{which}", gates * _HIDDEN) for which in ("ih", "hh"))
    h = c = layers.constant_zeros("rnn.start", batch, _HIDDEN)
    for step in range(steps):
        at = f"rnn.{step}"
        row = layers.flatten(f"{at}.row", layers.part(f"{at}.rows", layers.input, 1, step))
        wx = layers.op("linear", f"{at}.input", (row, w_x, b_x))
        uh = layers.op("linear", f"{at}.state", (h, w_h, b_h))
        h, c = cell(layers, at, wx, uh, h, c)
    return Model(
        *layers.build(layers.linear("logits", h, 10)),
        loss="softmax_cross_entropy",
        description=description,
        optimizer=Sgd(learning_rate=0.1, momentum=0.9),
        epochs=10,
    )


def _weight(shape: tuple[int, ...]) -> Initializer:
    """Normal with variance 1 / fan_in, which keeps the variance before sigmoid and tanh."""
    return normal(shape, 1 / math.sqrt(shape[1]))


def _gate(layers: Layers, name: str, x: str, index: int) -> str:
    return layers.part(name, x, 1, index * _HIDDEN, _HIDDEN)


def lstm_cell(layers: Layers, name: str, wx: str, uh: str, h: str, c: str) -> tuple[str, str]:
    """LSTM cell; gate order i, f, g, o: c' = f·c + i·g and h' = o·tanh(c')."""
    total = layers.add(f"{name}.gates", wx, uh)
    i, f, g, o = (
        layers.op(kind, f"{name}.{gate}", (_gate(layers, f"{name}.{gate}.sum", total, index),))
        for index, (gate, kind) in enumerate(
            (("i", "sigmoid"), ("f", "sigmoid"), ("g", "tanh"), ("o", "sigmoid"))
        )
    )
    kept = layers.op("multiply", f"{name}.kept", (f, c))
    c = layers.add(f"{name}.c", kept, layers.op("multiply", f"{name}.new", (i, g)))
    return layers.op("multiply", f"{name}.h", (o, layers.op("tanh", f"{name}.tanh", (c,)))), c


def _gru_cell(layers: Layers, name: str, wx: str, uh: str, h: str, c: str) -> tuple[str, str]:
    """GRU cell; gate order r, z, n: n = tanh(Wx + r·Uh) and h' = n + z·(h - n)."""

    def both(gate: str, index: int) -> tuple[str, str]:
        x = _gate(layers, f"{name}.{gate}.input", wx, index)
        return x, _gate(layers, f"{name}.{gate}.state", uh, index)

    r, z = (
        layers.op("sigmoid", f"{name}.{gate}", (layers.add(f"{name}.{gate}.sum", *both(gate, i)),))
        for i, gate in enumerate(("r", "z"))
    )
    new_x, new_h = both("n", 2)
    reset = layers.op("multiply", f"{name}.reset", (r, new_h))
    n = layers.op("tanh", f"{name}.n", (layers.add(f"{name}.n.sum", new_x, reset),))
    minus = layers.op("scale", f"{name}.minus", (n,), {"factor": -1.0})
    change = layers.add(f"{name}.change", h, minus)
    return layers.add(f"{name}.h", n, layers.op("multiply", f"{name}.kept", (z, change))), c
