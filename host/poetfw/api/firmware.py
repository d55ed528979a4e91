# SPDX-License-Identifier: Apache-2.0
"""Built firmware: `poetfw.open`, and runs on twins and boards."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from poetfw.api.folders import built_folder
from poetfw.api.options import RUN, converted, keyword, settings_of
from poetfw.api.report_page import HtmlReport
from poetfw.common.errors import ConfigError, OutputError, listed
from poetfw.common.output_file import replace_file
from poetfw.firmware.project import RUN_DIR
from poetfw.pipeline import REPORT
from poetfw.report import RUN_REPORT, BuildReport, RunReport, json_bytes
from poetfw.report.event_files import check_events_folder, write_events
from poetfw.runs import desks, remote, running
from poetfw.runs.execution import BuildFolder, open_build
from poetfw.runs.observer import Reporting, RunObserver, StepDone
from poetfw.runs.step_trace import expect_one_device, trace_step
from poetfw.runs.trained import trained_weights
from poetfw.runs.verification import verdict
from poetfw.settings import (
    Built,
    OfOneProgram,
    OneMachine,
    RunOutput,
    RunSettings,
    Where,
    arguments,
    declared,
)
from poetfw.tools.link import choose_port
from poetfw.tools.ssh import Host

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from poetfw.api.keywords import RunOptions


def open_firmware(
    folder: str | os.PathLike[str] | None = None, *, board: str | os.PathLike[str] | None = None
) -> Firmware:
    """Open a build that `poetfw build` or `TrainingPlan.compile` wrote.

    Args:
        folder: folder of the build; None for build/BOARD.
        board: board of the build; None for that of the only build in build/.

    Raises:
        OutputError: There is no such build, or it is for another board.
    """
    given = {"out": folder, "board": board}
    known = {keyword(s.flag): s for s in declared(Built).values()}
    values = {name: converted(name, known[name], v) for name, v in given.items() if v is not None}
    return open_built(Built(**values))


def open_built(built: Built) -> Firmware:
    """Open the build that settings name."""
    folder, label = built_folder(built)
    return Firmware(folder, BuildReport.read(folder / REPORT), label)


@dataclass(frozen=True)
class Firmware:
    """A build on disk: the programs of a training, and their storage images.

    Attributes:
        folder: folder of the build.
        figures: figures as in `build.json`.
        label: board that the build must be for; None for any.
    """

    folder: Path
    figures: BuildReport = field(repr=False)
    label: str | None = field(default=None, repr=False)

    @property
    def programs(self) -> Sequence[str]:
        """Names of the programs; an only one's is empty."""
        return list(self.figures.memories)

    def run(
        self,
        *,
        on_step: Callable[[StepDone], object] | None = None,
        **options: Unpack[RunOptions],
    ) -> TrainingRun:
        """Train on a twin of the board, or on the board itself.

        Args:
            on_step: called after each training step. An exception in it ends the run.
            options: options of `poetfw run`, with underscores: `steps=10, verify=True`.

        Raises:
            PoetfwError: An option is invalid, a program is missing or fails, or `verify` found the
                run not to be correct: then a `DeviceError`.
            KeyboardInterrupt: Ctrl-C cancelled the run; nothing keeps running.
        """
        settings, where, machine, files = settings_of(RUN, options)
        for flag, why in self.inapplicable(machine.on_board):
            if options.get(keyword(flag)) not in (None, False, ()):
                raise ConfigError(f"{flag} {why}")
        finished = self.train(
            settings, where, machine, files, Reporting(lambda done, of, text: None, on_step)
        )
        finished.require_verified()
        return finished

    def report(self) -> HtmlReport:
        """Draw the report of the build and, if there is one, of its last run.

        Raises:
            OutputError: A file of the project is missing or malformed.
        """
        return HtmlReport.of(self.folder)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def inapplicable(self, on_board: bool) -> Iterator[tuple[str, str]]:
        """Flags that do not apply to the number of programs, each with the reason."""
        why = (
            f"is for a build of one program, and {self.folder} has one for each device: all start "
            "from the initial weights in each run, on a twin or at --port DEVICE=PORT"
        )
        if len(self.programs) <= 1:
            if not on_board:
                yield from ((flag, "needs --on-board") for flag in ("--port", "--host"))
            return
        for setting in (*declared(OfOneProgram).values(), *declared(OneMachine).values()):
            yield setting.flag, why
        yield from (("--board", why), ("--trace", why))

    def train(
        self,
        settings: RunSettings,
        where: Where,
        machine: OneMachine,
        files: RunOutput,
        observer: RunObserver,
        choose: Callable[[], str] = lambda: choose_port(None),
    ) -> TrainingRun:
        """Train as models of settings say; a failed verification is in the figures.

        Args:
            settings: length and limits of the run.
            where: twin or ports.
            machine: machine of an only program.
            files: files of metrics to write.
            observer: told of progress and of each training step.
            choose: called for the port of a board without one.

        Raises:
            PoetfwError: See `run`.
        """
        if files.tensorboard is not None:
            check_events_folder(files.tensorboard)
        ports = ports_of(self.programs, where.ports)
        on_board = self.programs if machine.on_board else list(ports)
        build = open_build(self.folder, self.label, where.emulator, on_board, machine.threads)
        if files.trace:
            expect_one_device(build.evaluator)
        launch = _launch(build, ports, on_board, machine.host, choose)
        report = running.run_build(build, settings, launch, observer)
        if files.trace:
            traced = trace_step(
                build.evaluator, settings, lambda text: observer.activity(0, 1, text)
            )
            report = replace(report, trace=traced)
        given = arguments(settings, where, machine, files)
        report = replace(report, command=("poetfw", "run", "--out", str(self.folder), *given))
        write_report(self.folder / RUN_DIR, report)
        if files.metrics is not None:
            replace_file(files.metrics, running.metrics_csv(report))
        if files.tensorboard is not None:
            write_events(files.tensorboard, report)
        return TrainingRun(report, build)


def write_report(folder: Path, report: RunReport) -> None:
    """Write the figures of a run; programs of several memories run in folders of their own.

    Raises:
        OutputError: The file cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {folder}: {error.strerror or error}") from error
    replace_file(folder / RUN_REPORT, json_bytes(report.to_json()))


@dataclass(frozen=True)
class TrainingRun:
    """A finished run.

    Attributes:
        figures: figures as in `poetfw run --json`.
        build: the programs that ran.
    """

    figures: RunReport = field(repr=False)
    build: BuildFolder = field(repr=False)

    @property
    def loss(self) -> tuple[float, ...]:
        """Mean loss of each step's batch, as the device computed it."""
        return self.figures.loss

    @property
    def accuracy(self) -> float | None:
        """Share of held-out samples classified correctly; None without classes or evaluation."""
        return self.figures.accuracy

    @property
    def held_out_loss(self) -> float | None:
        """Loss of the held-out samples; None with classes, or without evaluation."""
        return self.figures.held_out_loss

    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """Trained weights and statistics, by the names of the network's state dict."""
        return trained_weights(self.build.evaluator, Path(self.figures.trained))

    def report(self) -> HtmlReport:
        """Draw the report of the build and of its last run, as which this one was recorded.

        Raises:
            OutputError: A file of the project is missing or malformed.
        """
        return HtmlReport.of(self.build.folder)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def require_verified(self) -> None:
        """Check that the run is correct, if it was verified.

        Raises:
            DeviceError: It is not; the message says what differs.
        """
        found = self.figures.verify
        if found is not None and not found.ok:
            raise verdict(found)

    def __repr__(self) -> str:
        return f"<TrainingRun of {self.figures.steps:,} steps on {self.figures.board}>"


def _launch(
    build: BuildFolder,
    ports: Mapping[str, str],
    on_board: Sequence[str],
    host: str | None,
    choose: Callable[[], str],
) -> running.Launch:
    """Function that starts the programs: on twins, at ports, or on a host."""
    if host is not None:
        return functools.partial(remote.on_host, Host(host))
    if build.apart or on_board:
        at = {name: ports.get(name) or choose() for name in on_board}
        return functools.partial(desks.by_desk, at)
    return running.on_twin


def ports_of(programs: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """Ports by program: from DEVICE=PORT, or from PORT for the program of a single device.

    Raises:
        ConfigError: A port names no device, a device has two ports, or two devices share one.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, port = (text if all(programs) else f"={text}").partition("=")
        wrong = None
        if name not in programs or not port:
            known = listed([repr(name) for name in programs])
            wrong = f"{text!r:.200} is not DEVICE=PORT, with a device of the build: {known}"
        elif name in found:
            wrong = f"is given twice for {f'device {name!r:.200}' if name else 'the board'}"
        elif port in found.values():
            wrong = f"{port!r:.200} is given for two devices"
        if wrong is not None:
            raise ConfigError(f"--port {wrong}")
        found[name] = port
    return found
