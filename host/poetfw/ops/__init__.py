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
from poetfw.ops.continued import register_continued
from poetfw.ops.joined import join, register_joined
from poetfw.ops.layouts import ImageLayout, TileLayout, image_layout
from poetfw.ops.nests import TileTraffic
from poetfw.ops.pieces import PiecedOp, pieced, register_pieced
from poetfw.ops.streamed import (
    layouts_of,
    register_streamed,
    run_ops,
    streamed_kind,
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
    "ImageLayout",
    "Kernel",
    "LossKind",
    "OpKind",
    "OpWork",
    "PiecedOp",
    "Shape",
    "Tape",
    "TileLayout",
    "TileTraffic",
    "UpdateKind",
    "check_shapes",
    "fused_name",
    "image_layout",
    "infer_output",
    "is_update",
    "join",
    "kind_of",
    "layouts_of",
    "pieced",
    "run_ops",
    "stores_gradient",
    "streamed_kind",
]

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
register_fused_updates()
register_streamed()
register_joined()
register_pieced()
register_continued()
