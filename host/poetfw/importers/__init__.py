# SPDX-License-Identifier: Apache-2.0
"""What users bring: data sets and ONNX models."""

from poetfw.importers.dataset import BUILT_IN, DataSet, load_data
from poetfw.importers.spectra import KINDS as FEATURES

__all__ = ["BUILT_IN", "FEATURES", "DataSet", "load_data"]
