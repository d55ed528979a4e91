# SPDX-License-Identifier: Apache-2.0
"""Import of PyTorch's exports (`torch.export`, `.pt2`) as models, without PyTorch."""

from poetfw.importers.torch_export.importer import import_torch

__all__ = ["import_torch"]
