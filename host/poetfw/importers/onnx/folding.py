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
    if folded:
        count = "1 layer" if folded == 1 else f"{folded} layers"
        return (f"PyTorch's exporter has folded batch norm into {count}, {_REMEDY}",)
    kinds = {node.op_type for node in nodes}
    if "Conv" in kinds and "BatchNormalization" not in kinds:
        return (
            "the model has convolutions, but no batch norm. If the network has some, PyTorch's "
            f"exporter has folded it into the convolutions, {_REMEDY}",
        )
    return ()


_REMEDY = (
    "where it is not trained and normalises nothing: this is another network than the exported "
    "one. Export it with dynamo=False, training=torch.onnx.TrainingMode.TRAINING (see "
    "docs/your-model.md)"
)


def _is_folded(node: onnx.NodeProto) -> bool:
    rules = "".join(entry.value for entry in node.metadata_props if entry.key == _REWRITES)
    weights = node.input[1:]
    calculated = len(weights) == 2 and all(map(_CALCULATED.fullmatch, weights))
    return "FuseBatchNorm" in rules or calculated
