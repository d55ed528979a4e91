# SPDX-License-Identifier: Apache-2.0
"""Packing of frozen weights in formats that take less flash than floats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from poetfw.ir import Attribute, Dtype, FreshNames, Graph, Op, Role, Tensor
from poetfw.ops import Array
from poetfw.ops.packed import PACKED, pack, words_shape
from poetfw.training.program import Program


@dataclass(frozen=True)
class _Packed:
    """Names of the tensors that replace a weight: words and, for int8, scales."""

    words: str
    scales: str | None = None


def pack_constants(
    program: Program, values: Mapping[str, Array], parameters: Collection[str], form: str
) -> Program:
    """Pack the frozen weights of convolutions and linear layers.

    Weights that other ops read, vectors (biases and batch norms), and constants that are not
    parameters, such as an interpolation matrix, remain floats. Op order does not change; results
    are those of the weights rounded to the format.

    Args:
        program: program with constants in floats.
        values: values of the model's constants, by name.
        parameters: names of the model's parameters.
        form: a member of `poetfw.ops.packed.FORMATS`.

    Raises:
        ModelError: A weight does not fit the format.
    """
    weights = {*parameters, *program.made}
    graphs = (program.training, program.evaluation)
    names, taken = FreshNames(), {t.name for graph in graphs for t in graph.tensors}
    made, packed = dict(program.made), dict[str, _Packed]()
    for tensor in program.constants:
        if tensor.name not in weights or not _is_packable(program, tensor):
            continue
        value = made.pop(tensor.name) if tensor.name in made else values[tensor.name]
        words, scales = pack(tensor.name, value, form)
        into = _Packed(names.fresh(f"{tensor.name} as {form}", taken, made))
        made[into.words] = words
        if scales is not None:
            into = _Packed(into.words, names.fresh(f"{tensor.name} scales", taken, made))
            made[into.scales or ""] = scales
        packed[tensor.name] = into
    training, evaluation = (_pack(graph, packed, form) for graph in graphs)
    return replace(program, training=training, evaluation=evaluation, made=made)


def _is_packable(program: Program, tensor: Tensor) -> bool:
    """True if a tensor is read only as the weights of layers."""
    if len(tensor.shape) < 2 or tensor.dtype is not Dtype.F32:
        return False
    return all(
        op.kind in PACKED and _places(op, tensor.name) == [PACKED[op.kind][1]]
        for graph in (program.training, program.evaluation)
        for op in graph.consumers.get(tensor.name, ())
    )


def _places(op: Op, name: str) -> list[int]:
    return [place for place, each in enumerate(op.inputs) if each == name]


def _pack(graph: Graph, packed: Mapping[str, _Packed], form: str) -> Graph:
    """Replace constants in a graph by words and scales."""
    tensors: list[Tensor] = []
    for tensor in graph.tensors:
        if tensor.name not in packed:
            tensors.append(tensor)
            continue
        into = packed[tensor.name]
        shape = words_shape(tensor.shape, form)
        tensors.append(Tensor(into.words, shape, Dtype.I32, Role.CONSTANT))
        if into.scales is not None:
            tensors.append(Tensor(into.scales, tensor.shape[:1], role=Role.CONSTANT))
    ops = tuple(_pack_op(op, graph, packed, form) for op in graph.ops)
    return replace(graph, tensors=tuple(tensors), ops=ops)


def _pack_op(op: Op, graph: Graph, packed: Mapping[str, _Packed], form: str) -> Op:
    name = next((name for name in op.inputs if name in packed), None)
    if name is None:
        return op
    into = packed[name]
    inputs = [into.words if each == name else each for each in op.inputs]
    if into.scales is not None:
        inputs.append(into.scales)
    attributes: dict[str, Attribute] = {
        **op.attributes,
        "weight_shape": graph.by_name[name].shape,
        "format": form,
    }
    kind, _ = PACKED[op.kind]
    return replace(op, kind=kind, inputs=tuple(inputs), attributes=attributes)
