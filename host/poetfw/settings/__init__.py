# SPDX-License-Identifier: Apache-2.0
"""Settings: models whose fields declare options, keys of `poetfw.toml`, and their helps."""

from poetfw.settings.board import Built, Host, Port, Project, Target
from poetfw.settings.build import (
    Application,
    Budget,
    BuildSettings,
    DevicesSettings,
    UpdateBudget,
)
from poetfw.settings.declaration import Model, Setting, declared, like, setting, take
from poetfw.settings.export import ExportSettings
from poetfw.settings.network import Network, Training
from poetfw.settings.output import Detailed, Printed
from poetfw.settings.run import OfOneProgram, OneMachine, RunOutput, RunSettings, Where
from poetfw.settings.search import (
    BuildLimits,
    CellLimits,
    Costs,
    Database,
    Limits,
    Scheduler,
    Schedulers,
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
    "Costs",
    "Database",
    "Detailed",
    "DevicesSettings",
    "ExportSettings",
    "Host",
    "Limits",
    "Model",
    "Network",
    "OfOneProgram",
    "OneMachine",
    "Port",
    "Printed",
    "Project",
    "RunOutput",
    "RunSettings",
    "Scheduler",
    "Schedulers",
    "Setting",
    "Solver",
    "Target",
    "Training",
    "UpdateBudget",
    "UpdateLimits",
    "Where",
    "declared",
    "like",
    "setting",
    "take",
]
