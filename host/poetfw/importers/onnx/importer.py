# SPDX-License-Identifier: Apache-2.0
"""Import of an ONNX file as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx

from poetfw.common.errors import ModelError
from poetfw.importers.float32 import OPTION
from poetfw.importers.onnx.constants import FOLDED, fold
from poetfw.importers.onnx.file import check_model, opset, read_model
from poetfw.importers.onnx.folding import expect_unfolded
from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.rules import RULES, bias_addition
from poetfw.importers.onnx.stand_ins import bind_stand_ins
from poetfw.importers.onnx.types import OTHER_FLOATS
from poetfw.importers.onnx.values import Values
from poetfw.importers.refusal import Refusal, UnsupportedError, attempt, refuse
from poetfw.importers.results import Result, finished
from poetfw.ir import Dtype
from poetfw.models import GraphBuilder, Model
from poetfw.training import TrainedNames


def import_onnx(
    path: Path,
    batch: int,
    loss: str = "softmax_cross_entropy",
    *,
    as_float32: bool = False,
    chosen: TrainedNames = TrainedNames(),  # noqa: B008 (it never changes)
) -> Model:
    """Import a network from an ONNX file (opset 13 to 21), with its weights as initial weights.

    Axis 0 of every input and output must be the batch; the file's batch size is replaced by the
    requested one. A final softmax is dropped if the loss is softmax cross-entropy, which includes
    it. Nodes that the outputs do not need are ignored.

    Args:
        path: path of the file; external weights must lie in its folder.
        batch: number of samples in a batch.
        loss: a key of `poetfw.training.LOSSES`.
        as_float32: True to convert float64, float16 and bfloat16 to float32.
        chosen: what the user trains and freezes, where the file does not tell weights.

    Raises:
        ModelError: The file is malformed, has nodes that poetfw cannot train, or does not tell what
            trains; the message names them.
    """
    try:
        proto = read_model(path, as_float32=as_float32)
        return _import(proto, path, batch, loss, chosen)
    except ModelError as error:
        if error.message.startswith(f"{path}: "):
            raise
        raise ModelError(f"{path}: {error.message}", *error.try_next) from error


def _import(
    proto: onnx.ModelProto, path: Path, batch: int, loss: str, chosen: TrainedNames
) -> Model:
    graph = proto.graph
    nodes = _needed([OnnxNode.of(node) for node in graph.node], [out.name for out in graph.output])
    check_model(proto, path)
    expect_unfolded(proto)
    sources = _inputs(graph)
    first, *others = ((each.name, (batch, *_extents(each)[1:]), _dtype(each)) for each in sources)
    builder = GraphBuilder(path.stem, *first)
    tensors = [builder.input, *(builder.add_input(*each) for each in others)]
    values = Values(
        *(graph, nodes, builder, _extents(sources[0])[0] or None, loss, opset(proto), chosen),
        from_torch=proto.producer_name == "pytorch",
    )
    for source, tensor in zip(sources, tensors, strict=True):
        values.bind_input(source.name, tensor)
    refused = _translate(nodes, values, {name: n for n in graph.node for name in n.output})
    refuse([Refusal(node.name, node.kind, reason) for node, reason in refused], sorted(RULES))
    values.expect_apart()
    values.expect_no_doubt()
    for name in values.outputs:
        if values.is_constant(name) or not values.is_bound(name):
            raise ModelError(f"the model's output {name!r} is not calculated from its input")
    results = [Result(name, values.tensor(name)) for name in values.outputs]
    origin = f"imported from {path.name}"
    return replace(finished(values.net, results, origin), constants=values.constants)


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
        held = any(map(values.is_held, node.inputs)) and node.kind in RULES  # keeps its name
        if not held and fold(node, proto, values):
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


_DTYPES = {
    onnx.TensorProto.FLOAT: Dtype.F32,
    onnx.TensorProto.BOOL: Dtype.F32,
    onnx.TensorProto.INT64: Dtype.I32,
    onnx.TensorProto.INT32: Dtype.I32,
}


def _dtype(source: onnx.ValueInfoProto) -> Dtype:
    return _DTYPES[source.type.tensor_type.elem_type]


def _inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs, which must be batches of float32 features or of ids, with equal batch sizes."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if not inputs or not graph.output:
        raise ModelError(f"the model has {len(inputs)} inputs and {len(graph.output)} outputs")
    if graph.sparse_initializer:
        raise ModelError("the model has sparse weights, which poetfw does not read")
    for source in inputs:
        if source.type.tensor_type.elem_type not in _DTYPES:
            raise ModelError(
                f"the model's input {source.name!r} is neither float32 nor int64",
                "export it in float32: torch.onnx.export(net.float(), (example.float(),), ...)",
                *([OPTION] if source.type.tensor_type.elem_type in OTHER_FLOATS else []),
            )
        extents = _extents(source)
        if not extents or any(extent < 1 for extent in extents[1:]):
            raise ModelError(
                f"the model's input {source.name!r} has the shape {extents}, 0 where it is left "
                "open; poetfw needs [batch, features...] with only the batch left open"
            )
        if extents[0] != _extents(inputs[0])[0]:
            raise ModelError(
                f"the model's inputs have unlike counts of samples: {source.name!r} has "
                f"{extents[0]}, but {inputs[0].name!r} has {_extents(inputs[0])[0]}; 0 is left open"
            )
    return inputs


def _extents(value: onnx.ValueInfoProto) -> list[int]:
    """Shape of a value; 0 for an unspecified extent."""
    return [int(dimension.dim_value) for dimension in value.type.tensor_type.shape.dim]
