# SPDX-License-Identifier: Apache-2.0
"""Storing of tensors: activations and gradients lie in storage, and ops on them run in pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops import kind_of, streamed_kind
from poetfw.ops.base import KINDS
from poetfw.ops.layouts import image_of
from poetfw.ops.nests import AxisSpan, image_part, op_axes, results_of
from poetfw.ops.pieces import pieced_name
from poetfw.training.program import Program

Chooser = Callable[[Op, Mapping[str, Tensor], int], Op]
"""Chooses the pieces of an op, given its tensors, some of which are stored, and the bytes of others
that have to stay in RAM meanwhile."""


def storable_tensors(graph: Graph) -> tuple[Tensor, ...]:
    """Tensors of a step that can be stored: those whose ops all run in pieces.

    What sees their bytes in another shape, or a part of them, lies along their image.
    """
    roots = _roots(graph)
    left_out = {roots.get(graph.output, graph.output)}
    for op in graph.ops:
        if not kind_of(op).view and pieced_name(op.kind) not in KINDS:
            left_out |= {roots.get(name, name) for name in (*op.inputs, op.output or "")}
    layers = _seen_by_layers(graph)
    for name, root in roots.items():
        view, whole = graph.by_name[name], graph.by_name[root]
        if name != root and not _lies_along(view, whole, by_channels=name in layers):
            left_out.add(root)
    return tuple(
        tensor
        for tensor in graph.tensors
        if roots.get(tensor.name) == tensor.name
        and tensor.role.transient
        and tensor.dtype is Dtype.F32
        and tensor.name not in left_out
    )


def with_windows(graph: Graph, stored: Collection[str]) -> Graph:
    """The graph in which no op sees a stored tensor in another shape: that is a window of it.

    Args:
        graph: a graph.
        stored: names of the tensors that are to be stored.
    """
    windows = {window.name: window for window in graph.windows}
    ops = []
    for op in graph.ops:
        name = op.inputs[0] if op.inputs else ""
        base = windows[name].base if name in windows else name
        if not kind_of(op).view or base not in stored:
            ops.append(op)
            continue
        offset_bytes = windows[name].offset_bytes if name in windows else 0
        output = graph.by_name[op.output or ""]
        windows[output.name] = replace(output, base=base, offset_bytes=offset_bytes)
        for each in graph.windows:
            if each.base == output.name:  # what a window shows has become a window itself
                windows[each.name] = replace(
                    each, base=base, offset_bytes=offset_bytes + each.offset_bytes
                )
    tensors = tuple(windows.get(tensor.name, tensor) for tensor in graph.tensors)
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _roots(graph: Graph) -> dict[str, str]:
    """Tensor whose bytes each tensor has that an op computes: itself, if these are its own."""
    roots: dict[str, str] = {}
    windows: dict[str, list[str]] = {}
    for window in graph.windows:
        windows.setdefault(window.base or "", []).append(window.name)
    for op in graph.ops:
        if op.output is not None:
            root = roots.get(op.inputs[0]) if kind_of(op).view else op.output
            if root is not None:
                roots[op.output] = root
                roots |= dict.fromkeys(windows.get(op.output, ()), root)
    return roots


def _seen_by_layers(graph: Graph) -> set[str]:
    """Names of the tensors that ops see which can be cut along their channels or features."""
    found = set()
    for op in graph.ops:
        kind = streamed_kind(op)
        for plain in (op,) if kind is None else kind.plain(op):
            axes = op_axes(plain, graph.by_name)
            if axes is not None:
                names, letters = (*plain.inputs, *results_of(plain)), (*axes.inputs, *axes.results)
                seen = zip(names, letters, strict=True)
                found |= {name for name, each in seen if each[1:2] != "."}
    return found


def _lies_along(view: Tensor, root: Tensor, *, by_channels: bool) -> bool:
    """True if a view, and each of its channels or features if need be, is a part of an image."""
    stored = replace(view, base=root.name, tile=(1, 1), image=image_of(root.shape))
    whole = tuple(map(AxisSpan, view.shape))
    with suppress(ModelError):
        image_part(stored, whole)
        if by_channels and len(whole) in (2, 4):
            image_part(stored, (whole[0], AxisSpan(1), *whole[2:]))
        return True
    return False


def store(
    program: Program,
    chosen: Collection[str],
    tile_of: Callable[[Tensor], tuple[int, int]],
    pieces: Chooser,
) -> Program:
    """The program with stored tensors.

    Args:
        program: a program in which no tensor is stored.
        chosen: names of the tensors, each storable in the graphs that have it.
        tile_of: channels and rows of a tensor's tiles.
        pieces: chooses the pieces of each op on stored tensors.
    """
    training, evaluation = (
        with_windows(graph, chosen) for graph in (program.training, program.evaluation)
    )
    waiting = waiting_bytes(evaluation, chosen)
    return replace(
        program,
        training=_store(training, chosen, tile_of, pieces, {}),
        evaluation=_store(evaluation, chosen, tile_of, pieces, waiting),
    )


def waiting_bytes(graph: Graph, stored: Collection[str]) -> dict[str, int]:
    """For each op of an evaluation, bytes of tensors in RAM that later ops read, and it does not.

    An evaluation pages nothing. What training holds meanwhile is up to its schedule.
    """
    last = {name: op.name for op in graph.ops for name in graph.reads(op)}
    live: dict[str, int] = {}
    found = {}
    for op in graph.ops:
        reads = set(graph.reads(op))
        found[op.name] = sum(size for name, size in live.items() if name not in reads)
        live = {name: size for name, size in live.items() if last[name] != op.name}
        if op.output in last and op.output not in stored:
            live[op.output] = graph.by_name[op.output].size_bytes
    return found


def _store(
    graph: Graph,
    chosen: Collection[str],
    tile_of: Callable[[Tensor], tuple[int, int]],
    pieces: Chooser,
    waiting: Mapping[str, int],
) -> Graph:
    tensors = {
        tensor.name: in_storage(tensor, graph.by_name, chosen, tile_of) for tensor in graph.tensors
    }
    ops = tuple(
        pieces(op, tensors, waiting.get(op.name, 0))
        if any(name is not None and tensors[name].tile for name in (*op.inputs, op.output))
        else op
        for op in graph.ops
    )
    return replace(graph, tensors=tuple(tensors.values()), ops=ops)


def in_storage(
    tensor: Tensor,
    tensors: Mapping[str, Tensor],
    chosen: Collection[str],
    tile_of: Callable[[Tensor], tuple[int, int]],
) -> Tensor:
    """A tensor as it is stored, or a window of one; itself if it is not.

    Args:
        tensor: the tensor.
        tensors: all tensors by name.
        chosen: names of the stored ones.
        tile_of: channels and rows of a stored tensor's tiles.
    """
    root = tensors[tensor.base or tensor.name]
    if root.name not in chosen:
        return tensor
    return replace(tensor, tile=tile_of(root), image=image_of(root.shape))


def operands_in_storage(
    op: Op,
    tensors: Mapping[str, Tensor],
    chosen: Collection[str],
    tile_of: Callable[[Tensor], tuple[int, int]],
) -> dict[str, Tensor]:
    """An op's operands as `in_storage` has them, and the tensors that they are windows of."""
    found: dict[str, Tensor] = {}
    for name in (*op.inputs, *op.updates, *([op.output] if op.output is not None else [])):
        tensor = tensors[name]
        found[name] = in_storage(tensor, tensors, chosen, tile_of)
        if tensor.base is not None:
            found.setdefault(tensor.base, tensors[tensor.base])
    return found


def stored_tensors(program: Program) -> tuple[Tensor, ...]:
    """Stored tensors of both graphs, those of the training step first; windows are left out."""
    both = (*program.training.tensors, *program.evaluation.tensors)
    found = {tensor.name: tensor for tensor in both if tensor.tile and tensor.base is None}
    return tuple(found.values())
