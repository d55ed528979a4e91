# SPDX-License-Identifier: Apache-2.0
"""Settings of checks: limits of a build's figures, and the build to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from poetfw.settings.declaration import Settings, setting
from poetfw.settings.values import Bytes, File, Positive, Share


@dataclass(frozen=True)
class CheckLimits(Settings, group="Limits"):
    """Limits of figures; None for no limit."""

    ram_bytes: int | None = setting(
        "RAM of a program: arena, stack and static data.",
        flag="--max-ram",
        type=Bytes(1),
        metavar="SIZE",
        first=True,
    )
    flash_bytes: int | None = setting(
        "Flash of a program: code and constants.",
        flag="--max-flash",
        type=Bytes(1),
        metavar="SIZE",
        first=True,
    )
    step_s: float | None = setting(
        "Planned time of a training step.",
        flag="--max-step-s",
        type=Positive(),
        metavar="SECONDS",
        first=True,
    )
    energy_j: float | None = setting(
        "Planned energy of a training step.",
        flag="--max-energy-j",
        type=Positive(),
        metavar="JOULES",
        first=True,
    )
    accuracy: float | None = setting(
        "Smallest share of held-out samples that are classified correctly after training.",
        flag="--min-accuracy",
        type=Share(),
        metavar="SHARE",
        first=True,
    )


@dataclass(frozen=True)
class CheckInputs(Settings, group="Comparison"):
    """Build to compare with, and the run whose accuracy is checked."""

    against: Path | None = setting(
        "Compare with another build: its folder, or its build.json.",
        type=click.Path(path_type=Path),
        metavar="DIR|build.json",
        first=True,
    )
    accuracy_of: Path | None = setting(
        "Take the accuracy from this document of `poetfw run --json`.",
        otherwise="train on the twin now",
        type=File(),
        metavar="FILE.json",
        needs=("--min-accuracy",),
        first=True,
    )


@dataclass(frozen=True)
class CheckOutput(Settings, group="Output"):
    """File of the summary; None for that of GitHub Actions, if it names one."""

    summary: Path | None = setting(
        "Append the summary in Markdown to this file.",
        otherwise="GITHUB_STEP_SUMMARY, if it is set",
        type=File(),
        metavar="FILE.md",
        first=True,
    )
