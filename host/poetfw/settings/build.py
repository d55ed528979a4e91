# SPDX-License-Identifier: Apache-2.0
"""Settings of builds and of the choice of trained parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from poetfw.settings.board import Target
from poetfw.settings.declaration import Settings, like, setting
from poetfw.settings.network import NetworkSettings, TrainingSettings
from poetfw.settings.search import BuildLimits, SchedulerSettings
from poetfw.settings.values import Bytes, File, Listed, Positive

if TYPE_CHECKING:
    from poetfw.boards import Board
    from poetfw.schedule.several import DevicesAnswer


@dataclass(frozen=True)
class Budget(Settings, group="Budget"):
    """RAM and time of a training step; None for all RAM the board has left, and any time."""

    ram_bytes: int | None = setting(
        "RAM budget of the arena.",
        otherwise="the board's RAM without stack and static data",
        flag="--ram",
        type=Bytes(1),
        metavar="SIZE",
        first=True,
    )
    deadline_s: float | None = setting(
        "Longest time of one training step.",
        flag="--deadline",
        type=Positive(),
        metavar="SECONDS",
        first=True,
    )


_ON_SYSTEMS = (
    "Threads of each kernel, on a board with an operating system; results are bit-identical for "
    "any number."
)


TOOLCHAINS = ("auto", "system", "stock", "clang", "zig")
"""Choices of `--toolchain`."""

KEEPING = ("auto", "storage", "ram", "never")
"""Choices of `--keep-features`."""


@dataclass(frozen=True)
class Application(Settings, group="Storage and application"):
    """Content of flash and storage, and the API of an application."""

    weights_in_flash: bool = setting(
        "Keep initial weights in flash: training can then start without a storage image.", False
    )
    threads: int | None = setting(
        _ON_SYSTEMS, otherwise="the board file's", type=click.IntRange(1, 64), group="Board"
    )
    checkpoint_every: int = setting(
        "Steps between two checkpoints in storage, from which training resumes after a power cut.",
        0,
        otherwise="at the end only",
        type=click.IntRange(0, 2**32 - 1),
        metavar="STEPS",
    )
    checkpoint_sets: int = setting(
        "Storage slots that checkpoints use in turn; more slots spread the wear.",
        2,
        type=click.IntRange(2, 1024),
    )
    keep_features: str = setting(
        "Keep the frozen part's output for each training sample in storage or in RAM, instead of "
        "calculating it in every epoch; auto: where that takes less energy.",
        "auto",
        type=click.Choice(KEEPING),
    )
    slices: bool = setting(
        "Let the application run a training step in slices, by poetfw_train_some.", False
    )
    watchdog_s: float | None = setting(
        "Make the board's watchdog reset it if training hangs for this time.",
        otherwise="no watchdog",
        flag="--watchdog",
        type=Positive(),
        metavar="SECONDS",
    )
    ring: int = setting(
        "Samples recorded by the device itself that storage keeps for training.",
        0,
        type=click.IntRange(0, 1 << 16),
        metavar="SAMPLES",
    )
    ring_share: int | None = setting(
        "Samples of each batch that come from the ring.",
        otherwise="half of them",
        type=click.IntRange(1),
        metavar="SAMPLES",
        needs=("--ring",),
    )


@dataclass(frozen=True)
class DevicesSettings(Settings, group="Several devices"):
    """Several devices to train on.

    `followed`: plan of an earlier answer, used instead of a search; None to search.
    """

    files: tuple[Path, ...] = setting(
        "Train on several devices instead of a board; each has an arena of its own.",
        (),
        flag="--devices",
        type=Listed(click.Path(path_type=Path)),
        metavar="FILE.toml,...",
        excludes=(
            *("--board", "--ram", "--scheduler", "--slices", "--watchdog", "--ring"),
            *("--ring-share", "--costs", "--db", "--threads", "--keep-features"),
        ),
    )
    ram_fractions: tuple[float, ...] | None = setting(
        "With --devices: RAM for tensors of each, as a fraction of what keeping everything takes.",
        otherwise="from each device's file",
        flag="--ram-fraction",
        type=Listed(Positive()),
        metavar="F,...",
        needs=("--devices",),
    )
    parallel: bool = setting(
        "With --devices: let devices compute in parallel.", False, needs=("--devices",)
    )
    apart: bool = setting(
        "With --devices: build one program per device, each on a board of its own.",
        False,
        needs=("--devices",),
        excludes=("--weights-in-flash", "--checkpoint-every"),
    )
    followed: DevicesAnswer | None = None


@dataclass(frozen=True)
class Programmed(Settings, group="Board", one_of=(("--board",), ("--devices",))):
    """Board to build for; None if there are several devices."""

    board: str | None = like(Target, "board", required=False)


@dataclass(frozen=True)
class Devices(DevicesSettings):
    """Several devices, and an answer whose plan they follow."""

    replay: Path | None = setting(
        "With --devices: use the plan of this answer of `poetfw schedule --devices --json`.",
        type=File(),
        metavar="ANSWER.json",
        needs=("--devices",),
        group="Several devices",
    )


@dataclass(frozen=True)
class CompilerSettings(Settings, group="Output"):
    """Toolchain choice."""

    toolchain: str = setting(
        "Toolchain: this computer's GCC (system), that of the board's stock PlatformIO platform, "
        "clang, or zig (pip install 'poetfw[portable]').",
        "auto",
        type=click.Choice(TOOLCHAINS),
    )


@dataclass(frozen=True)
class _OnBoard:
    """Name of a board or path of its file; empty if devices name their boards."""

    board: str


@dataclass(frozen=True)
class BuildSettings(
    CompilerSettings,
    Application,
    BuildLimits,
    SchedulerSettings,
    Budget,
    TrainingSettings,
    NetworkSettings,
    _OnBoard,
):
    """All settings that determine the files of a build; the fields of the last base come first.

    Attributes:
        devices: several devices; None for a single board.
    """

    devices: DevicesSettings | None = None

    @classmethod
    def of(cls, *models: Settings, **more: Any) -> Self:
        """Combine the fields of several models, and further values by keyword."""
        together = {name: value for model in models for name, value in vars(model).items()}
        return cls(**together | more)

    def on(self, board: Board) -> BuildSettings:
        """Fill in the board's defaults where a setting is None.

        The board's momentum applies only to SGD or the model's default optimizer.
        """
        defaults = board.training
        momentum = defaults.momentum if self.optimizer in (None, "sgd") else None
        return replace(
            self,
            batch=defaults.batch if self.batch is None else self.batch,
            momentum=momentum if self.momentum is None else self.momentum,
        )


_FRACTION = "The same limit, as a fraction of what {} takes."


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
    """Limits of the trained part, which all apply; None for no limit."""

    size_bytes: int | None = setting(
        "Memory of training: trained weights, optimizer state, activations and gradients.",
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
        "Size of the whole arena: the same, with all weights and the page buffer.",
        flag="--ram",
        type=Bytes(1),
        metavar="SIZE",
    )
    energy_j: float | None = setting(
        "Energy of a training step, by the board's costs.",
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
