# SPDX-License-Identifier: Apache-2.0
"""Keeps the tiles that builds of tests choose, as many commands build the same networks.

For the demo that choice is two fifths of all planning, and each command is a new process.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from builds import KEPT, digest, write_whole
from mutants import marks

Of = TypeVar("Of")
Found = TypeVar("Found")


def keep() -> None:
    """Have this process look first whether the tiles of the same ops were chosen before."""
    from poetfw.ops import tile_tables  # late, as in pictures.py

    tile_tables.tilings = _kept(tile_tables.tilings)  # type: ignore[attr-defined]
    tile_tables.tiling = _kept(tile_tables.tiling)  # type: ignore[attr-defined]


def _kept(choose: Callable[[Of], Found]) -> Callable[[Of], Found]:
    """The function with its results in files, one for each argument."""

    @cache
    def chosen(of: Of) -> Found:
        file = KEPT / "tiles" / _sources() / digest([repr(of).encode()])
        if marks.COMPILED in os.environ:  # mutations are told of what a test reaches
            return choose(of)
        if file.exists():
            return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]
        tiles = choose(of)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, pickle.dumps(tiles))
        return tiles

    return chosen


@cache
def _sources() -> str:
    """Digest of the code that chooses."""
    import poetfw

    folder = Path(poetfw.__file__).parent / "kernels"
    return digest(path.read_bytes() for path in sorted(folder.rglob("*.py")))
