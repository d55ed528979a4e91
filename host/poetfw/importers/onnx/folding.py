# SPDX-License-Identifier: Apache-2.0
"""Batch norm that an exporter has folded into the layer before it: it is gone from the file."""

from __future__ import annotations

import re

import onnx

_REWRITES = "pkg.onnxscript.rewriter.rule_name"
"""The key under which PyTorch's exporter (torch.export) lists what it did to a node."""
_CALCULATED = re.compile(r"(onnx::Conv(Transpose)?_)?\d+")
"""Names that its older exporter (TorchScript) gives to weights that it has calculated itself.

Older versions of it used numbers alone.
"""


def folding_warnings(model: onnx.ModelProto) -> tuple[str, ...]:
    """Warnings of what a file from PyTorch shows that its exporter has changed.

    Folded batch norm no longer normalises: what is trained is another network than was exported.
    Dropout that the older exporter left out of a network in evaluation mode leaves no trace.
    """
    nodes = model.graph.node
    if model.producer_name != "pytorch":
        return ()
    folded = sum(map(_is_folded, nodes))
    warnings = []
    if folded:
        count = "1 layer" if folded == 1 else f"{folded} layers"
        warnings.append(
            f"PyTorch's exporter has folded batch norm into {count}, where it is not trained and "
            f"normalises nothing: this is another network than the exported one. {_EXPORT}"
        )
    if any("RemoveOptionalBias" in _rules(node) for node in nodes):
        warnings.append(
            "PyTorch's exporter has left out biases that are zero, which are then not trained: "
            f"this is another network than the exported one. {_EXPORT}"
        )
    return tuple(warnings)


_EXPORT = (
    "Export it with dynamo=False, training=torch.onnx.TrainingMode.TRAINING (see "
    "docs/your-model.md)"
)


def _rules(node: onnx.NodeProto) -> str:
    return "".join(entry.value for entry in node.metadata_props if entry.key == _REWRITES)


def _is_folded(node: onnx.NodeProto) -> bool:
    weights = node.input[1:]
    calculated = len(weights) == 2 and all(map(_CALCULATED.fullmatch, weights))
    return "FuseBatchNorm" in _rules(node) or calculated
