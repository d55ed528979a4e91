# SPDX-License-Identifier: Apache-2.0
"""Projects to export, built once and not compiled, and what is made of exports."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compiling import compile_each
from poetfw.exports.library import export_project
from poetfw.firmware.export import FLAGS
from poetfw.pipeline import plan_build, write_build
from poetfw.planning import BuildSettings
from poetfw.settings import ExportSettings

STRICT = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", *FLAGS)


def project(folder: Path, **settings: object) -> Path:
    """A generated project; a small one unless settings say otherwise."""
    small = BuildSettings(board="linux", model="mlp", batch=4, ram_bytes=200_000, momentum=0.0)
    build = plan_build(
        BuildSettings(**{**vars(small), **settings}),  # type: ignore[arg-type]
        progress=lambda text: None,
    )
    write_build(build, folder)
    return folder


def exported(project: Path, target: Path, form: str = "cmake", **settings: str) -> Path:
    """What a project is exported as."""
    export_project(project, target, ExportSettings(form, **settings))
    return target


def archive(folder: Path, *flags: str, compiler: str = "gcc", ar: str = "ar") -> Path:
    """The library of an export, compiled as strictly as poetfw compiles it."""
    library = folder / "objects" / "library.a"
    library.parent.mkdir()
    sources = [path.resolve() for path in sorted((folder / "src").rglob("*.[cS]"))]
    command = [compiler, *STRICT, *flags, f"-I{(folder / 'src').resolve()}"]
    objects = compile_each(command, sources, library.parent.resolve())
    subprocess.run([ar, "rcs", str(library), *objects], check=True, timeout=60)
    return library


def external_symbols(library: Path, nm: str = "nm") -> set[str]:
    """The symbols that a library defines for others."""
    command = [nm, "--defined-only", "--extern-only", "--format=posix", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return {line.split()[0] for line in lines.splitlines() if len(line.split()) > 2}
