# SPDX-License-Identifier: Apache-2.0
"""A disk without room for temporary files is the user's to clear, and no bug of poetfw's."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import OutputError, ToolError
from poetfw.firmware.project import Project, write_project
from poetfw.tools.objects import Sources
from poetfw.tools.process import run_tool
from poetfw.tools.temporary import temporary_folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_temporary_folder_is_gone_afterwards(temporary: Path) -> None:
    with temporary_folder() as folder:
        assert folder.parent == temporary
        (folder / "file").write_bytes(b"1")
    assert not [*temporary.iterdir()]


def test_ctrl_c_while_a_folder_is_made_leaves_none(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    make = tempfile.mkdtemp

    def interrupted(*args: Any) -> str:
        folder = make(*args)
        signal.raise_signal(signal.SIGINT)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with pytest.raises(KeyboardInterrupt), pytest.warns(ResourceWarning), temporary_folder():
        pytest.fail("it goes on")
    with pytest.raises(KeyboardInterrupt), pytest.warns(ResourceWarning):
        write_project(Project({"a": b"1"}), temporary / "out")
    assert not [*temporary.iterdir()]


def test_a_full_disk_is_named_with_what_to_do(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    project: Any = SimpleNamespace(files={"src/a.c": b""})
    said = f"cannot write to the temporary folder {temporary}: No space left on device"
    with (
        pytest.raises(OutputError, match=said) as refused,
        Sources.of(project, load_board("linux")),
    ):
        pass
    assert "TMPDIR" in refused.value.try_next[0]
    assert not [*temporary.iterdir()]


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(OutputError, match="gone: No such file"), temporary_folder():
        pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
def test_a_tool_that_finds_no_room_says_where_some_is_needed(number: int, tmp_path: Path) -> None:
    program = f"raise OSError({number}, {os.strerror(number)!r})"
    with pytest.raises(ToolError) as failed:
        run_tool([sys.executable, "-c", program], tmp_path, 60)
    assert any("TMPDIR" in hint for hint in failed.value.try_next) == (number == errno.ENOSPC)


def test_what_cannot_be_removed_stays() -> None:
    with temporary_folder() as folder:
        folder.rmdir()
        folder.write_text("not a folder any more")
    folder.unlink()
