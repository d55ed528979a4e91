# SPDX-License-Identifier: Apache-2.0
"""Data sets and models from users' files."""

from poetfw.importers.dataset import BUILT_IN, DataSet, load_data

__all__ = ["BUILT_IN", "DataSet", "load_data"]
