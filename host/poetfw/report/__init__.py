# SPDX-License-Identifier: Apache-2.0
"""Reports and pictures of builds, runs and profiles."""

from poetfw.report.cost_plots import draw_costs
from poetfw.report.cost_report import cost_report
from poetfw.report.pictures import draw_pictures
from poetfw.report.plots import Line, Panel, draw_panels
from poetfw.report.stage_files import Stages, json_bytes, read_stages, slots_of, stage_files
from poetfw.report.summary import (
    RUN_REPORT,
    AlteredTensor,
    BuildReport,
    EnduranceReport,
    Evaluation,
    FeaturesReport,
    FloatsInstead,
    FrozenAs,
    MoreRam,
    OpChecks,
    OpError,
    ProgramReport,
    ProgramRun,
    RamPoint,
    RunReport,
    StepTrace,
    StoredAs,
    StreamingReport,
    TimedStep,
    Verification,
)
from poetfw.report.timeline import draw_timeline

__all__ = [
    "RUN_REPORT",
    "AlteredTensor",
    "BuildReport",
    "EnduranceReport",
    "Evaluation",
    "FeaturesReport",
    "FloatsInstead",
    "FrozenAs",
    "Line",
    "MoreRam",
    "OpChecks",
    "OpError",
    "Panel",
    "ProgramReport",
    "ProgramRun",
    "RamPoint",
    "RunReport",
    "Stages",
    "StepTrace",
    "StoredAs",
    "StreamingReport",
    "TimedStep",
    "Verification",
    "cost_report",
    "draw_costs",
    "draw_panels",
    "draw_pictures",
    "draw_timeline",
    "json_bytes",
    "read_stages",
    "slots_of",
    "stage_files",
]
