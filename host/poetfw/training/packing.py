# SPDX-License-Identifier: Apache-2.0
"""Packing: frozen weights of a program in a format that takes less flash than floats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops import Array
from poetfw.ops.packed import PACKED, pack, words_of
from poetfw.training.program import Program


def pack_constants(
    program: Program, values: Mapping[str, Array], parameters: Collection[str], form: str
) -> Program:
    """The program whose frozen weights of convolutions and linear layers are packed.

    Those that any other op reads stay floats, and so do vectors: biases and batch norms. A step's
    order is the same; results are those of the weights that the format stands for. Constants that
    are no parameters, such as the matrix of an interpolation, stay floats, too.

    Args:
        program: with constants in floats.
        values: of the constants that the program has not made.
        parameters: names of the model's parameters.
        form: a member of `poetfw.ops.packed.FORMATS`.

    Raises:
        ModelError: a weight does not fit the format.
    """
    weights = {*parameters, *program.made}
    names = [t.name for t in program.constants if t.name in weights and _is_packable(program, t)]
    made: dict[str, Array] = {}
    scaled: dict[str, str | None] = {}
    taken = {t.name for graph in (program.training, program.evaluation) for t in graph.tensors}
    for name in names:
        value = program.made[name] if name in program.made else values[name]
        made[_fresh(f"{name} as {form}", taken)], scales = pack(name, value, form)
        scaled[name] = None
        if scales is not None:
            scaled[name] = _fresh(f"{name} scales", taken)
            made[scaled[name] or ""] = scales
    kept = {name: value for name, value in program.made.items() if name not in scaled}
    packed = dict(
        zip(names, (name for name in made if made[name].dtype != np.float32), strict=True)
    )
    graphs = [
        _pack(graph, packed, scaled, form) for graph in (program.training, program.evaluation)
    ]
    return replace(program, training=graphs[0], evaluation=graphs[1], made={**kept, **made})


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _is_packable(program: Program, tensor: Tensor) -> bool:
    if len(tensor.shape) < 2 or tensor.dtype is not Dtype.F32:
        return False
    return all(
        op.kind in PACKED and [i for i, x in enumerate(op.inputs) if x == tensor.name] == [at]
        for graph in (program.training, program.evaluation)
        for op in graph.consumers.get(tensor.name, ())
        for at in [PACKED.get(op.kind, ("", -1))[1]]
    )


def _pack(
    graph: Graph, packed: Mapping[str, str], scaled: Mapping[str, str | None], form: str
) -> Graph:
    """The graph that reads words, and scales, in place of constants."""
    tensors: list[Tensor] = []
    for tensor in graph.tensors:
        if tensor.name not in packed:
            tensors.append(tensor)
            continue
        count = words_of(tensor.shape, form)
        tensors.append(Tensor(packed[tensor.name], (count,), Dtype.I32, Role.CONSTANT))
        if (scales := scaled[tensor.name]) is not None:
            tensors.append(Tensor(scales, tensor.shape[:1], role=Role.CONSTANT))
    ops = tuple(_pack_op(op, graph, packed, scaled, form) for op in graph.ops)
    return replace(graph, tensors=tuple(tensors), ops=ops)


def _pack_op(
    op: Op, graph: Graph, packed: Mapping[str, str], scaled: Mapping[str, str | None], form: str
) -> Op:
    names = [name for name in op.inputs if name in packed]
    if not names:
        return op
    (name,) = names
    inputs = [packed.get(each, each) for each in op.inputs]
    if (scales := scaled[name]) is not None:
        inputs.append(scales)
    attributes: dict[str, Attribute] = {
        **op.attributes,
        "weight_shape": graph.by_name[name].shape,
        "format": form,
    }
    kind, _ = PACKED[op.kind]
    return replace(op, kind=kind, inputs=tuple(inputs), attributes=attributes)
