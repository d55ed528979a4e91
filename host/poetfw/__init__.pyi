# SPDX-License-Identifier: Apache-2.0
from poetfw.api.firmware import Firmware as Firmware
from poetfw.api.firmware import TrainingRun as TrainingRun
from poetfw.api.firmware import open_firmware as open
from poetfw.api.plans import TrainingPlan as TrainingPlan
from poetfw.api.plans import plan as plan
from poetfw.api.report_page import HtmlReport as HtmlReport
from poetfw.api.searches import SweepTable as SweepTable
from poetfw.api.searches import schedule as schedule
from poetfw.api.searches import sweep as sweep
from poetfw.common.errors import InfeasibleError as InfeasibleError
from poetfw.common.errors import PoetfwError as PoetfwError
from poetfw.common.version import __version__ as __version__
from poetfw.runs.observer import StepDone as StepDone

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
