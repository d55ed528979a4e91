# SPDX-License-Identifier: Apache-2.0
"""Version of the C sources that a case is compiled from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from poetfw.boards import Arithmetic
from poetfw.costs import MOVES, Case, alone
from poetfw.firmware.kernel_version import kernel_version
from poetfw.firmware.platformio_ini import code_flags
from poetfw.ops import kind_of
from poetfw.ops.tile_tables import TileChoice, no_tiles, table_of

_LOADED_BY = ("data",)
_FLOATS_BY = ("soft_float",)
_MOVED_BY = ("slots", "pages")
_FED = "in sets, before each run"
"""Source of the inputs of an op's own case: measurements with inputs from elsewhere are stale."""


def case_version(
    case: Case,
    arithmetic: Arithmetic = Arithmetic.SEPARATE,
    soft_float: bool = False,
    tiles: TileChoice = no_tiles,
) -> str:
    """16 hexadecimal digits: a digest of the sources of its kernel, or of what moves tensors.

    The digest covers generated tiles and the compiler's flags too and, for a case with an op's own
    values, the code that feeds them.

    Args:
        case: an op, or a transfer.
        arithmetic: as the board has it: other sums are compiled from other files.
        soft_float: True if the board's floats are calculated by functions, which kernels call.
        tiles: those that the board runs.

    Raises:
        ModelError: There is no such op.
    """
    if case.kind in MOVES:
        return _version(_MOVED_BY, arithmetic)
    if case.numbers:
        version = case_version(case.of_any_numbers, arithmetic, soft_float, tiles)
        return _digest(f"{version} {_FED}")
    op, graph = alone(case)
    kernel = kind_of(op).kernel(op, graph)
    if not kernel.sources:
        return _version(_LOADED_BY, arithmetic)
    version = _version((*kernel.sources, *(_FLOATS_BY if soft_float else ())), arithmetic)
    table = table_of(kernel)
    tiled = None if table is None else tiles(table)
    if tiled is None:
        return version
    blocks = "".join(block.text() for block in tiled.blocks)
    return _digest(f"{version} {tiled.table('tiles')} {blocks}")


def _version(sources: Sequence[str], arithmetic: Arithmetic) -> str:
    versions = [kernel_version(source, arithmetic) for source in sources]
    return _digest(" ".join([*versions, *code_flags()]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
