# SPDX-License-Identifier: Apache-2.0
"""What a schedule adds to the firmware: the calls of what is computed again or paged."""

from __future__ import annotations

import json
from pathlib import Path

from system.commands import succeed

SMALL = ("--model", "mlp", "--batch", "8")


def schedule_bytes(folder: Path, *arguments: str) -> int:
    build = succeed("build", "--board", "linux", *SMALL, *arguments, cwd=folder)
    written = json.loads((folder / "build/linux/build.json").read_text())
    assert written["schedule_bytes"] == build["schedule_bytes"]
    assert isinstance(build["schedule_bytes"], int)
    return build["schedule_bytes"]


def test_keeping_everything_adds_nothing(tmp_path: Path) -> None:
    assert schedule_bytes(tmp_path, "--scheduler", "checkpoint-all") == 0


def test_swapping_adds_its_calls_and_more_calls_add_more(tmp_path: Path) -> None:
    all_swapped = schedule_bytes(tmp_path, "--scheduler", "swap-on-demand")
    build = json.loads((tmp_path / "build/linux/build.json").read_text())
    calls = build["schedule"]["page_outs"] + build["schedule"]["page_ins"]
    assert calls > 0
    assert 4 * calls <= all_swapped <= 100 * calls
