# SPDX-License-Identifier: Apache-2.0
"""The operators, one file per family. Importing the package registers those of all its files."""

from importlib import import_module
from pkgutil import iter_modules

from poetfw.ops.base import (
    KINDS,
    Array,
    Kernel,
    LossKind,
    OpKind,
    Shape,
    Tape,
    Work,
    check_shapes,
    infer_output,
    kind_of,
)

__all__ = [
    "KINDS",
    "Array",
    "Kernel",
    "LossKind",
    "OpKind",
    "Shape",
    "Tape",
    "Work",
    "check_shapes",
    "infer_output",
    "kind_of",
]

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
