# SPDX-License-Identifier: Apache-2.0
"""Settings: dataclasses whose fields declare options, keys of `poetfw.toml`, and help texts."""

from poetfw.settings.board import Built, HostSettings, PortSettings, ProjectSettings, Target
from poetfw.settings.build import (
    Application,
    Budget,
    BuildSettings,
    CompilerSettings,
    Devices,
    DevicesSettings,
    Programmed,
    UpdateBudget,
)
from poetfw.settings.declaration import (
    Setting,
    Settings,
    arguments,
    contradictions,
    declared,
    like,
    setting,
    take,
)
from poetfw.settings.export import ExportSettings
from poetfw.settings.network import NetworkSettings, TrainingSettings
from poetfw.settings.output import Detailed, Printed
from poetfw.settings.run import OfOneProgram, OneMachine, RunOutput, RunSettings, Where
from poetfw.settings.search import (
    BuildLimits,
    CellLimits,
    CostSettings,
    DatabaseSettings,
    Limits,
    Schedulers,
    SchedulerSettings,
    Solver,
    UpdateLimits,
)

__all__ = [
    "Application",
    "Budget",
    "BuildLimits",
    "BuildSettings",
    "Built",
    "CellLimits",
    "CompilerSettings",
    "CostSettings",
    "DatabaseSettings",
    "Detailed",
    "Devices",
    "DevicesSettings",
    "ExportSettings",
    "HostSettings",
    "Limits",
    "NetworkSettings",
    "OfOneProgram",
    "OneMachine",
    "PortSettings",
    "Printed",
    "Programmed",
    "ProjectSettings",
    "RunOutput",
    "RunSettings",
    "SchedulerSettings",
    "Schedulers",
    "Setting",
    "Settings",
    "Solver",
    "Target",
    "TrainingSettings",
    "UpdateBudget",
    "UpdateLimits",
    "Where",
    "arguments",
    "contradictions",
    "declared",
    "like",
    "setting",
    "take",
]
