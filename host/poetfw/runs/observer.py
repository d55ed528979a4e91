# SPDX-License-Identifier: Apache-2.0
"""Observation of a run: the steps that programs finish, as they finish them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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

    Its methods are called in the thread that called `run_build`. An exception ends the run.
    """

    def activity(self, done: int, total: int, text: str) -> None:
        """Take note of progress: number done, total, and a description of the activity."""

    def step(self, step: StepDone) -> None:
        """Take note of a finished training step, which is progress, too."""
        self.activity(step.number, step.steps, f"loss {step.loss:.4f}")


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
