# SPDX-License-Identifier: Apache-2.0
"""Rules of recurrent layers."""

from __future__ import annotations

from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.rules.registry import onnx_rule
from poetfw.importers.onnx.rules.shapes import BATCH
from poetfw.importers.onnx.values import Values
from poetfw.importers.recurrence import Cell, Direction, gru, lstm, plain, run_layers
from poetfw.importers.refusal import UnsupportedError


@onnx_rule("LSTM")
def _lstm(node: OnnxNode, values: Values) -> None:
    if node.has_input(7) or node.attributes.get("input_forget", 0):
        raise UnsupportedError("it has peepholes, or one gate for input and forget")
    _recurrent(node, values, lstm("iofg"), ["Sigmoid", "Tanh", "Tanh"])


@onnx_rule("GRU")
def _gru(node: OnnxNode, values: Values) -> None:
    node.expect("linear_before_reset", 0, 1)
    _recurrent(node, values, gru("zrn"), ["Sigmoid", "Tanh"])


@onnx_rule("RNN")
def _rnn(node: OnnxNode, values: Values) -> None:
    kinds = {"Tanh": "tanh", "Relu": "relu"}
    first = node.attributes.get("activations", [b"Tanh"])[0]
    name = first.decode() if isinstance(first, bytes) else first
    if name not in kinds:
        raise UnsupportedError(f"its activation is {name}")
    _recurrent(node, values, plain(kinds[name]), [name])


def _recurrent(node: OnnxNode, values: Values, cell: Cell, kinds: list[str]) -> None:
    """Bind Y [T, directions, N, H] and the last h and c [directions, N, H] of a layer."""
    net, name = values.net, node.name
    x = values.tensor(node.inputs[0])
    count = {"forward": 1, "bidirectional": 2}.get(node.attributes.get("direction", "forward"))
    given = [
        k.decode() if isinstance(k, bytes) else k for k in node.attributes.get("activations", [])
    ]
    if count is None or "clip" in node.attributes or node.has_input(4):
        raise UnsupportedError(
            "it runs backwards only, is clipped, or has sequences of many lengths"
        )
    if node.attributes.get("layout", 0) or given not in ([], kinds * count):
        raise UnsupportedError("it has the batch first, or activations of its own")
    if values.has_batch(x):
        raise UnsupportedError(f"its batch is axis 1: {BATCH}")
    weights = [values.weight(node.inputs[1]), values.weight(node.inputs[2])]
    both = values.weight(node.inputs[3]) if node.has_input(3) else None

    def part(tensor: str, index: int) -> str:
        one = net.part(name, tensor, 0, index, 1)
        return net.reshape(name, one, net.shape(tensor)[1:])

    def start(position: int, index: int) -> str | None:
        if not node.has_input(position):
            return None
        state = node.inputs[position]
        if values.is_fixed(state):
            if not values.floats(state).any():
                return None
            return part(net.constant(state, values.floats(state)), index)
        return part(values.weight(state), index)

    directions = []
    for index in range(count):
        biases = None
        if both is not None:
            row = part(both, index)
            half = net.shape(row)[0] // 2
            biases = (net.part(name, row, 0, 0, half), net.part(name, row, 0, half, half))
        w_x, w_h = (part(weight, index) for weight in weights)
        c = start(6, index) if cell.gates == 4 else None
        directions.append(Direction((w_x, w_h), biases, start(5, index), c))
    states = run_layers(net, name, cell, x, [directions], batch_first=False)
    time, batch, wide = net.shape(states.sequence)
    seen = net.reshape(name, states.sequence, (time, batch, count, wide // count))
    results = (net.permute(name, seen, (0, 2, 1, 3)), states.h, states.c)
    for output, result in zip(node.outputs, results, strict=False):
        if output:
            values.bind(output, result)
