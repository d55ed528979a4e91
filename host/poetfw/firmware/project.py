"""The firmware project: rendered in memory first, then written as a whole."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import jinja2

from poetfw.boards import Board
from poetfw.errors import BoardError, OutputError
from poetfw.firmware.platformio_ini import (
    SANITIZE_SUFFIX,
    SYSTEM_SUFFIX,
    known_environments,
    select_environments,
)
from poetfw.firmware.views import ProjectView
from poetfw.resources import firmware_templates_dir

MANIFEST = "poetfw.json"
"""The file that marks a folder as written by poetfw, and lists what was written."""

BUILD_DIR = ".pio"
"""Where PlatformIO keeps objects and its packages; survives when a project is written again."""

RUN_DIR = "run"
"""Where runs leave their storage image; survives as well."""

_GENERATED = (
    ("plan.h.j2", "src/generated/plan.h", None),
    ("plan.c.j2", "src/generated/plan.c", None),
    ("ops.h.j2", "src/generated/ops.h", None),
    ("ops.c.j2", "src/generated/ops.c", None),
    ("step.c.j2", "src/generated/train_step.c", "training"),
    ("step.c.j2", "src/generated/evaluate_step.c", "evaluation"),
)


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


def render_project(view: ProjectView, board: Board) -> Project:
    """Render the sources of a project: generated code, kernels, runtime, linker scripts.

    Args:
        view: what the templates lay out.
        board: decides which hardware abstraction layers and PlatformIO environments go along.
    """
    templates = firmware_templates_dir()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    files: dict[str, bytes] = {}
    for template, target, step in _GENERATED:
        text = environment.get_template(f"generated/{template}").render(
            project=view,
            file_name=PurePosixPath(target).name,
            step=getattr(view, step) if step else None,
        )
        files[target] = text.encode()
    for kernel in view.kernels:
        for ending in (".c", ".h"):
            files[f"src/kernels/{kernel}{ending}"] = (
                templates / f"kernels/{kernel}{ending}"
            ).read_bytes()
    families = _hal_families(board)
    for folder in ("runtime", "storage", "hal"):
        for file in sorted((templates / folder).rglob("*.[ch]")):
            path = file.relative_to(templates)
            if folder != "hal" or len(path.parts) == 2 or path.parts[1] in families:
                files[f"src/{path.as_posix()}"] = file.read_bytes()
    for family in families:
        script = templates / "ld" / f"{family}.ld.j2"
        if script.is_file():
            text = environment.get_template(f"ld/{script.name}").render(
                ram_bytes=board.ram_bytes - board.reserved_ram_bytes,
                flash_bytes=board.flash_bytes,
                stack_bytes=board.stack_bytes,
            )
            files[f"ld/{family}.ld"] = text.encode()
    for file in sorted((templates / "platformio").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            path = file.relative_to(templates / "platformio")
            files[f"platforms/{path.as_posix()}"] = file.read_bytes()
    files["platformio.ini"] = select_environments(_environments(board))
    return Project(files)


def _hal_families(board: Board) -> tuple[str, ...]:
    """The folders of hal/ that a board and its twin need."""
    shared = ("cortex_m",) if board.core.startswith("Cortex-M") else ()
    return (*shared, board.hal, *((board.twin.hal,) if board.twin else ()))


def _environments(board: Board) -> list[str]:
    """The PlatformIO environments of a board: itself, with either compiler, and its twin."""
    names = [board.platformio_env, board.platformio_env + SYSTEM_SUFFIX]
    if board.twin is None:
        names.append(board.platformio_env + SANITIZE_SUFFIX)
    else:
        names += [board.twin.platformio_env, board.twin.reference_env]
    known = known_environments()
    missing = [name for name in names[:1] if name not in known]
    if missing:
        raise BoardError(
            f"board {board.name!r} names the PlatformIO environment {missing[0]!r}, which "
            "platformio.ini does not have",
            "use one of: " + ", ".join(sorted(known)),
        )
    return [name for name in names if name in known]


def check_output_folder(folder: Path) -> None:
    """Check that a project may be written to a folder.

    Raises:
        OutputError: the folder holds files that are not poetfw's, or is no folder.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder", "choose another folder with --out")
    if not any(folder.iterdir()):
        return
    manifest = folder / MANIFEST
    try:
        listed = set(json.loads(manifest.read_bytes())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise OutputError(
            f"{folder} is not empty and holds no project of poetfw (no readable {MANIFEST})",
            "choose another folder with --out",
            "or empty this one yourself",
        ) from None
    foreign = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in (BUILD_DIR, RUN_DIR)
    )
    foreign = [path for path in foreign if path not in listed and path != MANIFEST]
    if foreign:
        raise OutputError(
            f"{folder} holds files that poetfw did not write: {', '.join(foreign[:5])}"
            + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""),
            "move them elsewhere, or choose another folder with --out",
        )


def write_project(project: Project, folder: Path) -> None:
    """Write a project as a whole: it is complete in its folder, or the folder is as before.

    Raises:
        OutputError: the folder is not poetfw's, or cannot be written.
    """
    check_output_folder(folder)
    manifest = {"schema_version": 1, "files": sorted(project.files)}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            staging.chmod(0o755)
            for path, content in {
                **project.files,
                MANIFEST: (json.dumps(manifest, indent=1) + "\n").encode(),
            }.items():
                target = staging / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            _swap(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write one file of a project: it has its old content or its new one, never a part.

    Raises:
        OutputError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _swap(staging: Path, folder: Path) -> None:
    """Put `staging` in the place of `folder`, keeping PlatformIO's objects and the runs."""
    if not folder.exists():
        staging.rename(folder)
        return
    for name in (BUILD_DIR, RUN_DIR):
        if (folder / name).exists():
            (folder / name).rename(staging / name)
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    os.replace(folder, old)
    try:
        staging.rename(folder)
    except BaseException:
        os.replace(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
