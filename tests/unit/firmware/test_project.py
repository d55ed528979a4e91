# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from poetfw.boards import Arithmetic
from poetfw.common.errors import OutputError
from poetfw.firmware import Project, check_output_folder, write_project
from poetfw.firmware.project import APPLICATION, kernel_files


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


@pytest.mark.parametrize(
    ("arithmetic", "sums", "product"),
    [
        (Arithmetic.SEPARATE, ["dot.c"], "kernels/product.h"),
        (Arithmetic.FMA, ["dot.c"], "fma/product.h"),
        (Arithmetic.INTEGERS, ["dot_fused.c", "dot_fused_asm.S"], "kernels/product.h"),
    ],
)
def test_a_project_has_one_way_to_sum(
    arithmetic: Arithmetic, sums: list[str], product: str
) -> None:
    paths = kernel_files(["matmul", "relu"], arithmetic)
    names = [path.name for path in paths]
    assert len(names) == len(set(names))
    assert sorted(name for name in names if name.startswith("dot")) == sorted([*sums, "dot.h"])
    assert [p for p in paths if p.name == "product.h" and p.match(f"*/{product}")]
    assert not [p for p in kernel_files(["relu"], arithmetic) if p.name.startswith("dot")]


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_project_stays_in_its_folder(path: str) -> None:
    with pytest.raises(AssertionError):
        Project({path: b""})


def test_files_of_the_users_own_survive(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_project(Project({"src/a.c": b"1", "src/old.c": b"1"}), folder)
    for path in ("thesis.tex", "src/mine.c", "lib/theirs/b.h", ".git/config"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"years of work")
    for _ in range(2):  # what survived once is no more poetfw's than before
        write_project(Project({"src/a.c": b"2"}), folder)
        written = content(folder)
        assert written.pop("poetfw.json")
        assert written.pop("src/a.c") == b"2"
        assert set(written) == {"thesis.tex", "src/mine.c", "lib/theirs/b.h", ".git/config"}
        assert set(written.values()) == {b"years of work"}


def test_no_file_of_the_users_own_is_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_project(Project({"src/a.c": b"1"}), folder)
    (folder / "src/b.c").write_bytes(b"mine")
    before = content(folder)
    with pytest.raises(OutputError, match=r"where it has to write its own: src/b\.c"):
        write_project(Project({"src/a.c": b"2", "src/b.c": b"2"}), folder)
    (folder / "src/b.c").unlink()
    (folder / "src/main.c").write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"where it has to write its own: src/main\.c"):
        write_project(Project({"src/main.c": b"2"}), folder)
    (folder / "src/main.c").unlink()
    (folder / "src/b.c").write_bytes(b"mine")
    assert content(folder) == before


def test_the_application_is_the_users_once_it_is_changed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    application = folder / APPLICATION
    for version in (b"1", b"2"):  # as long as it is not
        write_project(Project({APPLICATION: version, "src/a.c": version}), folder)
        assert application.read_bytes() == version
    application.write_bytes(b"mine")
    for version in (b"3", b"4"):
        write_project(Project({APPLICATION: version, "src/a.c": version}), folder)
        assert application.read_bytes() == b"mine"
        assert (folder / "src/a.c").read_bytes() == version
    application.unlink()
    write_project(Project({APPLICATION: b"5"}), folder)
    assert application.read_bytes() == b"5"


def test_what_cannot_have_two_names_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    write_project(Project({"src/a.c": b"1"}), folder)
    (folder / "mine").write_bytes(b"mine")

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write_project(Project({"src/a.c": b"2"}), folder)
    assert (folder / "mine").read_bytes() == b"mine"


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
