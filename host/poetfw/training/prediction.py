# SPDX-License-Identifier: Apache-2.0
"""The evaluation step without targets, for one sample: what a device predicts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from poetfw.errors import ModelError
from poetfw.ir import Attribute, Graph, Op, Tensor
from poetfw.ops import infer_output
from poetfw.training.program import Program


def make_prediction(program: Program) -> Graph:
    """The graph from one sample to the network's output for it; its batch is 1.

    No op of an evaluation step mixes samples, so each computes the bits that it computes of the
    same sample in a batch.

    Raises:
        ModelError: an op does mix them.
    """
    evaluation, batch = program.evaluation, program.batch
    *ops, metric = (op for op in evaluation.ops if op.kind != "load_y")
    (output, *_) = metric.inputs
    used = {name for op in ops for name in op.inputs}
    tensors: dict[str, Tensor] = {
        tensor.name: tensor for tensor in evaluation.persistent if tensor.name in used
    }
    windows = {tensor.name: tensor for tensor in evaluation.windows}
    kept: list[Op] = []
    for op in ops:
        assert op.output is not None  # only the metric has none
        was = evaluation.by_name[op.output]
        op = replace(op, attributes=_of_one(op, batch))
        inferred = infer_output(op, [tensors[name] for name in op.inputs], was.role)
        if inferred is None or inferred.elements * batch != was.elements:
            raise ModelError(f"op {op.name!r} ({op.kind}) mixes the samples of a batch")
        kept.append(op)
        tensors[inferred.name] = inferred
        for window in windows.values():
            if window.base == op.output:
                tensors[window.name] = _window_of_one(window, batch)
    name = evaluation.name.removesuffix("evaluation") + "prediction"
    return Graph(name, tuple(tensors.values()), tuple(kept), output)


def _of_one(op: Op, batch: int) -> Mapping[str, Attribute]:
    """The attributes of an op for one sample: a shape that begins with the batch begins with 1."""
    shape = op.attributes.get("shape")
    if not isinstance(shape, tuple) or shape[0] % batch:
        return op.attributes
    return {**op.attributes, "shape": (shape[0] // batch, *shape[1:])}


def _window_of_one(window: Tensor, batch: int) -> Tensor:
    """A window for one sample. A run of bytes of several would be one of axis 0, the batch."""
    if batch != 1:
        raise ModelError(f"window {window.name!r} is a part of the batch")
    return window
