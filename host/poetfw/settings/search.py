# SPDX-License-Identifier: Apache-2.0
"""Settings of searches: scheduler, solver, costs and limits."""

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
    """Scheduler of a search."""

    scheduler: str = setting(
        "Scheduler of recomputation and paging; `poetfw compare` compares them.",
        "poet",
        type=click.Choice(SCHEDULERS),
        metavar="NAME",
    )


@dataclass(frozen=True)
class Schedulers(Settings, group="Search"):
    """Schedulers of a comparison; None for the default selection."""

    schedulers: tuple[str, ...] | None = setting(
        "Schedulers to compare.",
        otherwise="all but poet-algorithm-1",
        type=Listed(click.Choice(SCHEDULERS)),
        metavar="NAME,...",
    )


@dataclass(frozen=True)
class Solver(Settings, group="Search"):
    """Solver, and the device model that it optimises."""

    solver: str = setting("Solver: one that cvxpy finds installed.", "HIGHS")
    model_as: str = setting(
        "Cost model: all that the device does, or only what the POET paper models.",
        "device",
        type=click.Choice(["device", "poet"]),
    )


@dataclass(frozen=True)
class DatabaseSettings(Settings, group="Costs"):
    """Database of measured costs; None for the user's default."""

    db: Path | None = setting(
        "Database of measured costs.",
        otherwise="poetfw/costs.sqlite in your data folder",
        type=File(),
        metavar="FILE",
    )


@dataclass(frozen=True)
class CostSettings(DatabaseSettings):
    """Costs to plan with; None for measured ones if there are any."""

    costs: str | None = setting(
        "Costs to plan with.",
        otherwise="measured, if the board has any",
        type=click.Choice(COSTS),
    )


_LIMIT = "Safety limit {}; if it ends a search, results may differ between runs."


@dataclass(frozen=True)
class Limits(Settings, group="Search"):
    """Limits of a command's searches."""

    work_limit: float = setting(
        "Search effort; a unit is about a second of one idle core, and does not depend on load.",
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
        Limits, "time_limit_s", what=_LIMIT.format("for the build without compilers")
    )


@dataclass(frozen=True)
class UpdateLimits(Limits):
    """Limits of the choice of trained parameters."""

    work_limit: float = like(Limits, "work_limit", default=10.0)


@dataclass(frozen=True)
class CellLimits(Limits):
    """Limits of each search in a comparison."""

    work_limit: float = like(
        Limits,
        "work_limit",
        what="Search effort for each scheduler at each budget; a unit is about a second of one "
        "idle core, and does not depend on load.",
        default=10.0,
    )
    time_limit_s: float = like(Limits, "time_limit_s", what=_LIMIT.format("for each search"))
