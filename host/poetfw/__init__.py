# SPDX-License-Identifier: Apache-2.0
"""poetfw: train neural networks on microcontrollers that cannot hold the training.

`plan` a training, `compile` its firmware, `run` it: docs/python.md. Modules are imported when a
name is used first; `__init__.pyi` has the types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from poetfw.common.version import __version__

__all__ = [
    "Firmware",
    "HtmlReport",
    "InfeasibleError",
    "PoetfwError",
    "StepDone",
    "SweepTable",
    "TrainingPlan",
    "TrainingRun",
    "__version__",
    "open",
    "plan",
    "schedule",
    "sweep",
]

_PLACES = {
    "Firmware": "api.firmware",
    "HtmlReport": "api.report_page",
    "InfeasibleError": "common.errors",
    "PoetfwError": "common.errors",
    "StepDone": "runs.observer",
    "SweepTable": "api.searches",
    "TrainingPlan": "api.plans",
    "TrainingRun": "api.firmware",
    "open": "api.firmware:open_firmware",
    "plan": "api.plans",
    "sweep": "api.searches",
}


def __getattr__(name: str) -> Any:
    """Import the module of a name when it is used first."""
    if name == "schedule":
        return import_module("poetfw.schedule")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, own = _PLACES[name].partition(":")
    return getattr(import_module(f"poetfw.{module}"), own or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
