# SPDX-License-Identifier: Apache-2.0
"""Settings of a search: by which scheduler, with which costs, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from poetfw.common.limits import TIME_LIMIT_S, WORK_LIMIT
from poetfw.common.option_values import COSTS, SCHEDULERS
from poetfw.settings.declaration import Settings, like, setting
from poetfw.settings.values import File, Listed, Positive


@dataclass(frozen=True)
class SchedulerSettings(Settings, group="Search"):
    """The scheduler."""

    scheduler: str = setting(
        "How to schedule recomputing and paging: `poetfw compare` has them all.",
        "poet",
        type=click.Choice(SCHEDULERS),
        metavar="NAME",
    )


@dataclass(frozen=True)
class Schedulers(Settings, group="Search"):
    """The schedulers of a comparison; None for all."""

    schedulers: tuple[str, ...] | None = setting(
        "Which schedulers.",
        otherwise="all but poet-algorithm-1",
        type=Listed(click.Choice(SCHEDULERS)),
        metavar="NAME,...",
    )


@dataclass(frozen=True)
class Solver(Settings, group="Search"):
    """The solver, and the model of a device that it is given."""

    solver: str = setting("A solver that cvxpy finds installed.", "HIGHS")
    model_as: str = setting(
        "What counts: all that the device does, or only what POET's paper models.",
        "device",
        type=click.Choice(["device", "poet"]),
    )


@dataclass(frozen=True)
class DatabaseSettings(Settings, group="Costs"):
    """The file of measured costs; None for the user's."""

    db: Path | None = setting(
        "The database of measured costs.",
        otherwise="poetfw/costs.sqlite in your data folder",
        type=File(),
        metavar="FILE",
    )


@dataclass(frozen=True)
class CostSettings(DatabaseSettings):
    """The costs that a schedule is planned with; None for measured ones if there are any."""

    costs: str | None = setting(
        "Which costs to plan with.",
        otherwise="measured, if there are any of the board",
        type=click.Choice(COSTS),
    )


_LIMIT = "Safety limit {}; where it ends a search, another run may differ."


@dataclass(frozen=True)
class Limits(Settings, group="Search"):
    """Limits of a command's searches."""

    work_limit: float = setting(
        "How much to search: a unit is about a second of one core, at any load.",
        WORK_LIMIT,
        type=Positive(),
        metavar="UNITS",
    )
    time_limit_s: float = setting(
        _LIMIT.format("for the whole command"),
        TIME_LIMIT_S,
        flag="--time-limit",
        type=Positive(),
        metavar="SECONDS",
    )


@dataclass(frozen=True)
class BuildLimits(Limits):
    """Limits of a build."""

    time_limit_s: float = like(
        Limits, "time_limit_s", what=_LIMIT.format("for all but the compilers")
    )


@dataclass(frozen=True)
class UpdateLimits(Limits):
    """Limits of a search for what is to be trained."""

    work_limit: float = like(Limits, "work_limit", default=10.0)


@dataclass(frozen=True)
class CellLimits(Limits):
    """Limits of each search of a comparison."""

    work_limit: float = like(
        Limits,
        "work_limit",
        what="How much to search for each scheduler at each budget: a unit is about a second of "
        "one core, at any load.",
        default=10.0,
    )
    time_limit_s: float = like(Limits, "time_limit_s", what=_LIMIT.format("for each of them"))
