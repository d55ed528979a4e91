"""Read-only views: reshapes moved to where they need no bytes of their own.

A reshape takes over its input's RAM where nothing reads the input afterwards. Behind an activation
something does: the activation's gradient is taken from its output. Before the activation nothing
does, and because an activation does not care for shapes, it comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poetfw.ir import Graph, Op, Tensor
from poetfw.ops import kind_of


def hoist_views(graph: Graph) -> Graph:
    """The graph with each view of an activation's output moved in front of the activation.

    Only where nothing else reads that output; ops and tensors keep their names.
    """
    while pair := next(_pairs(graph), None):
        graph = _swap(graph, *pair)
    return graph


def _pairs(graph: Graph) -> Iterator[tuple[Op, Op]]:
    """The activations whose output only a view reads, each with that view."""
    for view in graph.ops:
        if kind_of(view).view and (activation := graph.producer.get(view.inputs[0])):
            alone = graph.consumers[view.inputs[0]] == (view,) and activation.output != graph.output
            if kind_of(activation).pointwise and alone:
                yield activation, view


def _swap(graph: Graph, activation: Op, view: Op) -> Graph:
    """The graph with two neighbours in the other order; the activation's output is now the last."""
    assert activation.output is not None
    assert view.output is not None
    last = {view.output: activation.output}
    ops: list[Op] = []
    for op in graph.ops:
        if op == activation:
            ops.append(replace(view, inputs=activation.inputs))
            ops.append(replace(activation, inputs=(view.output,)))
        elif op != view:
            ops.append(replace(op, inputs=tuple(last.get(name, name) for name in op.inputs)))
    tensors: list[Tensor] = []
    seen = graph.by_name[view.output]
    for tensor in graph.tensors:
        if tensor.name == activation.output:
            tensors += [seen, replace(tensor, shape=seen.shape)]
        elif tensor != seen:
            tensors.append(tensor)
    output = last.get(graph.output, graph.output)
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops), output=output)
