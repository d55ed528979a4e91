# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from poetfw.errors import OutputError
from poetfw.firmware import Project, check_output_folder, write_project


def content(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_writing_again_replaces_everything_but_objects_and_runs(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_project(Project({"src/a.c": b"1", "old.txt": b"2"}), folder)
    for kept in (".pio/build/x.o", "run/storage.img"):
        (folder / kept).parent.mkdir(parents=True)
        (folder / kept).write_bytes(b"kept")
    write_project(Project({"src/a.c": b"3"}), folder)
    written = content(folder)
    assert written.pop("poetfw.json")
    assert written == {"src/a.c": b"3", ".pio/build/x.o": b"kept", "run/storage.img": b"kept"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_project_stays_in_its_folder(path: str) -> None:
    with pytest.raises(AssertionError):
        Project({path: b""})


def test_foreign_files_are_named_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_project(Project({"src/a.c": b"1"}), folder)
    (folder / "thesis.tex").write_bytes(b"years of work")
    with pytest.raises(OutputError, match=r"did not write: thesis\.tex"):
        write_project(Project({"src/a.c": b"2"}), folder)
    assert (folder / "thesis.tex").read_bytes() == b"years of work"
    assert (folder / "src/a.c").read_bytes() == b"1"


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(OutputError, match=r"holds no project of poetfw"):
        check_output_folder(tmp_path)


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    write_project(Project({"a": b"1"}), tmp_path / "empty")
    assert (tmp_path / "empty/a").read_bytes() == b"1"


def test_failure_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    write_project(Project({"src/a.c": b"1"}), folder)
    before = content(folder)

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OutputError, match="disk full"):
        write_project(Project({"src/a.c": b"2"}), folder)
    monkeypatch.undo()
    assert content(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
