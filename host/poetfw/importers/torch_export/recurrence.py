# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, unrolled: each step is ops of its own, and all share the layer's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value

Step = Callable[[str, str, str, str, str], tuple[str, str]]
"""From a name, the input times its weights, h times its weights, h and c to the next h and c."""


@dataclass(frozen=True)
class Recurrence:
    """Layers of cells that look at a sequence step by step, from a state of zeros.

    Attributes:
        call: the call of the operator.
        params: of each layer and direction: weights of input and of h, and their biases.
        has_biases: whether there are biases.
        layers: how many layers.
        bidirectional: whether each also looks at the sequence backwards.
        batch_first: whether sequences are [N, T, F], not [T, N, F].
        gates: by how much wider than h the weights' products are.
    """

    call: Call
    params: Sequence[Value]
    has_biases: bool
    layers: int
    bidirectional: bool
    batch_first: bool
    gates: int

    def run(self, x: str, step: Step) -> str:
        """The states h at all steps, [N, T, H], or [T, N, H]; H twice where bidirectional."""
        net, name = self.call.net, self.call.name
        if len(net.shape(x)) != 3:
            raise UnsupportedError("its input is no batch of sequences")
        directions = 2 if self.bidirectional else 1
        each = 4 if self.has_biases else 2
        if len(self.params) != self.layers * directions * each:
            raise UnsupportedError(f"it has {len(self.params)} weights")
        for layer in range(self.layers):
            both = []
            for direction in range(directions):
                first = (layer * directions + direction) * each
                weights = [self.call.tensor(value) for value in self.params[first : first + each]]
                label = f"{name}.{layer}{'r' * direction}"
                both.append(self._layer(label, x, weights, step, backwards=direction == 1))
            x = net.concat(name, both, 2)
        return x

    def _layer(
        self, name: str, x: str, weights: Sequence[str], step: Step, *, backwards: bool
    ) -> str:
        net = self.call.net
        time, batch = (1, 0) if self.batch_first else (0, 1)
        shape = net.shape(x)
        hidden = net.shape(weights[1])[1]
        if net.shape(weights[1])[0] != self.gates * hidden:
            raise UnsupportedError("its state is projected, which poetfw has not")
        w_x, w_h, *biases = weights
        b_x, b_h = biases if biases else (None, None)
        wide = net.linear(f"{name}.input", x, w_x, b_x)
        h = c = net.constant(f"{name}.start", np.zeros((shape[batch], hidden), np.float32))
        states = [""] * shape[time]
        for t in reversed(range(shape[time])) if backwards else range(shape[time]):
            at = f"{name}.{t}"
            now = net.part(f"{at}.x", wide, time, t, 1)
            now = net.reshape(f"{at}.x", now, (shape[batch], self.gates * hidden))
            h, c = step(f"{at}.h", now, net.linear(f"{at}.product", h, w_h, b_h), h, c)
            one = [shape[batch], shape[batch], hidden]
            one[time] = 1
            states[t] = net.reshape(f"{at}.state", h, one)
        return net.concat(name, states, time)
