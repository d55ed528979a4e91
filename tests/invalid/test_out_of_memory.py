# SPDX-License-Identifier: Apache-2.0
"""A computer with too little memory: an error with its exit code, and no report of a bug."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from poetfw.cli import main


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (MemoryError(), 3, "memory ran out"),
        (ImportError("libx.so: failed to map segment from shared object"), 3, "memory ran out"),
        (ImportError("No module named 'numpy'"), 70, "No module named 'numpy'"),
    ],
)
def test_a_shortage_of_memory_is_no_bug(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    says: str,
) -> None:
    def short(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", short)
    monkeypatch.setattr(sys, "argv", ["poetfw", "schedule", "--json"])
    assert main._run() == code
    out, err = capsys.readouterr()
    assert says in json.dumps(json.loads(out))
    assert ("bug" in err) == (code == 70)


def test_a_command_without_memory_for_numpy_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """OpenBLAS would end the process where it finds too little, without a word of ours."""
    monkeypatch.setattr(main, "_START_BYTES", 1 << 62)
    monkeypatch.setattr(main.cli, "main", lambda **_: pytest.fail("it began"))
    monkeypatch.setattr(sys, "argv", ["poetfw", "schedule"])
    assert main._run() == 3
    assert "memory ran out" in capsys.readouterr().err
