"""The operators, one file per family."""

from poetfw.ops import relu
from poetfw.ops.base import (
    KINDS,
    Array,
    Kernel,
    OpKind,
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
    "OpKind",
    "Tape",
    "Work",
    "check_shapes",
    "infer_output",
    "kind_of",
    "relu",
]
