# SPDX-License-Identifier: Apache-2.0
"""Settings of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from poetfw.common.option_values import SILENCE_S
from poetfw.settings.board import HostSettings
from poetfw.settings.build import Application
from poetfw.settings.declaration import Settings, like, setting
from poetfw.settings.values import Folder, OutputFile, Positive


@dataclass(frozen=True)
class _Length(Settings, group="Training"):
    """Length of a run, and its verification; None for the number of steps in the build."""

    steps: int | None = setting(
        "Training steps.",
        otherwise="the model's epochs",
        type=click.IntRange(1),
        excludes=("--epochs",),
        first=True,
    )
    epochs: int | None = setting(
        "Passes over the training samples.", type=click.IntRange(1), first=True
    )
    skip_evaluation: bool = setting(
        "Train without evaluating the held-out samples afterwards.",
        False,
        excludes=("--patience",),
    )
    verify: bool = setting(
        "Check every op, compare with NumPy and, bit by bit, with a run that keeps everything.",
        False,
        excludes=("--patience",),
        group="Check",
        first=True,
    )
    timeout_s: float = setting(
        "Time limit of a run.",
        600.0,
        flag="--timeout",
        type=Positive(),
        metavar="SECONDS",
        group="Limits",
    )


@dataclass(frozen=True)
class OfOneProgram(Settings, group="Training"):
    """Checkpoints and early stopping, which programs that train together do not have."""

    checkpoint_every: int | None = like(
        Application,
        "checkpoint_every",
        what="Steps between two checkpoints; 0 for one at the end.",
        default=None,
        otherwise="the build's",
        group="",
    )
    resume: bool = setting(
        "Resume from the last checkpoint.",
        False,
        excludes=("--verify", "--patience"),
        first=True,
    )
    patience: int | None = setting(
        "Stop after so many epochs without improvement; keep the best. On a twin only.",
        type=click.IntRange(1),
        metavar="EPOCHS",
    )


@dataclass(frozen=True)
class RunSettings(OfOneProgram, _Length):
    """Settings of a run."""

    silence_s: float = setting(
        "Longest silence of the device, such as within a step.",
        SILENCE_S,
        flag="--silence",
        type=Positive(),
        metavar="SECONDS",
        group="Limits",
    )


@dataclass(frozen=True)
class RunOutput(Settings, group="Output"):
    """Output files of a run of one program."""

    metrics: Path | None = setting(
        "Write loss and metric of each step.", type=OutputFile(), metavar="FILE.csv", first=True
    )
    tensorboard: Path | None = setting(
        "Also write them as TensorBoard events.", type=Folder(), metavar="FOLDER"
    )
    trace: bool = setting(
        "Also time each op and each transfer of a training step.",
        False,
        group="Check",
        first=True,
    )


@dataclass(frozen=True)
class Where(Settings, group="Board"):
    """Twin or ports that programs run on."""

    emulator: str | None = setting(
        "Twin of the board to run on.", otherwise="its first", metavar="NAME", first=True
    )
    ports: tuple[str, ...] = setting(
        "The board's serial port, or socket://HOST:PORT. For a build with --apart: "
        "DEVICE=PORT; may be given for each device.",
        (),
        otherwise="the only one on USB",
        flag="--port",
        metavar="[DEVICE=]PORT",
        multiple=True,
        first=True,
    )


@dataclass(frozen=True)
class OneMachine(HostSettings):
    """Machine that a single program runs on."""

    on_board: bool = setting(
        "Run on the board itself instead of a twin.",
        False,
        excludes=("--emulator", "--threads", "--trace", "--patience"),
        first=True,
    )
    threads: int | None = like(Application, "threads", otherwise="the build's")
