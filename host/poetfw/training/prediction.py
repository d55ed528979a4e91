# SPDX-License-Identifier: Apache-2.0
"""Prediction graph: the evaluation step without targets, for one sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from poetfw.common.errors import ModelError, PoetfwError
from poetfw.ir import Attribute, Graph, Op, Tensor
from poetfw.ops import infer_output
from poetfw.ops.layouts import image_of
from poetfw.ops.pieces import plain_name
from poetfw.training.program import Program

_MOVES = ("transpose", "take_strided", "put_strided")
"""Ops that may move another axis to axis 0."""


def make_prediction(program: Program) -> Graph:
    """Derive the graph from one sample to the network's output.

    The batch is 1 if axis 0 is the batch in every op and only shapes in attributes depend on it.
    Otherwise it is the evaluation step's batch: the sample comes first and the others are zeros.

    An evaluation step does not mix samples, unless the network itself does. The prediction of such
    a network is that of a sample in a batch of zeros.
    """
    evaluation = program.evaluation
    name = evaluation.name.removesuffix("evaluation") + "prediction"
    *before, metric = evaluation.ops
    output = metric.inputs[0]
    ops = [op for op in before if plain_name(op.kind) != "load_y"]
    if metric.kind == "objective_metric":  # the loss's own ops are among them
        ops = list(evaluation.ops_for(output))
    try:
        return _for_one(program, name, ops, output)
    except PoetfwError:
        gone = {op.output for op in evaluation.ops} - {op.output for op in ops}
        gone.add(program.metric.name)
        tensors = (t for t in evaluation.tensors if gone.isdisjoint((t.name, t.base or t.name)))
        return Graph(name, tuple(tensors), tuple(ops), output)


def _for_one(program: Program, name: str, ops: Sequence[Op], output: str) -> Graph:
    """Derive the graph of batch 1.

    Raises:
        PoetfwError: An op needs other attributes for one sample.
    """
    evaluation, batch = program.evaluation, program.batch
    used = {name for op in ops for name in op.inputs}
    tensors: dict[str, Tensor] = {
        tensor.name: tensor
        for tensor in (*evaluation.persistent, *evaluation.constants)
        if tensor.name in used
    }
    windows = {tensor.name: tensor for tensor in evaluation.windows}
    kept: list[Op] = []
    for op in ops:
        assert op.output is not None  # only the metric has none
        was = evaluation.by_name[op.output]
        if op.kind in _MOVES or was.shape[0] != batch:
            raise ModelError(f"op {op.name!r} ({op.kind}) may not have the samples on axis 0")
        op = replace(op, attributes=_of_one(op, batch))
        inferred = infer_output(op, [tensors[name] for name in op.inputs], was.role)
        if inferred is None or inferred.elements * batch != was.elements:
            raise ModelError(f"op {op.name!r} ({op.kind}) is another one for one sample")
        if was.tile and batch > 1 and len(was.shape) != 4:
            raise ModelError(f"op {op.name!r} ({op.kind}) stores vectors of several samples")
        kept.append(op)
        image = image_of(inferred.shape) if was.tile else ()
        tensors[inferred.name] = replace(inferred, tile=was.tile, image=image)
        for window in windows.values():
            if window.base == op.output:
                tensors[window.name] = _window_of_one(window, batch)
    return Graph(name, tuple(tensors.values()), tuple(kept), output)


def _of_one(op: Op, batch: int) -> Mapping[str, Attribute]:
    """Attributes of an op for one sample, whose shapes begin with 1 instead of the batch."""
    shape = op.attributes.get("shape")
    if not isinstance(shape, tuple) or shape[0] != batch:
        return op.attributes
    return {**op.attributes, "shape": (1, *shape[1:])}


def _window_of_one(window: Tensor, batch: int) -> Tensor:
    """Window for one sample.

    Raises:
        ModelError: The window is a part of the batch, as axis 0 is the batch.
    """
    if batch != 1:
        raise ModelError(f"window {window.name!r} is a part of the batch")
    return window
