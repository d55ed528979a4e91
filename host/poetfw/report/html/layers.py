# SPDX-License-Identifier: Apache-2.0
"""Layers of a training step: groups of ops, forward, backward and update, of one part of a network.

Ops are named after what they are derived from: `bn1.statistics`, `bn1.backward_input` and
`bn1.affine.update` belong to the forward op `bn1`.
"""

from __future__ import annotations

from collections.abc import Mapping

from poetfw.ir import Graph, Op

SHARED = "all layers"
"""Layer of ops that belong to no single one, such as clipping the norm of all gradients."""


def layers_of(graph: Graph) -> dict[str, str]:
    """Layer by op name, in the order of the ops; a layer has the name of its first forward op.

    Derived ops have no link to the op that they are derived from: the name decides, and for an op
    whose name belongs to no forward op, the parameter that it updates.
    """
    forward = {op.name for op in graph.ops if not op.backward}
    layers: dict[str, str] = {}
    for op in graph.ops:
        if not op.backward:
            layers[op.name] = _prefix(op.name, forward) or op.name
    for op in graph.ops:
        if op.backward:
            layers[op.name] = _prefix(op.name, forward) or _by_tensor(op, graph, layers) or SHARED
    return layers


def _prefix(name: str, known: set[str]) -> str | None:
    """Shortest known name that a name is, or that it begins with before a dot."""
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((prefix for prefix in prefixes if prefix in known), None)


def _by_tensor(op: Op, graph: Graph, layers: Mapping[str, str]) -> str | None:
    """Layer of the tensor that an op updates or is named after; None without any.

    A parameter belongs to the layer of the first forward op that reads it.
    """
    parts = op.name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    for name in (*op.updates[:1], *prefixes):
        if name not in graph.by_name:
            continue
        users = (graph.producer.get(name), *graph.consumers[name])
        for user in users:
            if user is not None and not user.backward:
                return layers[user.name]
    return None
