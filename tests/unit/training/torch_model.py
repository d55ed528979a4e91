# SPDX-License-Identifier: Apache-2.0
"""A model graph run and trained by PyTorch, written apart from poetfw's operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
import torch.nn.functional as functional

from poetfw.ir import Graph, Op, Role
from poetfw.training import Sgd


def torch_outputs(graph: Graph, values: Mapping[str, Any], x: Any) -> Any:
    """The network's outputs for a batch, in training mode."""
    live = dict(values)
    live[graph.with_role(Role.INPUT)[0].name] = torch.tensor(x)
    for op in graph.ops:
        live[str(op.output)] = _run(op, [live[name] for name in op.inputs])
    return live[graph.output]


def torch_step(
    graph: Graph,
    values: dict[str, Any],
    momenta: dict[str, Any],
    sgd: Sgd,
    x: Any,
    y: Any,
    frozen: Collection[str] = (),
) -> tuple[float, dict[str, Any]]:
    """One training step; updates `values` and `momenta`. Returns loss and gradients, unclipped."""
    trained = [t.name for t in graph.with_role(Role.PARAMETER) if t.name not in frozen]
    for name in trained:
        values[name] = values[name].detach().requires_grad_()
    loss = functional.cross_entropy(torch_outputs(graph, values, x), torch.tensor(y))
    loss.backward()
    gradients = {name: values[name].grad.clone() for name in trained}
    if sgd.clip_norm is not None:
        torch.nn.utils.clip_grad_norm_([values[name] for name in trained], sgd.clip_norm)
    with torch.no_grad():
        for name in trained:
            step = values[name].grad + sgd.weight_decay * values[name]
            momenta[name] = sgd.momentum * momenta.get(name, 0) + step
            values[name] = values[name] - sgd.learning_rate * momenta[name]
    return float(loss.detach()), {name: value.numpy() for name, value in gradients.items()}


def _run(op: Op, inputs: list[Any]) -> Any:
    if op.kind == "conv2d":
        top, left, bottom, right = op.integers("padding")
        padded = functional.pad(inputs[0], (left, right, top, bottom))
        bias = inputs[2] if len(inputs) == 3 else None
        stride, groups = op.integers("stride"), op.integer("groups")
        return functional.conv2d(padded, inputs[1], bias, stride, groups=groups)
    if op.kind == "linear":
        return functional.linear(*inputs)
    if op.kind == "batch_norm":
        x, affine, running = inputs
        momentum, eps = op.number("momentum"), op.number("eps")
        return functional.batch_norm(
            x, running[0], running[1], affine[0], affine[1], True, momentum, eps
        )
    if op.kind == "relu":
        return functional.relu(inputs[0])
    if op.kind == "max_pool2d":
        assert not any(op.integers("padding"))
        return functional.max_pool2d(inputs[0], op.integers("kernel"), op.integers("stride"))
    if op.kind == "avg_pool2d":
        assert not any(op.integers("padding"))
        return functional.avg_pool2d(inputs[0], op.integers("kernel"), op.integers("stride"))
    if op.kind == "global_avg_pool":
        return inputs[0].mean((2, 3), keepdim=True)
    if op.kind == "add":
        return inputs[0] + inputs[1]
    assert op.kind == "reshape", op.kind
    return inputs[0].reshape(op.integers("shape"))
