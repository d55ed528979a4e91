# SPDX-License-Identifier: Apache-2.0
"""A Linux board reached by ssh: copies program and image there and runs the program."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from poetfw.common.errors import BoardError, OutputError, WrongBoardError
from poetfw.firmware import IMAGE, RunRequest, set_request
from poetfw.firmware.project import RUN_DIR
from poetfw.memory import ONLY
from poetfw.runs.execution import BuildFolder, BuiltProject, check_resumable
from poetfw.runs.observer import RunObserver, Update
from poetfw.runs.running import ProgramLog, Training, report_steps
from poetfw.settings import RunSettings
from poetfw.tools import elf_machine, run_firmware
from poetfw.tools.ssh import Host

PROGRAM = "firmware.elf"

_MACHINES: Mapping[str, tuple[str, ...]] = {
    "EM_X86_64": ("x86_64", "amd64"),
    "EM_AARCH64": ("aarch64", "arm64"),
}
"""Outputs of `uname -m`, by ELF machine name."""


def folder_of(project: BuiltProject) -> str:
    """Folder of a project on the host, relative to the user's home."""
    return f"poetfw/{project.board.name}"


def flash(project: BuiltProject, host: Host, update: Update) -> None:
    """Copy a project's program and storage image to the host.

    Raises:
        BoardError: The board's firmware is not a Linux program.
        HostError: The host cannot be reached, or has no space left.
        WrongBoardError: The program is for another processor.
    """
    _check_processor(project, host)
    update(0, 2, "copying the program")
    host.send(project.flashable, folder_of(project), PROGRAM, 0o755)
    update(1, 2, "copying the storage image")
    host.send(project.image, folder_of(project), IMAGE, 0o644)
    update(2, 2, "copied")


def on_host(
    host: Host,
    build: BuildFolder,
    request: RunRequest,
    settings: RunSettings,
    observer: RunObserver,
) -> Training:
    """Train a build with a single program on another computer.

    The program runs on a fresh storage image or, to resume, on the one on the host.

    Raises:
        BoardError: The board's firmware is not a Linux program.
        DeviceError: The program hangs or reports an error.
        HostError: The host cannot be reached, or has no space left.
        WrongBoardError: The program on the host is not the project's.
    """
    project = build.evaluator
    _check_processor(project, host)
    folder = folder_of(project)
    program = f"{folder}/{PROGRAM}"
    there = host.run(f"sha256sum -- {shlex.quote(program)} 2>/dev/null || true").split()
    if there[:1] != [hashlib.sha256(project.flashable.read_bytes()).hexdigest()]:
        raise WrongBoardError(
            f"{host.name}:{program} is not this build's program, or is not there",
            f"copy it: `poetfw flash --board {project.board.name} --host {host.name}`",
        )
    image = project.folder / RUN_DIR / IMAGE
    try:
        image.parent.mkdir(exist_ok=True)
        image.unlink(missing_ok=True)  # a link must not redirect the copy
        if not settings.resume:
            shutil.copyfile(project.image, image)
    except OSError as error:
        raise OutputError(f"{image} cannot be written: {error.strerror or error}") from error
    if settings.resume:
        _fetch(host, f"{folder}/{IMAGE}", image)
        check_resumable(image, project.image)
    set_request(image, request)
    observer.activity(0, request.steps, "copying the storage image")
    host.send(image, folder, IMAGE, 0o644)
    log = run_firmware(
        host.command(f"cd {shlex.quote(folder)} && exec ./{PROGRAM} {IMAGE}"),
        image.parent,
        settings.timeout_s,
        report_steps(request, observer),
        steps=request.steps,
        evaluations=project.evaluations if request.evaluate else 0,
        resume=settings.resume,
        silence_s=settings.silence_s,
    )
    observer.activity(0, request.steps, "fetching the trained weights")
    _fetch(host, f"{folder}/{IMAGE}", image)
    set_request(image, replace(request, capture=False))
    return Training({ONLY: ProgramLog(log, image, host.name)})


def _fetch(host: Host, path: str, image: Path) -> None:
    try:
        with image.open("wb") as target:
            host.fetch(path, target)
    except OSError as error:
        raise OutputError(f"{image} cannot be written: {error.strerror or error}") from error


def _check_processor(project: BuiltProject, host: Host) -> None:
    if not project.board.toolchain.hosted:
        raise BoardError(
            f"the firmware of {project.board.name!r} is not a program that a host could run",
            "leave --host out, and name its --port",
        )
    needed = elf_machine(project.flashable)
    there = host.run("uname -m").strip()
    if there not in _MACHINES.get(needed, ()):
        raise WrongBoardError(
            f"{host.name} has another processor ({there!r:.40}) than the one that the program is "
            f"for ({needed})",
            "name the host of a board that the build is for",
        )
