# SPDX-License-Identifier: Apache-2.0
"""A board file's threads, from the file to the trained weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from poetfw.common.resources import boards_dir
from system.commands import succeed

SMALL = ("--batch", "8", "--scheduler", "checkpoint-all")


@pytest.mark.slow
def test_threads_train_to_the_same_bits(tmp_path: Path) -> None:
    text = (boards_dir() / "linux.toml").read_text()
    images = []
    for threads in (1, 3):
        board = tmp_path / f"{threads}.toml"
        board.write_text(text.replace("[compute]", f"[compute]\nthreads = {threads}"))
        project = tmp_path / str(threads)
        options = ("--board", str(board), "--out", str(project))
        succeed("build", *options, *SMALL, cwd=tmp_path)
        succeed("run", *options, "--steps", "5", cwd=tmp_path)
        images.append((project / "run/storage.img").read_bytes())
        plan = (project / "lib/poetfw/generated/plan.h").read_text()
        assert ("#define POET_THREADS 3" in plan) == (threads == 3)
    assert images[0] == images[1]
