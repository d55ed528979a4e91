# SPDX-License-Identifier: Apache-2.0
"""What is needed for TensorBoard's events is missed before a run, not after it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from poetfw.common.errors import ToolError
from poetfw.report.event_files import check_events_folder


def test_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ToolError, match="tensorboardX, which is not installed") as refused:
        check_events_folder(tmp_path / "logs")
    assert refused.value.try_next == ("pip install 'poetfw[tensorboard]'",)
    assert not (tmp_path / "logs").exists()
