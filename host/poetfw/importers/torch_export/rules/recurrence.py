# SPDX-License-Identifier: Apache-2.0
"""Rules of attention and recurrent layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poetfw.importers.network import HIDDEN
from poetfw.importers.recurrence import Cell, Direction, gru, lstm, plain, run_layers
from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Live, Result, Value
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.layers import bias_of, in_training
from poetfw.importers.torch_export.rules.registry import aten


@aten("scaled_dot_product_attention.default")
def _attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    if enable_gqa:
        raise UnsupportedError("it has groups of queries")
    net, name = call.net, call.name
    shape = call.shape(query)
    factor = 1 / math.sqrt(shape[-1]) if scale is None else scale
    q = net.scale(f"{name}.scale", call.tensor(query), factor)
    k = call.tensor(key)
    axes = list(range(len(net.shape(k))))
    axes[-2:] = axes[-1], axes[-2]
    scores = net.matmul(f"{name}.scores", q, net.permute(f"{name}.key", k, axes))
    if is_causal:
        rows, columns = net.shape(scores)[-2:]
        mask = np.where(np.tril(np.ones((rows, columns))), 0, HIDDEN).astype(np.float32)
        scores = net.add(f"{name}.mask", scores, net.constant(f"{name}.causal", mask))
    if attn_mask is not None:
        scores = net.add(f"{name}.mask", scores, call.tensor(_additive(attn_mask)))
    shares = net.softmax(f"{name}.softmax", scores, len(axes) - 1)
    return net.matmul(name, net.dropout(f"{name}.dropout", shares, dropout_p), call.tensor(value))


def _additive(mask: Value) -> Value:
    """Additive attention mask; a boolean mask hides positions where it is false."""
    if isinstance(mask, Live) or mask.values.dtype != np.bool_:
        return mask
    return Weight((), np.where(mask.values, 0, HIDDEN).astype(np.float32))


@aten("lstm.input")
def _lstm(
    call: Call,
    input: Value,
    hx: tuple[Value, ...],
    params: tuple[Value, ...],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Result, ...]:
    layers = _Layers(params, has_biases, num_layers, bidirectional, hx)
    return layers.run(call, lstm(), input, batch_first, dropout, train)


def _with_one_state(target: str, cell: Cell) -> None:
    """Register the rule of a recurrent network whose cells have one state."""

    @aten(target)
    def rule(
        call: Call,
        input: Value,
        hx: Value,
        params: tuple[Value, ...],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Result, ...]:
        layers = _Layers(params, has_biases, num_layers, bidirectional, (hx,))
        return layers.run(call, cell, input, batch_first, dropout, train)[:2]


_with_one_state("gru.input", gru())
_with_one_state("rnn_tanh.input", plain("tanh"))
_with_one_state("rnn_relu.input", plain("relu"))


def _single(target: str, cell: Cell) -> None:
    """Register the rule of a cell that the author calls step by step."""

    @aten(target)
    def rule(
        call: Call,
        input: Value,
        hx: Value | tuple[Value, ...],
        w_ih: Value,
        w_hh: Value,
        b_ih: Value | None = None,
        b_hh: Value | None = None,
    ) -> Result | tuple[Result, ...]:
        net, name = call.net, call.name
        states = hx if isinstance(hx, tuple) else (hx,)
        h, *c = map(call.tensor, states)
        x = net.linear(f"{name}.input", call.tensor(input), call.tensor(w_ih), bias_of(call, b_ih))
        product = net.linear(f"{name}.product", h, call.tensor(w_hh), bias_of(call, b_hh))
        both = cell.step(net, name, x, product, h, c[0] if c else h)
        return both if c else both[0]


_single("lstm_cell.default", lstm())
_single("gru_cell.default", gru())
_single("rnn_tanh_cell.default", plain("tanh"))
_single("rnn_relu_cell.default", plain("relu"))


@dataclass(frozen=True)
class _Layers:
    """Arguments of a recurrent operator: weights and initial states by layer and direction."""

    params: tuple[Value, ...]
    has_biases: bool
    layers: int
    bidirectional: bool
    starts: tuple[Value, ...]

    def run(
        self, call: Call, cell: Cell, x: Value, batch_first: bool, dropout: float, train: bool
    ) -> tuple[Result, ...]:
        """Translate the layers; returns the sequence and the last h and c."""
        count, each = 2 if self.bidirectional else 1, 4 if self.has_biases else 2
        if len(self.params) != self.layers * count * each:
            raise UnsupportedError(f"it has {len(self.params)} weights")
        directions = [
            [self._direction(call, layer * count + i, each) for i in range(count)]
            for layer in range(self.layers)
        ]
        return run_layers(
            call.net,
            call.name,
            cell,
            call.tensor(x),
            directions,
            batch_first=batch_first,
            share=in_training(call, dropout, train) if self.layers > 1 else 0.0,
        )

    def _direction(self, call: Call, index: int, each: int) -> Direction:
        w_x, w_h, *biases = map(call.tensor, self.params[index * each : (index + 1) * each])
        both = (biases[0], biases[1]) if biases else None
        return Direction((w_x, w_h), both, *(self._start(call, s, index) for s in self.starts))

    def _start(self, call: Call, states: Value, index: int) -> str | None:
        if isinstance(states, Weight) and not states.names and not states.values.any():
            return None
        one = call.net.part(call.name, call.tensor(states), 0, index, 1)
        return call.net.reshape(call.name, one, call.shape(states)[1:])
