# SPDX-License-Identifier: Apache-2.0
"""Export of a project's library for another build system."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from poetfw.common.errors import ConfigError, OutputError
from poetfw.firmware import (
    GENERATED,
    IMAGE,
    check_output_folder,
    comment_text,
    initial_weights,
    read_committed,
    read_sources,
    refuse_links,
    render_weights,
    write_project,
)
from poetfw.firmware.c_text import C_KEYWORDS
from poetfw.firmware.export import LONGEST_NAME, ExportFacts, export_library
from poetfw.firmware.project import RUN_DIR
from poetfw.ops import Array
from poetfw.pipeline import REPORT
from poetfw.report import BuildReport, Stages, read_stages
from poetfw.runs.execution import board_of
from poetfw.schedule import StepKind
from poetfw.settings import ExportSettings

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TAKEN = C_KEYWORDS | frozenset(
    "poet main "
    # headers that sources include
    "assert complex ctype errno fenv inttypes iso646 limits locale math setjmp signal stdarg "
    "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar "
    "unistd wchar wctype".split()
)
"""Words that C, C++ or their libraries reserve."""


def export_project(project: Path, target: Path, settings: ExportSettings) -> tuple[str, ...]:
    """Write a project's library to a folder, for another build system.

    Args:
        project: the folder that `poetfw build` wrote; its sources are taken as they are.
        target: folder of the library: empty, or an earlier export.
        settings: form, name and weights of the library.

    Returns:
        The paths of the files, sorted.

    Raises:
        ConfigError: The name is not usable for a library.
        OutputError: The folder is not a project, or the target cannot be written.
        DeviceError: The weights cannot be read.
    """
    _check_name(settings.name)
    refuse_links(project)
    report = BuildReport.read(project / REPORT)
    board = board_of(project, report)
    stages = read_stages(project, board.erase_bytes)
    if len(stages.training.parts) > 1:
        raise ConfigError(
            f"{project} is for several devices, whose threads are no part of a library"
            if stages.training.threads
            else f"{project} is one of several programs, which train together only",
            "build it with --board, and export that",
        )
    check_output_folder(target)
    if (target / REPORT).exists():
        raise OutputError(
            f"{target} holds a project of `poetfw build`, which an export would replace",
            "name another folder with --out",
        )
    facts = ExportFacts(
        title=f"{comment_text(report.model)} on {report.board}, batch {report.batch}",
        plan_id=report.plan_id,
        arena_bytes=stages.memory.arena_bytes,
        pages=any(s.kind in (StepKind.PAGE_IN, StepKind.PAGE_OUT) for s in stages.training.steps),
        classifies=report.classifies,
        weights=settings.weights,
        machine_flags=board.toolchain.machine_flags,
    )
    weights = initial_weights(_identifiers(stages), _weights(project, stages, settings.weights))
    sources = read_sources(project) | {
        f"{GENERATED}/initial_weights.c": render_weights(facts.title, facts.plan_id, weights)
    }
    exported = export_library(sources, settings.form, settings.name, facts)
    write_project(exported, target)
    return tuple(sorted(exported.files))


def _check_name(name: str) -> None:
    """Check that a name is a valid prefix of C identifiers and not used by a known library.

    Raises:
        ConfigError: The name is invalid or reserved.
    """
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name) or name in _TAKEN:
        raise ConfigError(
            f"{name!r:.60} cannot be a library's name",
            f"use lower-case letters, digits and single underscores, at most {LONGEST_NAME}, "
            "with a letter first, and no word of C or its library: --name keyword",
        )


def _identifiers(stages: Stages) -> Mapping[str, str]:
    """Names of the persistent tensors, by their numbered identifiers."""
    return {f"P{i:04d}": tensor.name for i, tensor in enumerate(stages.program.persistent)}


def _weights(project: Path, stages: Stages, which: str) -> Mapping[str, Array]:
    """Parameters and running statistics, without optimizer state.

    Raises:
        DeviceError: The project has no weights of this kind.
    """
    if which == "none":
        return {}
    program = stages.program
    tensors = {t.name: t for t in (*program.training.tensors, program.metric)}
    image = project / RUN_DIR / IMAGE if which == "trained" else project / IMAGE
    if not image.is_file():
        raise OutputError(
            f"{image} does not exist",
            "run `poetfw run` first, or fetch a board's with `poetfw pull`"
            if which == "trained"
            else "run `poetfw build` again",
        )
    used = {tensor.name for tensor in program.evaluation.persistent} - {program.metric.name}
    values = read_committed(image, stages.slots, tensors)
    return {name: array for name, array in values.items() if name in used}
