# SPDX-License-Identifier: Apache-2.0
"""The notebook of the Python interface runs from its first cell to its last."""

from __future__ import annotations

import html
import shutil
from pathlib import Path
from typing import Any

import pytest

from docs.pages import python_blocks
from system.commands import needs_twin
from unit.api.notebook import NOTEBOOK, code_cells


@needs_twin
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    shutil.copy(NOTEBOOK.with_name("chain.json"), tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, source in enumerate(code_cells(), start=1):
        exec(compile(source, f"cell {number}", "exec"), names)
    smaller, kept, run = names["smaller"], names["plan"], names["run"]
    assert smaller.figures.schedule.recomputes > kept.figures.schedule.recomputes
    assert run.loss[-1] < 0.5 * run.loss[0]
    page = Path("report.html").read_text(encoding="utf-8")
    assert f"{run.accuracy:.1%}"[:-1] in page
    shown = smaller._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!')
    assert html.unescape(shown[len('<iframe srcdoc="') : shown.rindex('" style=')]) == (
        smaller.report().html
    )


def test_the_page_shows_code_of_the_notebook() -> None:
    ran = "\n".join(code_cells()).splitlines()
    shown = [line for block in python_blocks("docs/python.md") for line in block.splitlines()]
    assert len(shown) > 3
    assert [line for line in shown if line not in ran] == []
