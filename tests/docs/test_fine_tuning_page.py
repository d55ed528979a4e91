# SPDX-License-Identifier: Apache-2.0
"""The accuracies on docs/fine-tuning.md, by its script and its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import block_behind, commands, read
from system.commands import needs_twin, succeed

PAGE = "docs/fine-tuning.md"
WITHIN = 0.02
"""Other processors and versions of PyTorch pretrain other weights."""


def on_the_page(row: str) -> float:
    found = re.search(rf"^\| {re.escape(row)} \| ([\d.]+)% \|$", read(PAGE), re.M)
    assert found is not None, row
    return float(found[1]) / 100


@needs_twin
@pytest.mark.slow
def test_accuracies_are_those_on_the_page(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "pretrain.py").write_text(block_behind(PAGE, "`pretrain.py`"))
    run = subprocess.run(
        [sys.executable, "pretrain.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = [float(share) / 100 for share in re.findall(r": ([\d.]+)%", run.stdout)]
    typed = [command.text for command in commands(PAGE) if command.text.startswith("poetfw ")]
    built, ran = (succeed(*text.split()[1:], cwd=tmp_path) for text in typed[:2])
    found = {
        "upright, pretrained": said[0],
        "turned, before": said[1],
        "turned, before, backbone as int8": built["frozen_as"]["after"],
        "turned, adapted by PyTorch in float32": said[2],
        "turned, adapted on the emulated board": ran["accuracy"],
    }
    for row, share in found.items():
        assert share == pytest.approx(on_the_page(row), abs=WITHIN), row
    assert built["frozen_as"]["before"] == pytest.approx(said[1], abs=1e-4)
