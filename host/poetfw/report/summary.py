"""What a build came to: the figures that `poetfw build` shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, PositiveInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from poetfw.errors import OutputError
from poetfw.limits import Timing
from poetfw.schedule import Schedule, Status

_CHECKED = ConfigDict(extra="forbid", strict=True)


@checked_dataclass(frozen=True, config=_CHECKED)
class ScheduleSummary:
    """The figures of a schedule, without its plan. See `poetfw.schedule.Schedule`."""

    scheduler: str
    status: Status
    energy_j: float
    compute_energy_j: float
    paging_energy_j: float
    time_s: float
    peak_bytes: int
    bound_j: float | None
    gap: float | None
    bound_is_global: bool
    recomputes: int
    page_ins: int
    page_outs: int
    window_gap: float | None

    @staticmethod
    def of(schedule: Schedule) -> ScheduleSummary:
        """The figures of a schedule."""
        values = asdict(schedule)
        del values["plan"]
        return ScheduleSummary(**values)


@checked_dataclass(frozen=True, config=_CHECKED)
class BuildReport:
    """The result of a build. Other tools may rely on `to_json`.

    Attributes:
        board: name of the board.
        model: name of the model.
        batch: samples in a batch.
        budget_bytes: what the arena may occupy.
        minimum_budget_bytes: the smallest budget for which a schedule is known.
        peak_bytes: most bytes live at any step.
        checkpoint_all_peak_bytes: the same, if everything were kept.
        arena_bytes: bytes of the arena.
        flash_bytes: code and constants of the board's ELF; None before it is compiled.
        ram_bytes: arena, stack and static data of the board's ELF; None before it is compiled.
        schedule_bytes: code and constants that the schedule adds to the training step that keeps
            everything; None before it is compiled.
        elf: path of the board's ELF; None before it is compiled.
        twin_elf: path of the twin's ELF; None where there is no twin.
        out_dir: the project's folder.
        plan_id: names the plan; firmware and storage image must agree on it.
        train_samples: samples to train with.
        held_out_samples: samples to evaluate with.
        classifies: whether the metric is a count of correct answers, not a squared error.
        costs_are_analytic: whether energy and time are calculated rather than measured.
        schedule: the schedule's figures.
        time_limited: whether the time limit ended a search: another run may decide otherwise.
        timing: what each search took; differs from run to run.
    """

    board: str
    model: str
    batch: PositiveInt
    budget_bytes: int
    minimum_budget_bytes: int
    peak_bytes: int
    checkpoint_all_peak_bytes: int
    arena_bytes: int
    flash_bytes: int | None
    ram_bytes: int | None
    schedule_bytes: int | None
    elf: str | None
    twin_elf: str | None
    out_dir: str
    plan_id: str
    train_samples: PositiveInt
    held_out_samples: PositiveInt
    classifies: bool
    costs_are_analytic: bool
    schedule: ScheduleSummary
    time_limited: bool
    timing: Timing
    schema_version: int = 1

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return asdict(self)

    @staticmethod
    def read(path: Path) -> BuildReport:
        """The report that a build wrote.

        Raises:
            OutputError: there is none, or it is malformed.
        """
        try:
            return TypeAdapter(BuildReport).validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise OutputError(
                f"{path.parent} holds no complete build of poetfw: {path.name} is missing or "
                "malformed",
                "run `poetfw build` first, or name its folder with --out",
            ) from error


@dataclass(frozen=True)
class Verification:
    """How a run compares with the references.

    An error is the largest difference in a tensor, relative to the tensor's largest magnitude (but
    at least to a thousandth of the largest magnitude among all tensors, so that tensors that are
    zero but for rounding do not count); the figure is the largest among all tensors.

    Attributes:
        reference: precision of the NumPy reference: float64, or float32 where rounding made
            float64 decide a ReLU or a maximum differently.
        max_rel_error_loss: losses of all steps, against the NumPy reference.
        max_rel_error_gradients: the last step's gradients, as far as they are stored, and the
            momenta that all of them were added to, against the same; None where there are neither.
        max_rel_error_weights: parameters and running statistics after the last step, likewise.
        bit_identical_to_unscheduled: whether weights, optimizer state and losses have the bits of
            a run of the same model that recomputes and pages nothing.
    """

    reference: str
    max_rel_error_loss: float
    max_rel_error_gradients: float | None
    max_rel_error_weights: float
    bit_identical_to_unscheduled: bool


@dataclass(frozen=True)
class RunReport:
    """The result of a run. Other tools may rely on `to_json`.

    Attributes:
        board: name of the board.
        emulated: whether it ran on the board's twin; its instructions are then counts of the
            emulator, neither cycles nor seconds of the board.
        steps: training steps.
        loss: the batch's mean loss at each step.
        accuracy: share of held-out samples classified correctly; None without classes.
        mean_squared_error: of the held-out samples; None with classes.
        high_water_bytes: bytes of the arena up to the highest ever written.
        stack_high_water_bytes: bytes of stack used.
        instructions: executed in the whole run; None where they are not counted.
        storage_bytes_read, storage_bytes_written: what went through the storage.
        trained: path of the storage image with the trained weights.
        verify: how it compares with the references; None if not asked for.
    """

    board: str
    emulated: bool
    steps: int
    loss: tuple[float, ...]
    accuracy: float | None
    mean_squared_error: float | None
    high_water_bytes: int
    stack_high_water_bytes: int
    instructions: int | None
    storage_bytes_read: int
    storage_bytes_written: int
    trained: str
    verify: Verification | None

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return {"schema_version": 1, **asdict(self)}
