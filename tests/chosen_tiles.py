# SPDX-License-Identifier: Apache-2.0
"""Keeps the tiles that builds of tests choose, as many commands build the same networks.

For the demo that choice is two fifths of all planning, and each command is a new process.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from builds import KEPT, digest, write_whole
from mutants import marks

if TYPE_CHECKING:
    from poetfw.kernels import Task, TiledPass


def keep() -> None:
    """Have this process look first whether the tiles of the same ops were chosen before."""
    from poetfw.firmware import tile_choice  # late, as in pictures.py

    tile_choice.tilings = _kept(tile_choice.tilings)  # type: ignore[attr-defined]


def _kept(
    choose: Callable[[Sequence[tuple[Task, int]]], list[TiledPass | None]],
) -> Callable[[Sequence[tuple[Task, int]]], list[TiledPass | None]]:
    def chosen(ops: Sequence[tuple[Task, int]]) -> list[TiledPass | None]:
        file = KEPT / "tiles" / _sources() / digest([repr(ops).encode()])
        if marks.COMPILED in os.environ:  # mutations are told of what a test reaches
            return choose(ops)
        if file.exists():
            return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]
        tiles = choose(ops)
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
