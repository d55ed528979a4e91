# SPDX-License-Identifier: Apache-2.0
"""What users bring: data sets and ONNX models."""

from poetfw.importers.dataset import BUILT_IN, DataSet, load_data

__all__ = ["BUILT_IN", "DataSet", "load_data"]
