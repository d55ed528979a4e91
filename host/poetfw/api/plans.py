# SPDX-License-Identifier: Apache-2.0
"""Plans of trainings: `poetfw.plan`, and firmware from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from poetfw.api.answers import followed, read_answer
from poetfw.api.folders import default_folder
from poetfw.api.inputs import Network, Samples, as_files
from poetfw.api.options import PLAN, settings_of
from poetfw.api.report_page import HtmlReport
from poetfw.boards import load_board
from poetfw.common.limits import Deadline
from poetfw.firmware import check_output_folder
from poetfw.pipeline import REPORT, compile_build, plan_build, write_build
from poetfw.planning import (
    Build,
    boards_of,
    costs_from,
    database_for,
    folders_of,
    report_build,
    saved_by_more_ram,
)
from poetfw.report import BuildReport, json_bytes
from poetfw.schedule import Tell, tell_nobody
from poetfw.schedule.several.solve import Tell as TellOfDevices
from poetfw.settings import (
    BuildSettings,
    CostSettings,
    Devices,
    DevicesSettings,
    Programmed,
    Settings,
)
from poetfw.tools import require_toolchain

if TYPE_CHECKING:
    from poetfw.api.firmware import Firmware
    from poetfw.api.keywords import PlanOptions


def _silent(*_: object) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class PlanWatch:
    """Functions that are told of a search.

    Attributes:
        progress: called with the name of each stage as it begins.
        tell: called with the progress of a search for a schedule.
        tell_of_devices: called with that of a search for a plan of several devices.
    """

    progress: Callable[[str], None] = _silent
    tell: Tell = tell_nobody
    tell_of_devices: TellOfDevices = _silent


def plan(
    model: Network = None,
    *,
    board: str | os.PathLike[str] | None = None,
    data: Samples = None,
    ram: int | str | None = None,
    weights: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    example: Any = None,
    progress: Callable[[str], None] = _silent,
    **options: Unpack[PlanOptions],
) -> TrainingPlan:
    """Plan the training of a network on a board: schedule, addresses, firmware sources.

    Args:
        model: name of a built-in model, a `.pt2` or `.onnx` file, or a `torch.nn.Module` in
            training mode; None for the default.
        board: name of a board, or a path of its file; None if `devices` are given.
        data: name or path of a data set; or arrays (x, y), or arrays by name.
        ram: budget of the arena in bytes, or a text such as "200K"; None for all that is free.
        weights: initial weights by name, or a file of them; None for the network's own.
        example: input of a module, a tuple of several; None for the first samples of `data`.
        progress: called with the name of each stage as it begins.
        options: options of `poetfw build`, with underscores: `learning_rate=0.05`.

    Raises:
        PoetfwError: An option, the board, the network or the data is invalid, or there is no plan
            within the budget: then an `InfeasibleError`.
        KeyboardInterrupt: Ctrl-C cancelled the search.
    """
    given = {**options, "board": board, "ram": ram}
    batch = options.get("batch")
    if batch is None and board is not None:
        batch = load_board(os.fspath(board)).training.batch
    with as_files(model, data, weights, example, batch) as files:
        programmed, *others = settings_of(PLAN, given | files)
        return plan_settings(PlanWatch(progress), programmed, *others)


def plan_settings(
    watch: PlanWatch,
    programmed: Programmed,
    *models: Settings,
    end: Deadline | None = None,
    check: Callable[[BuildSettings], None] = _silent,
    command: Sequence[str] = (),
) -> TrainingPlan:
    """Plan a training by models of settings.

    Args:
        watch: functions that are told of the search.
        programmed: the board.
        models: the other models of `poetfw.api.options.PLAN`, in any order.
        end: deadline of the search; None for the settings' time limit, from now.
        check: called with the build's settings before the search.
        command: the command line that the settings come from, for reports; empty for none.

    Raises:
        PoetfwError: See `plan`.
    """
    (devices,) = (one for one in models if isinstance(one, Devices))
    (costs,) = (one for one in models if isinstance(one, CostSettings))
    others = [one for one in models if one is not devices and one is not costs]
    several: DevicesSettings | None = devices if devices.files else None
    if devices.replay is not None:
        several = replace(devices, followed=read_answer(devices.replay))
    settings = BuildSettings.of(*others, board=programmed.board or "", devices=several)
    check(settings)
    end = end or Deadline(settings.time_limit_s)
    db = None if several else database_for(settings.board, costs.costs, costs.db)
    with followed(devices.replay):
        planned = plan_build(
            settings,
            watch.progress,
            costs_from(db),
            deadline=end,
            tell=watch.tell,
            tell_of_devices=watch.tell_of_devices,
        )
    if several is None:
        saves = saved_by_more_ram(planned, settings.on(planned.image.board), end)
        planned = replace(planned, **saves._asdict(), timing=end.timing())
    return TrainingPlan(settings, replace(planned, command=tuple(command)))


@dataclass(frozen=True)
class TrainingPlan:
    """Plan of a training, with the sources of its firmware, in memory.

    Attributes:
        settings: settings that it follows from.
        build: decisions and files.
    """

    settings: BuildSettings = field(repr=False)
    build: Build = field(repr=False)

    @property
    def default_folder(self) -> Path:
        """Folder of the project if none is given: build/BOARD."""
        return default_folder(boards_of(self.settings))

    @cached_property
    def figures(self) -> BuildReport:
        """Figures as in `build.json`; those of the compiler are None."""
        return report_build(self.build, self.default_folder)

    @property
    def peak_bytes(self) -> int:
        """Bytes of the arena that a training step takes."""
        return self.figures.peak_bytes

    @property
    def budget_bytes(self) -> int:
        """Bytes that the arena may take."""
        return self.figures.budget_bytes

    @property
    def energy_j(self) -> float:
        """Energy of a training step in joules, by the plan's costs."""
        return self.figures.schedule.energy_j

    @property
    def time_s(self) -> float:
        """Time of a training step in seconds, by the plan's costs."""
        return self.figures.schedule.time_s

    @property
    def warnings(self) -> tuple[str, ...]:
        """Differences between the imported network and its author's intent."""
        return self.figures.warnings

    def write(self, folder: str | os.PathLike[str] | None = None) -> Firmware:
        """Write the project without compiling it.

        Args:
            folder: folder of the project; None for build/BOARD.

        Raises:
            OutputError: The folder is not poetfw's, or cannot be written.
        """
        from poetfw.api.firmware import Firmware

        place = self.default_folder if folder is None else Path(folder)
        return Firmware(place, write_build(self.build, place))

    def compile(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        progress: Callable[[str], None] = _silent,
    ) -> Firmware:
        """Write the project and compile it for the board and its twins.

        Args:
            folder: folder of the project; None for build/BOARD.
            progress: called with the name of each stage as it begins.

        Raises:
            OutputError: The folder is not poetfw's, or cannot be written.
            ToolError: The compiler or PlatformIO is missing or fails.
        """
        check_target(self.settings, folder, compiles=True)
        written = self.write(folder)
        report = compile_build(self.build, written.figures, written.folder, progress)
        return replace(written, figures=report)

    def report(self) -> HtmlReport:
        """Draw the report of the plan: RAM over time, costs by layer, and what is proven."""
        document = json_bytes(self.figures.to_json())
        return HtmlReport.of({**self.build.project.files, REPORT: document})

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def __repr__(self) -> str:
        figures = self.figures
        return (
            f"<TrainingPlan of {figures.model} on {figures.board}: {self.peak_bytes:,} of "
            f"{self.budget_bytes:,} B, {self.energy_j * 1e3:.4g} mJ and {self.time_s:.4g} s a step>"
        )


def check_target(
    settings: BuildSettings, folder: str | os.PathLike[str] | None, compiles: bool
) -> None:
    """Check, before a search, that a build can be written, and compiled if it shall be.

    Raises:
        OutputError: A folder is not poetfw's.
        ToolError: A compiler is missing.
    """
    boards = boards_of(settings)
    place = default_folder(boards) if folder is None else Path(folder)
    for written in (place, *folders_of(boards, place).values()):
        check_output_folder(written)
    for known in boards.values() if compiles else ():
        require_toolchain(known)
