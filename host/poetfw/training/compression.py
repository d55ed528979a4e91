# SPDX-License-Identifier: Apache-2.0
"""Compression of activations that wait for the backward pass.

Exact (Jain et al., Gist, ISCA 2018, section 3): ReLU's gradient needs one bit of each element of
its output, and max pooling's the index of each window's maximum. If no other gradient reads an
activation, these replace it, and results are bit-identical.

As float16: the backward pass reads an activation rounded to halves. Only gradients lose precision,
as the forward pass reads the activation itself. Vectors and statistics remain floats.

Conversions are ops of the training step. So a plan may keep a compressed tensor, page it, or
recompute it, as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from poetfw.common.option_values import FLOAT16_FORM
from poetfw.ir import Attribute, Dtype, FreshNames, Graph, Op, Role, Tensor
from poetfw.ops import infer_output, kind_of
from poetfw.training.program import Program


@dataclass(frozen=True)
class _Form:
    """Smaller form of what a backward op reads of an activation.

    Attributes:
        made_by: operator with the activation as input and the small form as output.
        read_by: operator that replaces the backward op, with the small form as first input.
        needs_shape: True if `read_by` has the activation's shape as an attribute.
    """

    made_by: str
    read_by: str
    needs_shape: bool = False


_EXACT_FORMS: Mapping[str, _Form] = {
    "relu_backward": _Form("relu_mask", "relu_masked_backward"),
    "relu6_backward": _Form("relu6_mask", "relu_masked_backward"),
    "max_pool2d_backward": _Form("max_pool2d_indices", "max_pool2d_indexed_backward", True),
}
"""Exact forms, by the backward op whose first input is the activation."""


def compress_activations(program: Program, form: str) -> Program:
    """Replace activations that wait for the backward pass by smaller forms.

    Args:
        program: a program in any order of ops.
        form: a member of `poetfw.common.option_values.STORED_FORMS`; float16 includes exact forms,
            which are smaller.
    """
    graph = program.training
    for tensor in graph.tensors:
        if _is_whole_activation(tensor, graph):
            graph = _exactly(graph, tensor) or (
                _as_halves(graph, tensor) if form == FLOAT16_FORM else graph
            )
    return replace(program, training=graph)


def _is_whole_activation(tensor: Tensor, graph: Graph) -> bool:
    """True for the output of a forward op in floats that no other tensor is a window of."""
    return (
        tensor.role is Role.ACTIVATION
        and tensor.dtype is Dtype.F32
        and tensor.name in graph.producer
        and tensor.base is None
        and not any(window.base == tensor.name for window in graph.windows)
    )


def _waiting(graph: Graph, tensor: Tensor) -> list[Op]:
    """Backward ops that read a tensor."""
    return [op for op in graph.consumers.get(tensor.name, ()) if op.backward]


def _exactly(graph: Graph, tensor: Tensor) -> Graph | None:
    """The graph with exact forms of an activation; None if they are not enough, or not smaller."""
    readers = _waiting(graph, tensor)
    if not readers or not all(
        op.kind in _EXACT_FORMS and op.inputs.index(tensor.name) == 0 for op in readers
    ):
        return None
    made: dict[tuple[str, tuple[tuple[str, Attribute], ...]], Op] = {}
    insert, become = _Inserter(graph), dict[str, Op]()
    for op in readers:
        form = _EXACT_FORMS[op.kind]
        key = (form.made_by, tuple(sorted(op.attributes.items())))
        if key not in made:
            made[key] = insert.after(
                graph.producer[tensor.name], form.made_by, tensor.name, op.attributes
            )
        attributes = {**op.attributes, **({"shape": tensor.shape} if form.needs_shape else {})}
        inputs = (made[key].output or "", *op.inputs[1:])
        become[op.name] = replace(op, kind=form.read_by, inputs=inputs, attributes=attributes)
    if insert.size_bytes >= tensor.size_bytes:
        return None
    return insert.graph(become)


def _as_halves(graph: Graph, tensor: Tensor) -> Graph:
    """The graph whose backward pass reads an activation in halves.

    A vector and statistics remain floats: they are small, and gradients divide by a variance.
    """
    readers, producer = _waiting(graph, tensor), graph.producer[tensor.name]
    if not readers or len(tensor.shape) < 2 or kind_of(producer).summarizes:
        return graph
    insert = _Inserter(graph)
    halves = insert.after(producer, "to_halves", tensor.name, {})
    again = insert.before(readers[0], "from_halves", halves.output or "", {"shape": tensor.shape})
    return insert.graph(
        {
            op.name: replace(
                op,
                inputs=tuple(again.output or "" if n == tensor.name else n for n in op.inputs),
            )
            for op in readers
        }
    )


class _Inserter:
    """Insertion of ops with one input into a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors = {tensor.name: tensor for tensor in graph.tensors}
        self._op_names = {op.name for op in graph.ops}
        self._fresh_ops, self._fresh_tensors = FreshNames(), FreshNames()
        self._after: dict[str, list[Op]] = {}
        self._before: dict[str, list[Op]] = {}
        self.size_bytes = 0
        """Size of all outputs of inserted ops."""

    def after(self, op: Op, kind: str, source: str, attributes: Mapping[str, Attribute]) -> Op:
        """Insert an op of the forward pass behind another one."""
        made = self._make(kind, source, attributes, backward=False)
        self._after.setdefault(op.name, []).append(made)
        return made

    def before(self, op: Op, kind: str, source: str, attributes: Mapping[str, Attribute]) -> Op:
        """Insert an op of the backward pass before another one."""
        made = self._make(kind, source, attributes, backward=True)
        self._before.setdefault(op.name, []).append(made)
        return made

    def _make(
        self, kind: str, source: str, attributes: Mapping[str, Attribute], *, backward: bool
    ) -> Op:
        name = self._fresh_ops.fresh(f"{source}.{kind}", self._op_names)
        self._op_names.add(name)
        output = self._fresh_tensors.fresh(name, self._tensors)
        op = Op(name, kind, (source,), output, attributes, backward=backward)
        tensor = infer_output(op, [self._tensors[source]], Role.ACTIVATION)
        assert tensor is not None
        self._tensors[output] = tensor
        self.size_bytes += tensor.size_bytes
        return op

    def graph(self, become: Mapping[str, Op]) -> Graph:
        """The graph with the inserted ops, and with ops replaced by name."""
        ops = [
            each
            for op in self._graph.ops
            for each in (
                *self._before.get(op.name, ()),
                become.get(op.name, op),
                *self._after.get(op.name, ()),
            )
        ]
        return replace(self._graph, tensors=tuple(self._tensors.values()), ops=tuple(ops))
