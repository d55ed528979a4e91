# SPDX-License-Identifier: Apache-2.0
"""The operators, one file per family. Importing the package registers those of all its files."""

from importlib import import_module
from pkgutil import iter_modules

from poetfw.ops.base import (
    KINDS,
    Array,
    Constants,
    Kernel,
    LossKind,
    OpKind,
    OpWork,
    Shape,
    Tape,
    check_shapes,
    infer_output,
    kind_of,
)
from poetfw.ops.update import (
    UpdateKind,
    fused_name,
    is_update,
    register_fused_updates,
    stores_gradient,
)

__all__ = [
    "KINDS",
    "Array",
    "Constants",
    "Kernel",
    "LossKind",
    "OpKind",
    "OpWork",
    "Shape",
    "Tape",
    "UpdateKind",
    "check_shapes",
    "fused_name",
    "infer_output",
    "is_update",
    "kind_of",
    "stores_gradient",
]

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
register_fused_updates()
