# SPDX-License-Identifier: Apache-2.0
"""`poetfw demo`: builds and trains the default network on an emulated nRF52840."""

from __future__ import annotations

import time
from dataclasses import dataclass

from poetfw.cli import output
from poetfw.cli.build import print_build
from poetfw.cli.command import command
from poetfw.cli.run import finish
from poetfw.settings import (
    CompilerSettings,
    Detailed,
    ProjectSettings,
    RunSettings,
    Settings,
    arguments,
    like,
)

BOARD = "nrf52840"


@dataclass(frozen=True)
class Shortened(Settings):
    """Length of the demo's training."""

    epochs: int | None = like(RunSettings, "epochs", otherwise="the model's")


@command("Example:  poetfw demo")
def demo(
    shortened: Shortened, compiler: CompilerSettings, project: ProjectSettings, printed: Detailed
) -> int:
    """Train a network on real handwritten digits, on an emulated nRF52840.

    The same as `poetfw build` and `poetfw run` for this board. With poetfw[portable] it needs
    neither GCC nor QEMU.
    """
    from poetfw.api.plans import PlanWatch, check_target, plan_settings
    from poetfw.common.limits import Deadline
    from poetfw.runs.observer import Reporting
    from poetfw.settings import (
        Application,
        Budget,
        BuildLimits,
        CostSettings,
        Devices,
        NetworkSettings,
        OneMachine,
        Programmed,
        RunOutput,
        SchedulerSettings,
        TrainingSettings,
        Where,
    )

    began_s = time.monotonic()
    limits = BuildLimits()
    end = Deadline(limits.time_limit_s)
    with output.spinner() as progress:
        plan = plan_settings(
            PlanWatch(progress, output.search_log(progress, end)),
            Programmed(BOARD),
            *(Devices(), NetworkSettings(), Budget(), SchedulerSettings(), TrainingSettings()),
            *(Application(), CostSettings(), limits, compiler),
            end=end,
            command=("poetfw", "demo", *arguments(compiler, project)),
            check=lambda settings: check_target(settings, project.out, compiles=True),
        )
        firmware = plan.compile(project.out, progress=progress)
    built_s = time.monotonic()
    settings = RunSettings(epochs=shortened.epochs)
    with output.progress_bar() as update:
        finished = firmware.train(settings, Where(), OneMachine(), RunOutput(), Reporting(update))
    ended_s = time.monotonic()
    if not printed.as_json:
        is_default = firmware.folder == plan.default_folder
        folder = [] if is_default else ["--out", str(firmware.folder)]
        print_build(
            firmware.figures, firmware.folder, end, ["--board", BOARD, *folder], printed.verbose
        )
    code = finish(finished.figures, printed.verbose, printed.as_json)
    if not printed.as_json:
        spent = f"built in {built_s - began_s:.0f} s, trained in {ended_s - built_s:.0f} s"
        epochs = f"{settings.epochs or plan.build.model.epochs} of {plan.build.model.epochs} epochs"
        output.messages.print(f"{epochs}; {spent}, with the toolchain {firmware.figures.toolchain}")
    return code
