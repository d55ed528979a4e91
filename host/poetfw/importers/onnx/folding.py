# SPDX-License-Identifier: Apache-2.0
"""Detection of batch norms that an exporter folded into the preceding layer."""

from __future__ import annotations

import re

import onnx

_REWRITES = "pkg.onnxscript.rewriter.rule_name"
"""Metadata key under which PyTorch's exporter (torch.export) lists its rewrites of a node."""
_CALCULATED = re.compile(r"(onnx::Conv(Transpose)?_)?\d+")
"""Names that the older exporter (TorchScript) gives to computed weights.

Earlier versions of it used numbers alone.
"""


def folding_warnings(model: onnx.ModelProto) -> tuple[str, ...]:
    """Warnings about changes that PyTorch's exporter made, as far as the file shows them.

    A folded batch norm no longer normalises: the trained network differs from the exported one.
    Dropout that the older exporter removed in evaluation mode leaves no trace.
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
