# SPDX-License-Identifier: Apache-2.0
"""Settings of schedules and scheduler comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from poetfw.settings.board import Target
from poetfw.settings.build import Budget, DevicesSettings
from poetfw.settings.declaration import Settings, like, setting
from poetfw.settings.network import NetworkSettings, TrainingSettings
from poetfw.settings.output import Detailed, Printed
from poetfw.settings.values import (
    BOARD,
    MODEL,
    Bytes,
    Factor,
    Listed,
    NameOrFile,
    OutputFile,
    Positive,
)

_NETWORKS = "NAME|FILE.pt2|FILE.onnx"
_DEVICES = "FILE.toml,...|FILE.json"


@dataclass(frozen=True)
class TaskSettings(
    Settings,
    group="Problem",
    one_of=(("--problem",), ("--board", "--model"), ("--devices",)),
):
    """Problem from a file, or from a model and a board or several devices."""

    problem: Path | None = setting(
        "Read the scheduling problem from a file.",
        type=click.Path(path_type=Path),
        metavar="FILE.json",
        excludes=("--board", "--model", "--batch", "--costs", "--db"),
        first=True,
    )
    board: str | None = like(
        Target,
        "board",
        what="Board, with --model; instead of --problem.",
        metavar="NAME|FILE.toml",
        required=False,
        group="",
    )
    model: str | None = like(
        NetworkSettings,
        "model",
        what="Model, with --board.",
        default=None,
        metavar=_NETWORKS,
        group="",
    )
    batch: int = like(TrainingSettings, "batch", default=1, otherwise="", group="")
    devices: tuple[str, ...] | None = like(
        DevicesSettings,
        "files",
        what="Several devices instead of a board, with --model; or a problem with its devices.",
        default=None,
        type=Listed(NameOrFile()),
        metavar=_DEVICES,
        excludes=("--problem", "--board", "--scheduler", "--ram", "--costs", "--db", "--model-as"),
        first=True,
    )


@dataclass(frozen=True)
class TaskBudget(Settings, group="Budget"):
    """RAM and time of a training step; None for the problem's."""

    ram_bytes: int | None = like(
        Budget,
        "ram_bytes",
        what="RAM budget of the arena, as in a build.",
        otherwise="the problem's",
        type=Bytes(0),
        excludes=("--ram-fraction",),
    )
    ram_fraction: tuple[float, ...] | None = setting(
        "RAM budget beside what never leaves RAM, as a fraction of what keeping everything takes; "
        "with --devices one for each, with --pareto the smallest and the largest.",
        type=Listed(Positive()),
        metavar="F[,F]",
        first=True,
    )
    deadline_s: float | None = like(Budget, "deadline_s")


@dataclass(frozen=True)
class Several(Settings, group="Several devices"):
    """Objective and rules of a plan for several devices."""

    minimise: str = setting(
        "With --devices: objective to minimise.",
        "time",
        type=click.Choice(["time", "energy"]),
    )
    parallel: bool = like(DevicesSettings, "parallel")
    plot: Path | None = setting(
        "With --devices: draw the timeline of every device. With --pareto: draw energy over RAM.",
        type=OutputFile(".svg", ".png"),
        metavar="FILE.svg|FILE.png",
        needs=("--devices", "--pareto"),
    )


@dataclass(frozen=True)
class Answer(Detailed):
    """Alternatives to solving, and format of the result."""

    pareto: int | None = setting(
        "Solve at this number of budgets instead of one, for the curve of energy over RAM.",
        type=click.IntRange(2, 1000),
        metavar="POINTS",
        excludes=("--devices", "--ram", "--replay", "--export"),
        first=True,
    )
    replay: Path | None = setting(
        "Do not solve: simulate the plan of this answer.",
        type=click.Path(path_type=Path),
        metavar="ANSWER.json",
        first=True,
    )
    export: Path | None = setting(
        "Do not solve: write the problem to this file, for --problem.",
        type=OutputFile(),
        metavar="FILE.json",
        excludes=("--replay", "--json", "--plot"),
        first=True,
    )


@dataclass(frozen=True)
class Compared(Settings, group="Task", one_of=(("--board",), ("--devices",))):
    """Model, and a board or several devices."""

    board: str | None = like(Target, "board", required=False, group="")
    devices: tuple[str, ...] | None = like(
        TaskSettings,
        "devices",
        what="Several devices instead of a board: alone, together in turn, and in parallel.",
        excludes=(
            *("--board", "--ram", "--schedulers", "--deadline-factor", "--costs", "--db"),
            *("--solver", "--csv", "--plot", "--model-as"),
        ),
        group="",
    )
    model: str = like(NetworkSettings, "model", metavar=_NETWORKS, group="")
    batch: int = like(TaskSettings, "batch", group="")


_SHARES = (
    "RAM budgets beside what never leaves RAM, as fractions of what keeping everything takes{}."
)


@dataclass(frozen=True)
class Budgets(Settings, group="Budget"):
    """Budgets and deadline of a comparison."""

    fractions: tuple[float, ...] | None = setting(
        _SHARES.format("; one per device with --devices"),
        otherwise="0.2 to 0.9; with --devices the files'",
        type=Listed(Positive()),
        metavar="F,...",
        first=True,
    )
    ram_bytes: tuple[int, ...] = like(
        Budget,
        "ram_bytes",
        what="RAM budget of the arena instead of a fraction; may be given repeatedly.",
        default=(),
        otherwise="",
        multiple=True,
        excludes=("--fractions",),
    )
    deadline_factor: float | None = setting(
        "Deadline as a multiple of the time of keeping everything (checkpoint-all).",
        otherwise="none",
        type=Positive(),
        metavar="F",
        first=True,
    )


@dataclass(frozen=True)
class Figures(Printed):
    """Output files and format of a comparison."""

    csv: Path | None = setting(
        "Write all figures of every cell to this file.",
        type=OutputFile(),
        metavar="FILE.csv",
        first=True,
    )
    plot: Path | None = setting(
        "Plot energy over RAM to this file.",
        type=OutputFile(".svg", ".png"),
        metavar="FILE.svg|FILE.png",
        first=True,
    )


@dataclass(frozen=True)
class GridSettings(Settings, group="Task"):
    """Boards, models, budgets and deadlines; a sweep covers all combinations."""

    boards: tuple[str, ...] = setting(
        "Boards to cover.", type=Listed(BOARD), metavar="NAME,...", first=True, required=True
    )
    models: tuple[str, ...] = setting(
        "Models to cover.", type=Listed(MODEL), metavar="NAME,...", first=True, required=True
    )
    fractions: tuple[float, ...] | None = like(
        Budgets, "fractions", what=_SHARES.format(""), otherwise="0.2 to 0.9", group=""
    )
    deadlines: tuple[float | None, ...] = setting(
        "Deadlines as multiples of checkpoint-all's time, or none.",
        (None,),
        otherwise="none",
        type=Listed(Factor()),
        metavar="F,...",
        first=True,
    )
    batch: int = like(TaskSettings, "batch", group="Options", first=False)
