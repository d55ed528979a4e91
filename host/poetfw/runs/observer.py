# SPDX-License-Identifier: Apache-2.0
"""Observation of a run: the steps that programs finish, as they finish them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from poetfw.firmware import Traffic
from poetfw.runs.execution import BuildFolder

Update = Callable[[int, int, str], None]
"""Progress callback: number done, total, and a description of the activity."""


@dataclass(frozen=True)
class StepDone:
    """A finished training step.

    Attributes:
        number: number of the step, from 1.
        steps: number of steps of the whole training.
        loss: mean loss of the step's batch.
        ticks: duration of each program's part, by memory name; an only one's is empty.
    """

    number: int
    steps: int
    loss: float
    ticks: Mapping[str, int]


class RunObserver:
    """Observer of a run, which by itself ignores what it is told.

    Its methods are called by the thread that called `run_build`, but for `activity` while several
    programs transfer data. An exception ends the run. Names are those of memories; an only
    program's is empty.
    """

    def begin(self, build: BuildFolder, steps: int) -> None:
        """Take note of the build that runs, and of the number of training steps."""

    def activity(self, done: int, total: int, text: str) -> None:
        """Take note of progress: number done, total, and a description of the activity."""

    def step(self, step: StepDone) -> None:
        """Take note of a finished training step, which is progress, too."""
        self.activity(step.number, step.steps, f"loss {step.loss:.4f}")

    def moved(self, traffic: Traffic) -> None:
        """Take note of the transfers of the last training step, over all programs."""

    def checkpoint(self, step: int) -> None:
        """Take note of a commit: training can resume after this step."""

    def reset(self, cause: str) -> None:
        """Take note of a start of the firmware, and its cause."""

    def problem(self, text: str) -> None:
        """Take note of what the firmware overcame, such as a damaged sample."""

    def repeated(self, commands: int) -> None:
        """Take note of the number of commands sent again since the training began."""

    def memory(self, name: str, arena_bytes: int, stack_bytes: int) -> None:
        """Take note of the highest byte of the arena written so far, and the bytes of stack."""


class Reporting(RunObserver):
    """Observer that passes progress, and each step, to functions."""

    def __init__(self, update: Update, on_step: Callable[[StepDone], object] | None = None) -> None:
        self._update = update
        self._on_step = on_step

    def activity(self, done: int, total: int, text: str) -> None:
        """Pass progress on."""
        self._update(done, total, text)

    def step(self, step: StepDone) -> None:
        """Pass a step on, and the progress that it is."""
        super().step(step)
        if self._on_step is not None:
            self._on_step(step)
