# SPDX-License-Identifier: Apache-2.0
"""Which version of the C sources a case is compiled from."""

from __future__ import annotations

import hashlib

from poetfw.costs import Case, alone
from poetfw.firmware.kernel_version import kernel_version
from poetfw.ops import kind_of

TRANSFERS = ("page_in", "page_out")
"""Kinds of cases that are no ops."""

_LOADED_BY = "data"
_MOVED_BY = ("slots", "pages")


def case_version(case: Case) -> str:
    """16 hexadecimal digits: a digest of the kernel's sources, or of those that move tensors.

    Raises:
        ModelError: there is no such op.
    """
    if case.kind in TRANSFERS:
        versions = "".join(kernel_version(source) for source in _MOVED_BY)
        return hashlib.sha256(versions.encode()).hexdigest()[:16]
    op, graph = alone(case)
    return kernel_version(kind_of(op).kernel(op, graph).source or _LOADED_BY)
