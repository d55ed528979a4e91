# SPDX-License-Identifier: Apache-2.0
"""Import of an ONNX file as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import onnx

from poetfw.common.errors import ModelError
from poetfw.importers.onnx.constants import FOLDED, fold
from poetfw.importers.onnx.file import check_model, opset, read_model
from poetfw.importers.onnx.folding import folding_warnings
from poetfw.importers.onnx.rules import RULES, bias_addition
from poetfw.importers.onnx.stand_ins import bind_stand_ins
from poetfw.importers.onnx.values import OnnxNode, Values
from poetfw.importers.refusal import Refusal, UnsupportedError, attempt, refuse
from poetfw.ir import Dtype
from poetfw.models import GraphBuilder, Model


def import_onnx(path: Path, batch: int, loss: str = "softmax_cross_entropy") -> Model:
    """Import a network from an ONNX file (opset 13 to 21), with its weights as initial weights.

    The file must have one input and one output, whose axis 0 is the batch; the file's batch size is
    replaced by the requested one. A final softmax is dropped if the loss is softmax cross-entropy,
    which includes it. Nodes that the output does not need are ignored.

    Args:
        path: path of the file; external weights must lie in its folder.
        batch: number of samples in a batch.
        loss: a key of `poetfw.training.LOSSES`.

    Raises:
        ModelError: The file is malformed, or has nodes that poetfw cannot train; the message counts
            them and names the first ones.
    """
    proto = read_model(path)
    try:
        return _import(proto, path, batch, loss)
    except ModelError as error:
        if error.message.startswith(f"{path}: "):
            raise
        raise ModelError(f"{path}: {error.message}", *error.try_next) from error


def _import(proto: onnx.ModelProto, path: Path, batch: int, loss: str) -> Model:
    graph = proto.graph
    nodes = _needed([OnnxNode.of(node) for node in graph.node], [out.name for out in graph.output])
    check_model(proto, path)
    source = _input(graph)
    _, *features = _extents(source)
    floats = source.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    dtype = Dtype.F32 if floats else Dtype.I32
    builder = GraphBuilder(path.stem, source.name, (batch, *features), dtype)
    values = Values(graph, nodes, builder, _extents(source)[0] or None, loss, opset(proto))
    values.bind(source.name, builder.input)
    refused = _translate(nodes, values, {name: n for n in graph.node for name in n.output})
    refuse([Refusal(node.name, node.kind, reason) for node, reason in refused], sorted(RULES))
    if values.is_constant(values.output) or not values.is_bound(values.output):
        raise ModelError(f"the model's output {values.output!r} is not calculated from its input")
    return Model(
        *builder.build(values.tensor(values.output)),
        loss=values.net.loss,
        description=f"imported from {path.name}",
        warnings=(*folding_warnings(proto), *values.warnings),
        state_dict=tuple(values.net.entries),
    )


def _translate(
    nodes: Sequence[OnnxNode], values: Values, protos: Mapping[str, onnx.NodeProto]
) -> list[tuple[OnnxNode, str]]:
    """Apply each node's rule; returns the nodes that cannot be trained, with reasons.

    Outputs of a refused node get stand-ins, so that nodes behind it are checked as well.

    Args:
        nodes: nodes in graph order.
        values: meanings of names; the graph is usable only if no node is refused.
        protos: nodes in ONNX's structure, by output name.
    """
    refused = []
    for node in nodes:
        if values.is_bound(node.output):
            continue  # covered by the rule of an earlier node
        if node.kind not in RULES and node.kind not in FOLDED:
            reason: str | None = "poetfw has no such operator"
        elif node.flaw is not None:
            reason = node.flaw
        elif all(values.is_bound(name) for name in node.inputs if name):
            reason = _apply_rule(node, protos[node.output], values)
        else:
            reason = None
        if reason is not None:
            refused.append((node, reason))
            attempt(partial(_stand_in, node, values, protos))  # may fail for an odd node
    return refused


def _stand_in(node: OnnxNode, values: Values, protos: Mapping[str, onnx.NodeProto]) -> None:
    """Bind stand-ins for the outputs of a refused node and of its bias addition."""
    for lost in (node, bias_addition(node, values)):
        if lost is not None:
            bind_stand_ins(lost, protos[lost.output], values)
            values.note_batch(lost)


def _apply_rule(node: OnnxNode, proto: onnx.NodeProto, values: Values) -> str | None:
    """Translate a node; returns the reason why it cannot be trained, or None."""

    def translate() -> None:
        if fold(node, proto, values):
            return
        if node.kind not in RULES:
            raise UnsupportedError("poetfw has no such operator")
        tensor = RULES[node.kind](node, values)
        if tensor is not None:
            values.bind(node.output, tensor)
        values.note_batch(node)

    return attempt(translate)


def _needed(nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> list[OnnxNode]:
    """Nodes that the outputs depend on, in order."""
    wanted, needed = set(outputs), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(filter(None, node.inputs))
            needed.append(node)
    return needed[::-1]


def _input(graph: onnx.GraphProto) -> onnx.ValueInfoProto:
    """The only input, which must be a batch of float32 features or int64 ids."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise ModelError(
            f"the model has {len(inputs)} inputs and {len(graph.output)} outputs; "
            "poetfw trains models with 1 of each"
        )
    if graph.sparse_initializer:
        raise ModelError("the model has sparse weights, which poetfw does not read")
    (source,) = inputs
    if source.type.tensor_type.elem_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64):
        raise ModelError(
            f"the model's input {source.name!r} is neither float32 nor int64",
            "export the model in float32",
        )
    extents = _extents(source)
    if len(extents) < 2 or any(extent < 1 for extent in extents[1:]):
        raise ModelError(
            f"the model's input {source.name!r} has the shape {extents}, 0 where it is left open; "
            "poetfw needs [batch, features...] with only the batch left open"
        )
    return source


def _extents(value: onnx.ValueInfoProto) -> list[int]:
    """Shape of a value; 0 for an unspecified extent."""
    return [int(dimension.dim_value) for dimension in value.type.tensor_type.shape.dim]
