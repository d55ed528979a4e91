# SPDX-License-Identifier: Apache-2.0
"""Cells of the example notebook, without the packages that show it."""

from __future__ import annotations

import json
from typing import Any

from unit.project.spdx import ROOT

NOTEBOOK = ROOT / "examples" / "python.ipynb"


def code_cells() -> list[str]:
    """Sources of the cells with code."""
    document: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(c["source"]) for c in document["cells"] if c["cell_type"] == "code"]
