# SPDX-License-Identifier: Apache-2.0
"""Folding of frozen batch norms and padding into adjacent frozen layers, and of slices of tables.

A batch norm in evaluation mode is an affine map of each channel. Before or after a convolution or a
linear layer with frozen weights, it is absorbed by weights and bias (Jacob et al., CVPR 2018,
section 3.2). Zero padding of a frozen convolution's input becomes the convolution's own padding.
Of a frozen tensor that is only sliced, such as a table of positions, only the slice is left.
Results differ by rounding only: values are calculated in float64 and rounded once. Trained layers,
and batch norms with batch statistics, are not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from poetfw.ir import FreshNames, Graph, Op, Role, Tensor
from poetfw.ops import Array, kind_of

_LAYERS = ("conv2d", "linear")
"""Ops with an input, weights [O, ...] and maybe a bias [O], whose output has channels on axis 1."""


@dataclass
class Folded:
    """State of the folding of a graph.

    Attributes:
        graph: the graph so far.
        made: values of new tensors that replace frozen ones, by name.
    """

    graph: Graph
    _values: Mapping[str, Array]
    _frozen: Collection[str]
    made: dict[str, Array] = field(default_factory=dict)
    _names: FreshNames = field(default_factory=FreshNames)

    def value(self, name: str) -> Array:
        """Value of a frozen tensor, in float64."""
        return np.asarray(self.made.get(name, self._values.get(name)), np.float64)

    def is_frozen(self, *names: str) -> bool:
        """True if training changes none of these tensors."""
        return all(self._is_frozen(name) for name in names)

    def _is_frozen(self, name: str) -> bool:
        role = self.graph.by_name[name].role
        if name in self.made or (role is Role.PARAMETER and name in self._frozen):
            return True
        readers = self.graph.consumers[name]
        return role is Role.STATE and all(_is_fixed_norm(op) for op in readers)

    def replace_layer(
        self, layer: Op, gone: Iterable[Op], x: str, output: str, w: Array, b: Array
    ) -> None:
        """Replace a layer and ops around it by a layer with other weights."""
        made = [
            self._add(f"{layer.inputs[1]} folded", w),
            self._add(f"{layer.output} bias folded", b),
        ]
        self.replace_op(
            replace(layer, inputs=(x, *(t.name for t in made)), output=output), layer, gone, made
        )

    def replace_op(
        self, new: Op, old: Op, gone: Iterable[Op], tensors: Iterable[Tensor] = ()
    ) -> None:
        """Replace an op, remove others, and add the tensors that the new op reads."""
        names = {op.name for op in gone}
        ops = tuple(new if op == old else op for op in self.graph.ops if op.name not in names)
        self._become((*tensors, *self.graph.tensors), ops)

    def _become(self, tensors: Iterable[Tensor], ops: tuple[Op, ...]) -> None:
        """Take these ops, and those of the tensors that they use or a batch has."""
        used = {name for op in ops for name in (*op.inputs, *op.updates, op.output)}
        kept = (t for t in tensors if t.name in used or t.role in (Role.INPUT, Role.LABEL))
        self.graph = replace(self.graph, tensors=tuple(kept), ops=ops)

    def replace_output(self, op: Op, values: Array) -> None:
        """Remove an op whose output has known values."""
        self.made[op.output or ""] = values.astype(np.float32)
        tensors = (
            replace(tensor, role=Role.STATE) if tensor.name == op.output else tensor
            for tensor in self.graph.tensors
        )
        self._become(tensors, tuple(each for each in self.graph.ops if each != op))

    def _add(self, name: str, values: Array) -> Tensor:
        fresh = self._names.fresh(name, self.graph.by_name, self.made)
        self.made[fresh] = values.astype(np.float32)
        return Tensor(fresh, values.shape, role=Role.STATE)


def fold(
    graph: Graph, values: Mapping[str, Array], frozen: Collection[str]
) -> tuple[Graph, Mapping[str, Array]]:
    """Fold frozen batch norms and padding into frozen layers.

    Args:
        graph: inference graph.
        values: values of its persistent tensors.
        frozen: names of the frozen parameters.

    Returns:
        The graph, and the values of its new tensors, which have the role `STATE`.
    """
    folded = Folded(graph, values, frozen)
    while any(rule(folded, op) for op in folded.graph.ops for rule in _RULES):
        pass
    left = folded.graph.by_name
    return folded.graph, {name: value for name, value in folded.made.items() if name in left}


def _is_fixed_norm(op: Op) -> bool:
    return op.kind == "batch_norm" and bool(op.attributes.get("frozen"))


def _affine(folded: Folded, norm: Op) -> tuple[Array, Array] | None:
    """Scale and shift of each channel by a frozen batch norm; None for other ops."""
    if not _is_fixed_norm(norm) or not folded.is_frozen(*norm.inputs[1:]):
        return None
    (gamma, beta), (mean, variance) = map(folded.value, norm.inputs[1:])
    scale = gamma / np.sqrt(variance + norm.number("eps"))
    return scale, beta - mean * scale


def _is_frozen_layer(folded: Folded, op: Op | None) -> bool:
    return op is not None and op.kind in _LAYERS and folded.is_frozen(*op.inputs[1:])


def _weights(folded: Folded, layer: Op) -> tuple[Array, Array]:
    """Weights and bias of a frozen layer; zeros without a bias."""
    w, *bias = (folded.value(name) for name in layer.inputs[1:])
    return w, bias[0] if bias else np.zeros(len(w))


def _only_reader(graph: Graph, tensor: str | None) -> Op | None:
    """The only reader of a tensor; None if there are others, or for the network's output."""
    if tensor is None or tensor == graph.output or len(graph.consumers[tensor]) != 1:
        return None
    return graph.consumers[tensor][0]


def _fold_norm_behind(folded: Folded, norm: Op) -> bool:
    """Fold a batch norm into the frozen layer before it."""
    layer = folded.graph.producer.get(norm.inputs[0]) if norm.inputs else None
    affine = _affine(folded, norm)
    if layer is None or affine is None or not _is_frozen_layer(folded, layer):
        return False
    if _only_reader(folded.graph, layer.output) != norm:
        return False
    scale, shift = affine
    w, b = _weights(folded, layer)
    w = w * scale.reshape(-1, *(1,) * (w.ndim - 1))
    assert norm.output is not None
    folded.replace_layer(layer, [norm], layer.inputs[0], norm.output, w, b * scale + shift)
    return True


def _fold_norm_before(folded: Folded, norm: Op) -> bool:
    """Fold a batch norm into the frozen layer without padding that is its only reader."""
    affine = _affine(folded, norm)
    layer = _only_reader(folded.graph, norm.output)
    if affine is None or layer is None or not _is_frozen_layer(folded, layer):
        return False
    if layer.inputs[0] != norm.output or (
        "padding" in layer.attributes and any(layer.integers("padding"))
    ):
        return False  # zeros that are padded would not be what the batch norm makes of zeros
    w, b = _weights(folded, layer)
    groups = layer.integer("groups") if "groups" in layer.attributes else 1
    scale, shift = (  # of each output's own inputs, [O, I / groups, 1...]
        np.repeat(each.reshape(groups, -1), len(w) // groups, axis=0).reshape(
            *w.shape[:2], *(1,) * (w.ndim - 2)
        )
        for each in affine
    )
    shifted = (w * shift).sum(axis=tuple(range(1, w.ndim)))
    assert layer.output is not None
    folded.replace_layer(layer, [norm], norm.inputs[0], layer.output, w * scale, b + shifted)
    return True


def _fold_padding(folded: Folded, pad: Op) -> bool:
    """Fold zero padding into the frozen convolution that is its only reader."""
    graph = folded.graph
    conv = _only_reader(graph, pad.output)
    edges = _edges(graph, pad)
    if edges is None or conv is None or conv.kind != "conv2d":
        return False
    if conv.inputs[0] != pad.output or not _is_frozen_layer(folded, conv):
        return False
    padding = tuple(a + b for a, b in zip(conv.integers("padding"), edges, strict=True))
    height, width = graph.by_name[conv.inputs[1]].shape[2:]
    if max(padding[::2]) >= height or max(padding[1::2]) >= width:
        return False  # kernels expect each window to meet the image
    attributes = {**conv.attributes, "padding": padding}
    new = replace(conv, inputs=(pad.inputs[0], *conv.inputs[1:]), attributes=attributes)
    folded.replace_op(new, conv, [pad])
    return True


def _edges(graph: Graph, pad: Op) -> tuple[int, int, int, int] | None:
    """Rows and columns of zeros that an op adds to images: top, left, bottom, right."""
    if pad.kind != "put_strided" or pad.output is None:
        return None
    small, whole = graph.by_name[pad.inputs[0]].shape, graph.by_name[pad.output].shape
    if len(small) != 4 or len(whole) != 4 or small[:2] != whole[:2]:
        return None
    channels, height, width = whole[1:]
    if pad.integers("steps") != (channels * height * width, height * width, width, 1):
        return None
    top, left = divmod(pad.integer("offset"), width)
    bottom, right = height - top - small[2], width - left - small[3]
    return (top, left, bottom, right) if min(top, left, bottom, right) >= 0 else None


def _fold_slice(folded: Folded, op: Op) -> bool:
    """Slice a frozen tensor once and for all."""
    graph = folded.graph
    if op.kind != "slice" or op.output == graph.output or not folded.is_frozen(op.inputs[0]):
        return False
    (values,) = kind_of(op).results(op, [folded.value(op.inputs[0])], [])
    folded.replace_output(op, values)
    return True


_RULES = (_fold_norm_behind, _fold_norm_before, _fold_padding, _fold_slice)
