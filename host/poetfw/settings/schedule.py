# SPDX-License-Identifier: Apache-2.0
"""Settings of a schedule, and of a comparison of schedulers."""

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
    """A problem, or a model on a board or on several devices."""

    problem: Path | None = setting(
        "A problem.",
        type=click.Path(path_type=Path),
        metavar="FILE.json",
        excludes=("--board", "--model", "--batch", "--costs", "--db"),
        first=True,
    )
    board: str | None = like(
        Target,
        "board",
        what="Instead of a problem: a board …",
        metavar="NAME|FILE.toml",
        required=False,
        group="",
    )
    model: str | None = like(
        NetworkSettings, "model", what="… and a model.", default=None, metavar=_NETWORKS, group=""
    )
    batch: int = like(TrainingSettings, "batch", default=1, otherwise="", group="")
    devices: tuple[str, ...] | None = like(
        DevicesSettings,
        "files",
        what="Instead of a board: several devices for the model, or a problem with its devices.",
        default=None,
        type=Listed(NameOrFile()),
        metavar=_DEVICES,
        excludes=("--problem", "--board", "--scheduler", "--ram", "--costs", "--db", "--model-as"),
        first=True,
    )


@dataclass(frozen=True)
class TaskBudget(Settings, group="Budget"):
    """RAM and time of a step; None for the problem's."""

    ram_bytes: int | None = like(
        Budget,
        "ram_bytes",
        what="Budget: what the arena may occupy, as in a build.",
        otherwise="the problem's",
        type=Bytes(0),
        excludes=("--ram-fraction",),
    )
    ram_fraction: tuple[float, ...] | None = setting(
        "Budget as a fraction of what keeping everything takes beside what never leaves RAM; one "
        "for each of --devices; the smallest and the largest of --pareto.",
        type=Listed(Positive()),
        metavar="F[,F]",
        first=True,
    )
    deadline_s: float | None = like(Budget, "deadline_s")


@dataclass(frozen=True)
class Several(Settings, group="Several devices"):
    """Aim and rules of a plan for several devices."""

    minimise: str = setting(
        "With --devices: what a step shall take little of.",
        "time",
        type=click.Choice(["time", "energy"]),
    )
    parallel: bool = like(DevicesSettings, "parallel")
    plot: Path | None = setting(
        "With --devices: draw who computes what when. With --pareto: draw energy over RAM.",
        type=OutputFile(".svg", ".png"),
        metavar="FILE.svg|FILE.png",
        needs=("--devices", "--pareto"),
    )


@dataclass(frozen=True)
class Answer(Detailed):
    """Use of a problem, and form of the result."""

    pareto: int | None = setting(
        "Instead of one schedule, the energy over RAM: the best schedules at so many budgets.",
        type=click.IntRange(2, 1000),
        metavar="POINTS",
        excludes=("--devices", "--ram", "--replay", "--export"),
        first=True,
    )
    replay: Path | None = setting(
        "Do not solve: run the simulator on the plan of this answer.",
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
    """A model on a board, or on several devices."""

    board: str | None = like(Target, "board", required=False, group="")
    devices: tuple[str, ...] | None = like(
        TaskSettings,
        "devices",
        what="Instead of a board: several devices, together and each alone, in turn and at once.",
        excludes=(
            *("--board", "--ram", "--schedulers", "--deadline-factor", "--costs", "--db"),
            *("--solver", "--csv", "--plot", "--model-as"),
        ),
        group="",
    )
    model: str = like(NetworkSettings, "model", metavar=_NETWORKS, group="")
    batch: int = like(TaskSettings, "batch", group="")


_SHARES = "Budgets as fractions of what keeping everything takes beside what never leaves RAM{}."


@dataclass(frozen=True)
class Budgets(Settings, group="Budget"):
    """Budgets and deadline of a comparison."""

    fractions: tuple[float, ...] | None = setting(
        _SHARES.format("; with --devices one for each"),
        otherwise="0.2 to 0.9; with --devices what they have",
        type=Listed(Positive()),
        metavar="F,...",
        first=True,
    )
    ram_bytes: tuple[int, ...] = like(
        Budget,
        "ram_bytes",
        what="Instead: a budget of the arena, as `poetfw build` takes it; may be given repeatedly.",
        default=(),
        otherwise="",
        multiple=True,
        excludes=("--fractions",),
    )
    deadline_factor: float | None = setting(
        "Deadline as a multiple of checkpoint-all's time.",
        otherwise="none",
        type=Positive(),
        metavar="F",
        first=True,
    )


@dataclass(frozen=True)
class Figures(Printed):
    """Files and form of a comparison's figures."""

    csv: Path | None = setting(
        "Write every figure of every cell to this file.",
        type=OutputFile(),
        metavar="FILE.csv",
        first=True,
    )
    plot: Path | None = setting(
        "Draw energy over RAM here.",
        type=OutputFile(".svg", ".png"),
        metavar="FILE.svg|FILE.png",
        first=True,
    )


@dataclass(frozen=True)
class GridSettings(Settings, group="Task"):
    """Boards, models, budgets and deadlines, of which a sweep takes every combination."""

    boards: tuple[str, ...] = setting(
        "Which boards.", type=Listed(BOARD), metavar="NAME,...", first=True, required=True
    )
    models: tuple[str, ...] = setting(
        "Which models.", type=Listed(MODEL), metavar="NAME,...", first=True, required=True
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
