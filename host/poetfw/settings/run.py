# SPDX-License-Identifier: Apache-2.0
"""Settings of a run."""

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
    """Length of a run, and its verification; None for as many steps as the build recommends."""

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
    verify: bool = setting(
        "Check every op, compare with NumPy and, bit by bit, with a run that keeps everything.",
        False,
        excludes=("--patience",),
        group="Check",
        first=True,
    )
    timeout_s: float = setting(
        "How long a run may take.",
        600.0,
        flag="--timeout",
        type=Positive(),
        metavar="SECONDS",
        group="Limits",
    )


@dataclass(frozen=True)
class OfOneProgram(Settings, group="Training"):
    """Checkpoints and early stopping; programs that train together have neither."""

    checkpoint_every: int | None = like(
        Application,
        "checkpoint_every",
        what="Steps between two checkpoints, 0 for one at the end.",
        default=None,
        otherwise="the build's",
        group="",
    )
    resume: bool = setting(
        "Go on from the last checkpoint, not from the beginning.",
        False,
        excludes=("--verify", "--patience"),
        first=True,
    )
    patience: int | None = setting(
        "End when held-out samples got no better for so long; keep the best epoch. On a twin.",
        type=click.IntRange(1),
        metavar="EPOCHS",
    )


@dataclass(frozen=True)
class RunSettings(OfOneProgram, _Length):
    """Settings of a run."""

    silence_s: float = setting(
        "How long the device may say nothing, as within a step.",
        SILENCE_S,
        flag="--silence",
        type=Positive(),
        metavar="SECONDS",
        group="Limits",
    )


@dataclass(frozen=True)
class RunOutput(Settings, group="Output"):
    """Files that a run of one program writes."""

    metrics: Path | None = setting(
        "Write loss and metric by step.", type=OutputFile(), metavar="FILE.csv", first=True
    )
    tensorboard: Path | None = setting(
        "Write them as TensorBoard's events, too.", type=Folder(), metavar="FOLDER"
    )
    trace: bool = setting(
        "Time each op and each transfer of a training step, too.",
        False,
        group="Check",
        first=True,
    )


@dataclass(frozen=True)
class Where(Settings, group="Board"):
    """Machines that programs run on."""

    emulator: str | None = setting(
        "Which of the board's twins.", otherwise="its first", metavar="NAME", first=True
    )
    ports: tuple[str, ...] = setting(
        "The board's serial port, or socket://HOST:PORT. For a build with --apart, that of a "
        "device; may be given for each.",
        (),
        otherwise="the only one on USB",
        flag="--port",
        metavar="[DEVICE=]PORT",
        multiple=True,
        first=True,
    )


@dataclass(frozen=True)
class OneMachine(HostSettings):
    """The machine that one program runs on."""

    on_board: bool = setting(
        "Run it on the board itself, not on a twin.",
        False,
        excludes=("--emulator", "--threads", "--trace", "--patience"),
        first=True,
    )
    threads: int | None = like(Application, "threads", otherwise="the build's")
