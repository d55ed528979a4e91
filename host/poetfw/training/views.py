# SPDX-License-Identifier: Apache-2.0
"""Read-only views: reshapes and slices that need no bytes of their own.

A contiguous slice is a window on its input (NNTrainer's read-only view: Moon et al., ICSE-SEIP
2024, section 4.1): no op runs, and readers of the slice read the input.

A reshape takes over its input's RAM if nothing reads the input afterwards. After an activation,
the activation's gradient does. So a reshape is moved in front of the activation, which is
element-wise and gives the same values in either shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def open_windows(graph: Graph) -> Graph:
    """The graph with windows in place of the slices that are runs of their inputs' bytes.

    Reshapes of windows become windows, too. Slices of persistent tensors stay ops. So do slices
    that are together smaller than a tensor that would live longer for their sake.
    """
    windows: dict[str, Tensor] = {}
    ops: list[Op] = []
    for op in graph.ops:
        window = _window(op, graph, windows)
        if window is None:
            ops.append(op)
        else:
            windows[window.name] = window
    tensors = tuple(windows.get(tensor.name, tensor) for tensor in graph.tensors)
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _window(op: Op, graph: Graph, windows: Mapping[str, Tensor]) -> Tensor | None:
    """The op's output as a window on another tensor; None if it is to have bytes of its own."""
    offset_bytes = _offset_bytes(op, graph)
    if offset_bytes is None:
        return None
    assert op.output is not None
    x, y = windows.get(op.inputs[0]), graph.by_name[op.output]
    if x is not None:
        return replace(y, base=x.base, offset_bytes=x.offset_bytes + offset_bytes)
    if kind_of(op).view or not _pays(op, graph):
        return None
    return replace(y, base=op.inputs[0], offset_bytes=offset_bytes)


def _offset_bytes(op: Op, graph: Graph) -> int | None:
    """Offset in bytes of the op's output in its input; None if that is not transient."""
    if op.output is None or not op.inputs or not graph.by_name[op.inputs[0]].role.transient:
        return None
    return kind_of(op).offset_bytes(op, graph.by_name[op.inputs[0]])


def _pays(op: Op, graph: Graph) -> bool:
    """True if reading the input in place of the slice's output does not extend the input's life."""
    x = graph.by_name[op.inputs[0]]
    parts = [reader for reader in graph.consumers[x.name] if reader.kind == op.kind]
    if sum(graph.by_name[part.output or ""].size_bytes for part in parts) >= x.size_bytes:
        return True
    others = [graph.ops.index(r) for r in graph.consumers[x.name] if r.kind != op.kind]
    return bool(others) and _last_read(op, graph) <= max(others)


def _last_read(op: Op, graph: Graph) -> int:
    """The position of the last op that reads an op's output or a view of it."""
    readers = graph.consumers[op.output or ""]
    return max(
        (
            graph.ops.index(reader)
            if _offset_bytes(reader, graph) is None
            else _last_read(reader, graph)
            for reader in readers
        ),
        default=graph.ops.index(op),
    )
