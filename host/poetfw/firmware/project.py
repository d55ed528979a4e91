# SPDX-License-Identifier: Apache-2.0
"""The firmware project: rendered in memory first, then written as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

import jinja2

from poetfw.boards import Arithmetic, Board, Machine, with_used
from poetfw.boards.environments import SYSTEM_SUFFIX, known_environments
from poetfw.boards.toolchain import STOCK, SYSTEM
from poetfw.common.errors import OutputError, listed
from poetfw.common.interrupts import uninterrupted
from poetfw.common.reading import parse_json, read_bytes
from poetfw.common.resources import firmware_templates_dir, profiler_sketches_dir
from poetfw.common.temporary import temporary_directory
from poetfw.common.version import __version__
from poetfw.firmware.kernel_version import compiled_from
from poetfw.firmware.library import (
    BLOCKS,
    CONSTANTS,
    GENERATED,
    HEADER,
    LIBRARY,
    ValuesInC,
    statuses,
)
from poetfw.firmware.platformio_ini import (
    SANITIZE_SUFFIX,
    select_environments,
)
from poetfw.firmware.views import ProjectView
from poetfw.kernels import InnerBlock

MANIFEST = "poetfw.json"
"""The file that marks a folder as written by poetfw, and lists what was written."""

APPLICATION = "src/main.c"
"""The file that users may edit: an edited one is never overwritten."""

BUILD_DIR = ".pio"
"""Folder of PlatformIO's objects and packages; survives when a project is written again."""

IMAGE = "storage.img"
"""The storage image's name, in a project and where firmware runs."""

RUN_DIR = "run"
"""Folder of runs' storage images; survives as well."""

_GENERATED = (
    ("poetfw.h.j2", HEADER, None),
    ("status_text.c.j2", f"{GENERATED}/status_text.c", None),
    ("plan.h.j2", f"{GENERATED}/plan.h", None),
    ("plan.c.j2", f"{GENERATED}/plan.c", None),
    ("ops.h.j2", f"{GENERATED}/ops.h", None),
    ("ops.c.j2", f"{GENERATED}/ops.c", None),
    ("shapes.h.j2", f"{LIBRARY}/kernels/shapes.h", None),
    ("step.c.j2", f"{GENERATED}/train_step.c", "training"),
    ("step.c.j2", f"{GENERATED}/evaluate_step.c", "evaluation"),
    ("step.c.j2", f"{GENERATED}/predict_step.c", "prediction"),
)

_SOURCES = "src"
_OF_THE_APPLICATION = {
    "main.c": _SOURCES,
    **dict.fromkeys(
        (
            *("console.c", "console.h", "desk.c", "desk.h", "high_water.c", "high_water.h"),
            *("link.c", "link.h", "poet_memory.c", "watchdog.h"),
        ),
        f"{_SOURCES}/runtime",
    ),
}
"""Files of runtime/ that are no part of the library, and where they go."""


@dataclass(frozen=True)
class Project:
    """The files of a project, by their path in it. Nothing is on disk yet."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.files:
            parts = PurePosixPath(path)
            assert not parts.is_absolute(), path
            assert ".." not in parts.parts, path

    def with_files(self, files: Mapping[str, bytes]) -> Project:
        """The project with further files."""
        return Project({**self.files, **files})


def render_project(
    view: ProjectView,
    board: Board,
    weights: Sequence[ValuesInC] = (),
    constants: Sequence[ValuesInC] = (),
) -> Project:
    """Render the sources of a project: generated code, kernels, runtime, linker scripts.

    Args:
        view: what the templates lay out.
        board: decides which hardware abstraction layers and PlatformIO environments go along.
        weights: the initial values to compile into the program; empty for none.
        constants: the values of all constants.
    """
    environment = template_environment()
    files: dict[str, bytes] = {}
    for template, target, step in _GENERATED:
        if step is not None and getattr(view, step) is None:
            continue
        text = environment.get_template(f"generated/{template}").render(
            project=view,
            file_name=PurePosixPath(target).name,
            step=getattr(view, step) if step else None,
            statuses=statuses(),
        )
        files[target] = text.encode()
    if view.training.workers:
        for file in sorted((firmware_templates_dir() / "workers").glob("*.[ch]")):
            files[f"{LIBRARY}/runtime/{file.name}"] = file.read_bytes()
    files[f"{GENERATED}/initial_weights.c"] = render_weights(view.title, view.plan_id, weights)
    if view.blocks:
        files[BLOCKS] = render_blocks(view.title, view.plan_id, view.blocks)
    if constants:
        text = environment.get_template("generated/constants.c.j2").render(
            project=view, constants=constants
        )
        files[CONSTANTS] = text.encode()
    return Project({**copied_sources(board, view.kernels), **files})


def copied_sources(board: Board, kernels: Sequence[str]) -> dict[str, bytes]:
    """Templates that are copied to a project unchanged.

    Args:
        board: decides which hardware abstraction layers and PlatformIO environments go along.
        kernels: the kernels in use, without their endings.
    """
    templates = firmware_templates_dir()
    files: dict[str, bytes] = {}
    for file in kernel_files(kernels, board.compute.arithmetic):
        files[f"{LIBRARY}/kernels/{file.name}"] = file.read_bytes()
    for folder in ("runtime", "storage", "port"):
        for file in sorted((templates / folder).glob("*.[chS]")):
            place = _OF_THE_APPLICATION.get(file.name, f"{LIBRARY}/{folder}")
            files[f"{place}/{file.name}"] = file.read_bytes()
    files[f"{LIBRARY}/hal/hal.h"] = (templates / "hal" / "hal.h").read_bytes()
    for family in sorted(hal_families(board)):
        for file in sorted((templates / "hal" / family).rglob("*.[ch]")):
            path = file.relative_to(templates)
            files[f"{_SOURCES}/{path.as_posix()}"] = file.read_bytes()
    files |= render_linker_scripts(board)
    for file in sorted((templates / "platformio").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            path = file.relative_to(templates / "platformio")
            files[f"platforms/{path.as_posix()}"] = file.read_bytes()
    files["platformio.ini"] = select_environments(
        _environments(board), _default_environments(board), board.toolchain, board.console_baud
    )
    return files


def render_weights(title: str, plan_id: str, weights: Sequence[ValuesInC]) -> bytes:
    """The source of a program's initial weights; without any, one that says that there are none."""
    project = {"title": title, "poetfw_version": __version__, "plan_id": plan_id}
    template = template_environment().get_template("generated/initial_weights.c.j2")
    return template.render(project=project, weights=weights).encode()


def render_blocks(title: str, plan_id: str, blocks: Sequence[InnerBlock]) -> bytes:
    """The assembly of a program's tiles."""
    project = {"title": title, "poetfw_version": __version__, "plan_id": plan_id, "blocks": blocks}
    template = template_environment().get_template("generated/blocks_asm.S.j2")
    return template.render(project=project).encode()


def template_environment() -> jinja2.Environment:
    """The environment that renders a project's templates; it takes a second to make."""
    return _environment(firmware_templates_dir(), profiler_sketches_dir())


@cache
def _environment(*folders: Path) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render_linker_scripts(board: Board) -> dict[str, bytes]:
    """The linker scripts of a board and its twin, by their path in a project."""
    files = {}
    for family in sorted(hal_families(board)):
        script = firmware_templates_dir() / "ld" / f"{family}.ld.j2"
        if script.is_file():
            text = (
                template_environment()
                .get_template(f"ld/{script.name}")
                .render(
                    ram_bytes=board.ram_bytes - board.reserved_ram_bytes,
                    flash_start=f"0x{board.reserved_flash_bytes:08x}",
                    flash_bytes=board.flash_bytes - board.reserved_flash_bytes,
                    stack_bytes=board.stack_bytes,
                )
            )
            files[f"ld/{family}.ld"] = text.encode()
    return files


def read_sources(folder: Path) -> dict[str, bytes]:
    """Read the sources of a project's folder as they are now, by path.

    Raises:
        OutputError: A file cannot be read.
    """
    files = {}
    try:
        for part in ("lib", "src", "ld", "platforms"):
            for path in sorted((folder / part).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    files[path.relative_to(folder).as_posix()] = path.read_bytes()
        files["platformio.ini"] = (folder / "platformio.ini").read_bytes()
    except OSError as error:
        raise OutputError(
            f"{folder}: a source file cannot be read: {_reason(error)}", "run `poetfw build` again"
        ) from error
    return files


def kernel_files(kernels: Sequence[str], arithmetic: Arithmetic) -> tuple[Path, ...]:
    """The sources of kernels, what they include from their folder, and its sources, once each.

    Args:
        kernels: the sources' names without their endings.
        arithmetic: how sums of products are rounded.
    """
    folder = firmware_templates_dir() / "kernels"
    return tuple(p for p in compiled_from(kernels, arithmetic) if p.is_relative_to(folder))


def hal_families(board: Board) -> frozenset[str]:
    """The folders of hal/ that a board and the machines that stand for it need."""
    families = {board.hal, *(machine.hal for machine in _machines(board))}
    if board.toolchain.shared_hal is not None:
        families.add(board.toolchain.shared_hal)
    return with_used(families)


def _machines(board: Board) -> list[Machine]:
    return [machine for twin in board.twins for machine in (twin.machine, twin.reference)]


def twin_environments(board: Board) -> list[str]:
    """The PlatformIO environments of a board's twins, without the board's own."""
    names = [twin.machine.platformio_env for twin in board.twins]
    return list(dict.fromkeys(name for name in names if name is not None))


def _environments(board: Board) -> list[str]:
    """The PlatformIO environments of a board: itself, in each variant, and what stands for it.

    A stock platform brings its own GCC, which takes no other toolchain's flags.
    """
    gcc = board.toolchain.name in (SYSTEM, STOCK)
    variants = ("", SYSTEM_SUFFIX, SANITIZE_SUFFIX) if gcc else ()
    names = [board.platformio_env + suffix for suffix in variants] or [board.own_environment]
    of_machines = [machine.platformio_env for machine in _machines(board)]
    known = known_environments()
    return [name for name in dict.fromkeys([*names, *of_machines]) if name in known]


def _default_environments(board: Board) -> list[str]:
    """Environments that `poetfw build` and a plain `pio run` build: the board, and its twins."""
    itself = board.with_toolchain(SYSTEM) if board.toolchain.name == STOCK else board
    return list(dict.fromkeys([itself.own_environment, *twin_environments(board)]))


def check_output_folder(folder: Path) -> None:
    """Check that a project may be written to a folder.

    Raises:
        OutputError: The folder holds files that are not poetfw's, is not a folder, cannot be read,
            or is the one poetfw runs in.
    """
    try:
        _check_output_folder(folder)
    except (OSError, ValueError, RuntimeError) as error:
        # pathlib raises ValueError for a NUL in a path, RuntimeError for a loop of links
        raise OutputError(
            f"{str(folder)!r:.200} cannot be used: {_reason(error)}",
            "choose another folder with --out",
        ) from error


def _check_output_folder(folder: Path) -> None:
    if "$" in str(folder.resolve()):  # SCons, within PlatformIO, takes it for a variable
        raise OutputError(
            f"{folder} cannot be used: PlatformIO cannot build in a path that holds '$'",
            "choose another folder with --out",
        )
    if not folder.exists():
        _check_writable(folder.resolve().parent)
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder", "choose another folder with --out")
    if Path.cwd().is_relative_to(folder.resolve()):
        raise OutputError(
            f"{folder} is the folder you are in, or one above it, and would be replaced as a whole",
            "choose another folder with --out",
        )
    _check_writable(folder.resolve().parent)  # where it is written before it is put in its place
    if not any(folder.iterdir()):
        return
    if _read_manifest(folder) is None:
        raise OutputError(
            f"{folder} is not empty and holds no project of poetfw (no readable {MANIFEST})",
            "choose another folder with --out",
            "or empty this one yourself",
        )
    refuse_links(folder)


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The list of files that poetfw wrote to a folder.

    Attributes:
        files: paths; what else is there is the user's.
        application: the SHA-256 of the application that was written; "" where nobody knows.
    """

    files: frozenset[str] = frozenset()
    application: str = ""

    @staticmethod
    def of(files: Mapping[str, bytes]) -> _Manifest:
        return _Manifest(frozenset(files), _digest(files.get(APPLICATION, b"")))

    def to_json(self) -> bytes:
        document = {
            "schema_version": 1,
            "application": self.application,
            "files": sorted(self.files),
        }
        return (json.dumps(document, indent=1) + "\n").encode()


def _read_manifest(folder: Path) -> _Manifest | None:
    """The manifest in a folder; None where there is none that can be read."""
    try:
        document = parse_json(read_bytes(folder / MANIFEST))
        return _Manifest(frozenset(document["files"]), str(document.get("application", "")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _users_files(folder: Path, written: _Manifest) -> list[str]:
    """The user's files in a project: files that poetfw did not write, and an edited application."""
    if not folder.is_dir():
        return []
    present = (
        path.relative_to(folder)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and path != folder / MANIFEST
    )
    outside = (path for path in present if path.parts[0] not in (BUILD_DIR, RUN_DIR))
    own = [p.as_posix() for p in outside if p.as_posix() not in written.files]
    application = folder / APPLICATION
    if APPLICATION in written.files and written.application and application.is_file():
        own += [APPLICATION] if _digest(application.read_bytes()) != written.application else []
    return own


def refuse_links(folder: Path) -> None:
    """Check that no file and no folder within a project is a link: what is written stays in it.

    Raises:
        OutputError: One is, or a folder cannot be read.
    """
    try:
        link = _first_link(folder)
    except OSError as error:
        raise OutputError(f"{folder} cannot be used: {error.filename}: {error.strerror}") from error
    if link is not None:
        raise OutputError(
            f"{link} is a link: what poetfw writes there would end up where it leads to",
            f"remove it: rm {shlex.quote(str(link))}",
            "or choose another folder with --out",
        )


def _first_link(folder: Path) -> Path | None:
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_symlink():
                    return Path(entry.path)
                if entry.is_dir():
                    waiting.append(Path(entry.path))
    return None


def write_project(project: Project, folder: Path) -> None:
    """Write a project atomically: its folder has the whole project or is unchanged.

    Files of an earlier build are replaced. Other files stay, and so does an edited application.

    Raises:
        OutputError: The folder is not poetfw's, cannot be written, or holds a file of the user's
            where one of the project belongs.
    """
    check_output_folder(folder)
    before = _read_manifest(folder) or _Manifest()
    try:
        place = folder.resolve()  # where the folder is a link, what it leads to is replaced
        users = _users_files(place, before)
        taken = [path for path in users if path in project.files and path != APPLICATION]
        if taken or (APPLICATION in users and APPLICATION not in before.files):
            raise OutputError(
                f"{folder} holds files that poetfw did not write, where it has to write its own: "
                f"{listed(taken or [APPLICATION], most=5)}",
                "move them elsewhere, or choose another folder with --out",
            )
        made = _make_parents(place)
        try:
            manifest = _Manifest.of(project.files).to_json()
            _write_staged({**project.files, MANIFEST: manifest}, place, users)
        except BaseException:
            _remove_empty(made)
            raise
    except (OSError, RuntimeError) as error:  # RuntimeError: pathlib's, for a loop of links
        raise OutputError(
            f"cannot write {folder}: {_reason(error)}", "choose another folder with --out"
        ) from error


def _write_staged(files: Mapping[str, bytes], folder: Path, kept: Sequence[str]) -> None:
    """Write files to a folder beside the one they are for, and put it in its place.

    Args:
        files: what is written, by path.
        folder: the one that they are for.
        kept: paths in it that go along as they are; they win over what is written.
    """
    with temporary_directory(
        _staging_prefix(folder), folder.parent, ignore_cleanup_errors=True
    ) as made:
        staging = Path(made)
        staging.chmod(0o755)
        for path, content in files.items():
            target = staging / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        for path in kept:
            _take_along(folder / path, staging / path)
        with uninterrupted():
            _swap(staging, folder)


def _take_along(file: Path, target: Path) -> None:
    """Hard-link a file into the staging folder; copy it where links are not possible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(file)
    except OSError:
        shutil.copy2(file, target)


def _staging_prefix(folder: Path) -> str:
    """Begins the name of a folder that replaces another one; short enough wherever that one is."""
    return f".{folder.name[:40]}-"


def _make_parents(folder: Path) -> list[Path]:
    """Make a folder's missing parents; returns those that it made, innermost first."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        _remove_empty(missing)
        raise
    return missing


def _remove_empty(folders: Sequence[Path]) -> None:
    with contextlib.suppress(OSError):  # not there yet, or somebody else uses it by now
        for folder in folders:
            folder.rmdir()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _check_writable(folder: Path) -> None:
    """Check that files can be made in a folder, or in the nearest above it that is there."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    with tempfile.TemporaryFile(dir=there):
        pass


def _swap(staging: Path, folder: Path) -> None:
    """Put `staging` in the place of `folder`, keeping PlatformIO's objects and the runs."""
    if not folder.exists():
        staging.rename(folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=_staging_prefix(folder), dir=folder.parent))
    old = aside / folder.name  # not there yet: Windows replaces no folder, not even an empty one
    try:
        folder.rename(old)
    except OSError:  # the folder may be where a disk is mounted
        aside.rmdir()
        raise
    try:
        staging.rename(folder)
    except OSError:
        old.rename(folder)
        aside.rmdir()
        raise
    for name in (BUILD_DIR, RUN_DIR):
        if (old / name).exists():
            (old / name).rename(folder / name)
    shutil.rmtree(aside, ignore_errors=True)
