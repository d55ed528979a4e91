# SPDX-License-Identifier: Apache-2.0
"""Detection of what PyTorch's exporters did to a network, so that another one would be trained."""

from __future__ import annotations

import re

import onnx

from poetfw.common.errors import ModelError, listed
from poetfw.importers.onnx.origins import noted, taken

_REWRITES = "pkg.onnxscript.rewriter.rule_name"
"""Metadata key under which PyTorch's exporter (torch.export) lists its rewrites of a node."""
_ORIGIN = "pkg.torch.onnx.fx_node"
"""Metadata key under which it writes the call that a node comes from."""
_TRAINED_NORM = "_native_batch_norm_legit_functional"
"""The call of a batch norm in training mode."""
_CALCULATING = re.compile(r"(?P<kind>add|detach|div|mul|sub)(_\d+)?")
"""Names of calls that the exporter leaves out where a number is neutral now, weight or not."""
_CALCULATED = re.compile(r"(onnx::Conv(Transpose)?_)?\d+")
"""Names that the older exporter (TorchScript) gives to computed weights.

Earlier versions of it used numbers alone.
"""
EXPORT = (
    "export it in these two lines: program = torch.export.export(net.train(), (example,))",
    "torch.export.save(program, 'net.pt2')",
)
"""Advice for a network whose ONNX file does not say what is trained."""
PLAINLY = (
    "export it with optimize=False: torch.onnx.export(net, (example,), 'net.onnx', optimize=False)"
)
"""Advice for a network that the newer exporter changed."""


def expect_unfolded(model: onnx.ModelProto) -> None:
    """Check that a file has the batch norms of the network that it was exported from.

    Dropout that the older exporter removed in evaluation mode leaves no trace.

    Raises:
        ModelError: PyTorch's exporter has folded batch norms into layers, has written those of a
            network in training mode in evaluation mode, or has left out biases: another network
            would be trained.
    """
    nodes = model.graph.node
    if model.producer_name != "pytorch":
        return
    folded = sum(map(_is_folded, nodes))
    if folded:
        count = "1 layer" if folded == 1 else f"{folded} layers"
        raise ModelError(
            f"PyTorch's exporter has folded batch norm into {count}, where it is not trained and "
            "normalises nothing: this is another network than the exported one",
            *EXPORT,
        )
    lost = sum(map(_lost_its_mode, nodes))
    if lost:
        count = "1 batch norm" if lost == 1 else f"{lost} batch norms"
        raise ModelError(
            f"PyTorch's exporter has written {count} of a network in training mode in evaluation "
            "mode: this is another network than the exported one",
            *EXPORT,
        )
    if any(map(_lost_its_bias, nodes)):
        raise ModelError(
            "PyTorch's exporter has left out biases that are zero, which are then not trained: "
            "this is another network than the exported one",
            *EXPORT,
        )
    left_out = sorted(_left_out(model.graph))
    if left_out:
        names = listed([repr(each) for each in left_out])
        raise ModelError(
            f"PyTorch's exporter has left out {names}: numbers that change nothing now, and may be "
            "weights, or places where gradients end",
            PLAINLY,
            *EXPORT,
        )


def _left_out(graph: onnx.GraphProto) -> set[str]:
    """Calls whose results other calls take, and of which the file has neither node nor tensor."""
    known = {name for node in graph.node for name in node.output}
    known.update(value.name for value in (*graph.input, *graph.initializer))
    found = set()
    for node in graph.node:
        for name in taken(node) - known:
            called = _CALCULATING.fullmatch(name)
            equal = (_CALCULATING.fullmatch(each) for each in node.input)  # calculated once
            if called and all(each is None or each["kind"] != called["kind"] for each in equal):
                found.add(name)
    return found


def _is_folded(node: onnx.NodeProto) -> bool:
    weights = node.input[1:]
    calculated = len(weights) == 2 and all(map(_CALCULATED.fullmatch, weights))
    return "FuseBatchNorm" in noted(node, _REWRITES) or calculated


def _lost_its_bias(node: onnx.NodeProto) -> bool:
    """True for a node without a bias of which the call has one."""
    return "RemoveOptionalBias" in noted(node, _REWRITES) and len(taken(node)) > len(node.input)


def _lost_its_mode(node: onnx.NodeProto) -> bool:
    modes = [attribute.i for attribute in node.attribute if attribute.name == "training_mode"]
    fixed = node.op_type == "BatchNormalization" and modes != [1]
    return fixed and _TRAINED_NORM in noted(node, _ORIGIN)
