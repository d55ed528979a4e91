# SPDX-License-Identifier: Apache-2.0
"""Readers of what users bring: data sets, `.pt2` and ONNX models."""

from poetfw.importers.dataset import BUILT_IN, DataSet, load_data

__all__ = ["BUILT_IN", "DataSet", "load_data"]
