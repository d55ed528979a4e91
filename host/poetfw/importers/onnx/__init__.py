# SPDX-License-Identifier: Apache-2.0
"""Import of ONNX files as models."""

from poetfw.importers.onnx.importer import import_onnx

__all__ = ["import_onnx"]
