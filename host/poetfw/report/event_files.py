# SPDX-License-Identifier: Apache-2.0
"""Loss and metric of a run as events that TensorBoard shows."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from poetfw.common.errors import OutputError, ToolError
from poetfw.report import RunReport


def check_events_folder(folder: Path) -> None:
    """Make the folder and check that events can be written, before the run starts.

    Raises:
        OutputError: The folder cannot be made.
        ToolError: What writes events is not installed.
    """
    _tensorboardx()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error


def write_events(folder: Path, report: RunReport) -> None:
    """Write one file of events: `loss` of every step, and the held-out metric of every evaluation.

    Raises:
        OutputError: It cannot be written.
        ToolError: What writes events is not installed.
    """
    kind = report.metric_name
    tensorboardx = _tensorboardx()
    try:
        with tensorboardx.SummaryWriter(str(folder)) as events:
            for step, loss in enumerate(report.loss, start=report.resumed_from + 1):
                events.add_scalar("loss", loss, step)
            for each in report.evaluations:
                events.add_scalar(kind, getattr(each, kind), each.step)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error


def _tensorboardx() -> ModuleType:
    try:
        return import_module("tensorboardX")
    except ImportError as error:
        raise ToolError(
            "events are written with tensorboardX, which is not installed",
            "pip install 'poetfw[tensorboard]'",
        ) from error
