# SPDX-License-Identifier: Apache-2.0
"""Batch norm that an exporter has folded into the layer before it: it is gone from the file."""

from __future__ import annotations

import re

import onnx

_REWRITES = "pkg.onnxscript.rewriter.rule_name"
"""The key under which PyTorch's exporter (torch.export) lists what it did to a node."""
_CALCULATED = re.compile(r"onnx::Conv(Transpose)?_\d+")
"""What its older exporter (TorchScript) calls weights that it has calculated itself."""


def folding_warnings(model: onnx.ModelProto) -> tuple[str, ...]:
    """What is to be said of a file from PyTorch whose batch norm is, or may be, folded away.

    Folded batch norm no longer normalises: what is trained is another network than was exported.
    """
    nodes = model.graph.node
    if model.producer_name != "pytorch":
        return ()
    folded = sum(map(_is_folded, nodes))
    warnings = []
    if folded:
        count = "1 layer" if folded == 1 else f"{folded} layers"
        warnings.append(f"PyTorch's exporter has folded batch norm into {count}, {_REMEDY}")
    if any("RemoveOptionalBias" in _rules(node) for node in nodes):
        warnings.append(
            "PyTorch's exporter has left out biases that are zero, which are then not trained: "
            f"this is another network than the exported one. {_EXPORT}"
        )
    kinds = {node.op_type for node in nodes}
    if not folded and "Conv" in kinds and "BatchNormalization" not in kinds:
        warnings.append(
            "the model has convolutions, but no batch norm. If the network has some, PyTorch's "
            f"exporter has folded it into the convolutions, {_REMEDY}"
        )
    if "Dropout" not in kinds and not any(map(_is_of_torch_export, nodes)):
        warnings.append(
            "the model has no dropout. If the network has some, PyTorch's exporter has left it "
            f"out: this is another network than the exported one. {_EXPORT}"
        )
    return tuple(warnings)


_EXPORT = (
    "Export it with dynamo=False, training=torch.onnx.TrainingMode.TRAINING (see "
    "docs/your-model.md)"
)
_REMEDY = (
    "where it is not trained and normalises nothing: this is another network than the exported "
    f"one. {_EXPORT}"
)


def _is_of_torch_export(node: onnx.NodeProto) -> bool:
    """Whether the newer exporter wrote it, which keeps dropout."""
    return any(entry.key.startswith("pkg.torch") for entry in node.metadata_props)


def _rules(node: onnx.NodeProto) -> str:
    return "".join(entry.value for entry in node.metadata_props if entry.key == _REWRITES)


def _is_folded(node: onnx.NodeProto) -> bool:
    weights = node.input[1:]
    calculated = len(weights) == 2 and all(map(_CALCULATED.fullmatch, weights))
    return "FuseBatchNorm" in _rules(node) or calculated
