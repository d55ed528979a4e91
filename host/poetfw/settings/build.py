# SPDX-License-Identifier: Apache-2.0
"""Settings of a build, and of what may be trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from poetfw.settings.declaration import Settings, setting
from poetfw.settings.network import NetworkSettings, TrainingSettings
from poetfw.settings.search import BuildLimits, SchedulerSettings
from poetfw.settings.values import Bytes, Listed, Positive

if TYPE_CHECKING:
    from poetfw.boards import Board
    from poetfw.schedule.several import DevicesAnswer


@dataclass(frozen=True)
class Budget(Settings, group="Budget"):
    """RAM and time of a training step; None for all that the board leaves, and for any time."""

    ram_bytes: int | None = setting(
        "Budget of the arena.",
        otherwise="the board's RAM without stack and static data",
        flag="--ram",
        type=Bytes(1),
        metavar="SIZE",
        first=True,
    )
    deadline_s: float | None = setting(
        "Upper bound on the time of one training step.",
        flag="--deadline",
        type=Positive(),
        metavar="SECONDS",
        first=True,
    )


_ON_SYSTEMS = (
    "Threads that kernels divide their results among, on a board with an operating system; bits "
    "stay the same."
)


@dataclass(frozen=True)
class Application(Settings, group="Storage and application"):
    """Content of flash and storage, and calls of an application."""

    weights_in_flash: bool = setting(
        "Let the program hold the initial weights: then it can begin without a storage.", False
    )
    threads: int | None = setting(
        _ON_SYSTEMS, otherwise="the board file's", type=click.IntRange(1, 64), group="Board"
    )
    checkpoint_every: int = setting(
        "How often the board writes to storage what it would go on from after a power cut.",
        0,
        otherwise="at the end only",
        type=click.IntRange(0, 2**32 - 1),
        metavar="STEPS",
    )
    checkpoint_sets: int = setting(
        "Places in storage that checkpoints take in turn; more of them wear out later.",
        2,
        type=click.IntRange(2, 1024),
    )
    slices: bool = setting(
        "Let the application have a training step done in parts: poetfw_train_some.", False
    )
    watchdog_s: float | None = setting(
        "Have the board's watchdog reset it where the training hangs for so long.",
        otherwise="no watchdog",
        flag="--watchdog",
        type=Positive(),
        metavar="SECONDS",
    )
    ring: int = setting(
        "How many samples of its own the device keeps in storage, to learn from.",
        0,
        type=click.IntRange(0, 1 << 16),
        metavar="SAMPLES",
    )
    ring_share: int | None = setting(
        "How many samples of each training step come from the ring.",
        otherwise="half of them",
        type=click.IntRange(1),
        metavar="SAMPLES",
    )


@dataclass(frozen=True)
class DevicesSettings(Settings, group="Several devices"):
    """Several devices to train on.

    A build may follow an answer instead of searching for one: `followed`.
    """

    files: tuple[Path, ...] = setting(
        "Instead of a board: several devices of one, each with an arena of its own.",
        (),
        flag="--devices",
        type=Listed(click.Path(path_type=Path)),
        metavar="FILE.toml,...",
        excludes=(
            *("--board", "--ram", "--scheduler", "--slices", "--watchdog", "--ring"),
            *("--ring-share", "--costs", "--db", "--threads"),
        ),
    )
    ram_fractions: tuple[float, ...] | None = setting(
        "With --devices: what each has for tensors, as fractions of what keeping everything takes.",
        otherwise="what its file says",
        flag="--ram-fraction",
        type=Listed(Positive()),
        metavar="F,...",
        needs=("--devices",),
    )
    parallel: bool = setting("With --devices: let them work at once.", False, needs=("--devices",))
    apart: bool = setting(
        "With --devices: a program for each, on a board of its own; their boards may differ.",
        False,
        needs=("--devices",),
        excludes=("--weights-in-flash", "--checkpoint-every"),
    )
    followed: DevicesAnswer | None = None


@dataclass(frozen=True)
class _OnBoard:
    """A board by its name or the path of its file; empty where devices have boards."""

    board: str


@dataclass(frozen=True)
class BuildSettings(
    Application, BuildLimits, SchedulerSettings, Budget, TrainingSettings, NetworkSettings, _OnBoard
):
    """Settings of a build: all that decides its files; its fields begin with the last base's.

    Attributes:
        devices: several devices instead of a board's only one; None for that.
    """

    devices: DevicesSettings | None = None

    @classmethod
    def of(cls, *models: Settings, **more: Any) -> Self:
        """The settings in some models, and others."""
        together = {name: value for model in models for name, value in vars(model).items()}
        return cls(**together | more)

    def on(self, board: Board) -> BuildSettings:
        """The settings, with the board's defaults where nothing is set.

        The board's momentum is a default of the models' own optimizer only.
        """
        defaults = board.training
        momentum = defaults.momentum if self.optimizer in (None, "sgd") else None
        return replace(
            self,
            batch=defaults.batch if self.batch is None else self.batch,
            momentum=momentum if self.momentum is None else self.momentum,
        )


_FRACTION = "The same, as a fraction of what {} takes."


@dataclass(frozen=True)
class UpdateBudget(
    Settings,
    one_of=(
        ("--budget-bytes",),
        ("--bytes-fraction",),
        ("--ram",),
        ("--budget-joules",),
        ("--joules-fraction",),
    ),
):
    """Limits of what is trained, all of which hold; None for no limit."""

    size_bytes: int | None = setting(
        "What training may take: trained weights, optimizer state, activations, gradients.",
        flag="--budget-bytes",
        type=Bytes(1),
        metavar="SIZE",
    )
    bytes_share: float | None = setting(
        _FRACTION.format("training everything"),
        flag="--bytes-fraction",
        type=Positive(),
        metavar="F",
    )
    arena_bytes: int | None = setting(
        "The same, with the weights and the page buffer: the whole arena.",
        flag="--ram",
        type=Bytes(1),
        metavar="SIZE",
    )
    energy_j: float | None = setting(
        "What a training step may take, by the board's costs.",
        flag="--budget-joules",
        type=Positive(),
        metavar="JOULES",
    )
    energy_share: float | None = setting(
        _FRACTION.format("a step that trains everything"),
        flag="--joules-fraction",
        type=Positive(),
        metavar="F",
    )
