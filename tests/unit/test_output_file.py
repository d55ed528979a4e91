# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from poetfw.common.errors import OutputError
from poetfw.common.output_file import check_output_file, check_output_files, replace_file


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_has_the_permissions_that_the_user_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    replace_file(path, b"1")
    assert path.read_bytes() == b"1"
    assert permissions(path) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"before")
    path.chmod(0o604)
    replace_file(path, b"after")
    assert path.read_bytes() == b"after"
    assert permissions(path) == 0o604


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_written_through(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    target = folder / "target.csv"
    if there:
        target.write_bytes(b"before")
    link = tmp_path / "link.csv"
    link.symlink_to("elsewhere/target.csv")
    replace_file(link, b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert sorted(tmp_path.rglob("*")) == sorted([folder, target, link])


@pytest.mark.parametrize("write", [check_output_file, lambda path: replace_file(path, b"")])
@pytest.mark.parametrize("linked", [True, False])
def test_only_regular_files_are_replaced(tmp_path: Path, write, linked: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = pipe
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    message = f"^cannot write {re.escape(str(path))}: it is not a regular file$"
    with pytest.raises(OutputError, match=message):
        write(path)
    assert pipe.is_fifo()
    with pytest.raises(OutputError, match="not a regular file"):
        write(tmp_path)


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "old.csv"
    path.write_bytes(b"before")
    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OutputError, match=r"old\.csv: No space left on device$"):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_check_touches_no_file_of_the_users(tmp_path: Path) -> None:
    files = {tmp_path / name: name.encode() for name in ("a.csv", ".a.csv.new", ".a.csv-new")}
    for path, content in files.items():
        path.write_bytes(content)
    check_output_file(tmp_path / "a.csv")
    check_output_file(tmp_path / "b.csv")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a.csv", "No such file or directory"),
        ("file/a.csv", "Not a directory"),
        ("a" * 300, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_the_check_finds_what_writing_would_fail_at(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / name
    for write in (check_output_file, lambda path: replace_file(path, b"")):
        with pytest.raises(OutputError, match=f"{re.escape(str(path))}: {reason}$"):
            write(path)
    assert (tmp_path / "loop").is_symlink()


def test_a_name_as_long_as_names_may_be_is_fine(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    check_output_file(path)
    replace_file(path, b"1")
    assert path.read_bytes() == b"1"


def test_a_folder_is_checked_and_not_made(tmp_path: Path) -> None:
    check_output_files(tmp_path / "a" / "b")
    check_output_files(tmp_path)
    assert not [*tmp_path.iterdir()]
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    for name in ("loop", "file", "file/a"):
        with pytest.raises(OutputError, match=f"cannot write to the folder .*{name}: "):
            check_output_files(tmp_path / name)
