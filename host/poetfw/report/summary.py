# SPDX-License-Identifier: Apache-2.0
"""Reports of builds and runs: the figures that `poetfw build` and `poetfw run` show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, PositiveInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from poetfw.boards import Arithmetic
from poetfw.boards.toolchain import SYSTEM
from poetfw.common.errors import OutputError
from poetfw.common.limits import Timing
from poetfw.common.reading import first_flaw, parse_json, read_bytes
from poetfw.firmware import Traffic
from poetfw.memory import Message, Part
from poetfw.schedule import ScheduleSummary

RUN_REPORT = "report.json"
"""File of a run's report, in the project's folder of runs."""
RUN_SCHEMA_VERSION = 3
_CHECKED = ConfigDict(extra="forbid", strict=True)


@checked_dataclass(frozen=True, kw_only=True, config=_CHECKED)
class ProgramReport:
    """The program of one memory.

    Attributes:
        board: name of its board.
        budget_bytes: what the arena may occupy.
        minimum_budget_bytes: the smallest budget for which a schedule is known.
        peak_bytes: bytes of the arena, every buffer at its address: the high-water mark of a run.
        live_bytes: most bytes live at any step; the rest of the peak is fragmentation.
        flash_bytes: code and constants of the board's ELF; None before it is compiled.
        ram_bytes: arena, stack and static data of the board's ELF; None before it is compiled.
        schedule_bytes: code and constants that the schedule adds to the training step that keeps
            everything; None before it is compiled, and for several devices.
        elf: path of the board's ELF; None before it is compiled.
        twin_elf: path of the first twin's ELF; None where that is the board's own, or nothing.
        out_dir: the project's folder.
        arithmetic: how sums of products are rounded: "separate", "fma" or "integers".
        threads: that kernels divide their results among.
        plan_id: names the plan; firmware and storage image must agree on it.
        parts: its devices, each with its part of the arena.
        toolchain: name of the toolchain that builds it.
    """

    board: str
    budget_bytes: int
    minimum_budget_bytes: int
    peak_bytes: int
    live_bytes: int
    flash_bytes: int | None
    ram_bytes: int | None
    schedule_bytes: int | None
    elf: str | None
    twin_elf: str | None
    out_dir: str
    arithmetic: Arithmetic
    threads: PositiveInt
    plan_id: str
    parts: tuple[Part, ...]
    toolchain: str = SYSTEM


@dataclass(frozen=True)
class FrozenAs:
    """Effect of a smaller format of frozen weights, before anything is trained.

    Attributes:
        format: name of the format.
        before: measure of the held-out samples with weights in float32: share classified correctly,
            or mean loss.
        after: the same with weights in the format.
        samples: number of held-out samples.
    """

    format: str
    before: float
    after: float
    samples: int


@checked_dataclass(frozen=True, config=_CHECKED)
class FloatsInstead:
    """Training step of the same network with all activations in float32.

    Attributes:
        peak_bytes: peak of keeping everything.
        energy_j: joules of keeping everything.
        in_budget_j: joules of the best schedule found with little work in the build's budget, all
            weights in RAM; None if none was found.
    """

    peak_bytes: int
    energy_j: float
    in_budget_j: float | None


@dataclass(frozen=True)
class StoredAs:
    """Effect of a smaller form of the activations that wait for the backward pass.

    Attributes:
        form: name of the form.
        before_bytes: bytes of outputs of forward ops that backward ops read, in float32.
        after_bytes: the same in the form.
        gradient_error: distance of the first batch's gradients from those of activations in
            float32, relative to these, in the 2-norm of all parameters; 0 for an exact form.
        everything_j: joules of keeping everything in the form.
        floats: the step without the form; None for several devices, or with streamed weights.
    """

    form: str
    before_bytes: int
    after_bytes: int
    gradient_error: float
    everything_j: float = 0.0
    floats: FloatsInstead | None = None


@checked_dataclass(frozen=True, config=_CHECKED)
class FeaturesReport:
    """Output of a training step's frozen part: kept, or calculated in every epoch.

    Attributes:
        kept: True if the device keeps it.
        reason: why, in words.
        tensor: its name; empty where nothing can be kept.
        sample_bytes: bytes of a sample's features.
        place: where it is kept, or would be: `storage` or `ram`.
        storage_bytes, ram_bytes: bytes that the features of all training samples take there.
        calculated_j: joules of an epoch that calculates them.
        kept_j: joules of an epoch that reads them, from the second on.
        first_j: joules of the first epoch, which calculates and writes them.
        calculated_s, kept_s: the same two in seconds.
        break_even_epochs: epochs from which on keeping takes less energy in all; None for never.
    """

    kept: bool
    reason: str
    tensor: str = ""
    sample_bytes: int = 0
    place: Literal["storage", "ram"] = "storage"
    storage_bytes: int = 0
    ram_bytes: int = 0
    calculated_j: float = 0.0
    kept_j: float = 0.0
    first_j: float = 0.0
    calculated_s: float = 0.0
    kept_s: float = 0.0
    break_even_epochs: int | None = None


@checked_dataclass(frozen=True, config=_CHECKED)
class MoreRam:
    """A larger budget, and a step's energy in it.

    Attributes:
        size_bytes: bytes beyond the budget.
        energy_j: joules of a training step.
        saved: the share of the plan's energy that this is less.
    """

    size_bytes: int
    energy_j: float
    saved: float


@checked_dataclass(frozen=True, config=_CHECKED)
class RamPoint:
    """A training step within a budget.

    Attributes:
        budget_bytes: bytes of the arena that the schedule was searched for; gaps between its
            buffers may take more.
        energy_j: joules of a training step.
        time_s: seconds of a training step.
        recomputes, page_ins, page_outs: steps of these kinds.
    """

    budget_bytes: int
    energy_j: float
    time_s: float
    recomputes: int
    page_ins: int
    page_outs: int


@checked_dataclass(frozen=True, kw_only=True, config=_CHECKED)
class StreamingReport:
    """Weights and tensors that ops load from storage in every step, and what that takes.

    Figures of a step are those of its plan, recomputed ops included, without pages and samples.

    Attributes:
        tensors: names of the streamed tensors: weights, and their optimizer state.
        streamed_bytes: bytes of these.
        constants: names of the frozen weights that are streamed.
        constant_bytes: bytes of these.
        resident_bytes: bytes of the persistent tensors that stay in RAM.
        requests: storage requests of a step.
        read_bytes: bytes that a step reads, whole blocks with trailers.
        written_bytes: bytes that a step writes, likewise.
        energy_j: joules of these transfers in a step; part of the plan's energy.
        time_s: seconds of these transfers in a step; part of the plan's time.
        epoch_steps: steps of an epoch.
        rewrites: how often an epoch rewrites a block: each one of the stored tensors, or, without
            such, of the streamed ones, on average over the sets.
        stored: names of the stored tensors: activations and gradients that are not in RAM.
        stored_bytes: bytes of these, of the training and the evaluation step together.
    """

    tensors: tuple[str, ...]
    streamed_bytes: int
    resident_bytes: int
    requests: int
    read_bytes: int
    written_bytes: int
    energy_j: float
    time_s: float
    epoch_steps: int
    rewrites: float
    stored: tuple[str, ...] = ()
    stored_bytes: int = 0
    constants: tuple[str, ...] = ()
    constant_bytes: int = 0


@checked_dataclass(frozen=True, kw_only=True, config=_CHECKED)
class EnduranceReport:
    """Training that the rated endurance of the storage allows.

    Attributes:
        rated_bytes: bytes that may be written to the storage in its life, by the board's file.
        step_bytes: bytes that a training step writes: pages, streamed and stored tensors, and its
            share of a checkpoint.
        steps: training steps in which that many bytes are written.
        epochs: the same in epochs.
        days: the same in days of training without a pause, by the plan's time.
    """

    rated_bytes: int
    step_bytes: float
    steps: int
    epochs: float
    days: float


@checked_dataclass(frozen=True, kw_only=True, config=_CHECKED)
class BuildReport(ProgramReport):
    """The result of a build. Other tools may rely on `to_json`.

    A build has a program for each memory. The attributes of `ProgramReport` are those of the
    program that evaluates held-out samples; in the folder of another program, those of that one.

    Attributes:
        model: name of the model.
        batch: samples in a batch.
        layers: number of the model's layers with parameters, and of dropouts, by kind of op.
        frozen: names of the parameters that are not trained.
        optimizer: what updates the others, and its settings, in words.
        weights: numbers that the model's parameters have together.
        trained_weights: how many of them are trained.
        trained_in_part: of which parameters only some input channels are, and how many, in words.
        warnings: differences between the imported network and its author's intent.
        checkpoint_all_peak_bytes: most bytes live at any step, if everything were kept.
        frozen_bytes: bytes of flash that weights and statistics take which training leaves as they
            are.
        frozen_as: effect of the smaller format of frozen weights; None for float32.
        streaming: weights that are loaded from storage in every step; None where all are in RAM.
        endurance: training that the storage's rated endurance allows; None where the board's file
            has none, a step writes nothing, or there are several devices.
        stored_as: effect of a smaller form of waiting activations; None for float32.
        features: output of the frozen part, kept or calculated; None where nothing that takes
            energy precedes what trains.
        train_samples: samples to train with.
        held_out_samples: samples to evaluate with.
        classifies: True if the metric is a count of correct answers, not a squared error.
        cost_sources: number of ops by the source of their costs.
        costs: the sources in words, with the conditions of measurements.
        schedule: the schedule's figures.
        devices: how many devices a training step runs on, those of other programs included.
        memories: the program of each memory, by the memory's name; an only one's is empty.
        messages: tensors that programs exchange, in the order of a training step.
        time_limited: True if the time limit ended a search: another run may decide otherwise.
        timing: what each search took; differs from run to run.
        more_ram: a budget that would save half of what the schedule takes beyond keeping
            everything; None where that is little, for several devices, or where none is known.
        ram_curve: the plan's own budget, then larger ones, up to that of keeping everything; where
            the plan is close to that only these two, and for several devices none.
        command: the command line of the build, without settings that have their defaults; empty for
            a build that no command made.
    """

    model: str
    batch: PositiveInt
    layers: dict[str, int]
    frozen: tuple[str, ...]
    optimizer: str
    weights: PositiveInt
    trained_weights: PositiveInt
    trained_in_part: dict[str, str]
    warnings: tuple[str, ...]
    checkpoint_all_peak_bytes: int
    frozen_bytes: int
    frozen_as: FrozenAs | None = None
    streaming: StreamingReport | None = None
    endurance: EnduranceReport | None = None
    stored_as: StoredAs | None = None
    features: FeaturesReport | None = None
    train_samples: PositiveInt
    held_out_samples: PositiveInt
    classifies: bool
    cost_sources: dict[str, int]
    costs: str
    schedule: ScheduleSummary
    time_limited: bool
    timing: Timing
    devices: PositiveInt
    memories: dict[str, ProgramReport]
    messages: tuple[Message, ...]
    more_ram: MoreRam | None = None
    ram_curve: tuple[RamPoint, ...] = ()
    command: tuple[str, ...] = ()
    schema_version: Literal[5] = 5

    def of(self, memory: str) -> BuildReport:
        """The same build, as reported in the folder of a memory's program."""
        return replace(self, **vars(self.memories[memory]))

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return {**asdict(self), "messages": [message._asdict() for message in self.messages]}

    @staticmethod
    def read(path: Path) -> BuildReport:
        """The report that a build wrote.

        Raises:
            OutputError: The file is missing or malformed.
        """
        try:
            content = read_bytes(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise OutputError(
                f"there is no build in {path.parent}: it has no {path.name}",
                "run `poetfw build` first, or name the folder of a build with --out",
            ) from error
        except OSError as error:
            raise OutputError(f"{path} cannot be read: {error.strerror}") from error
        return BuildReport.from_json(content, str(path))

    @staticmethod
    def from_json(content: bytes, name: str) -> BuildReport:
        """Parse a file with the values of `to_json`.

        Args:
            content: content of the file.
            name: its name in error messages.

        Raises:
            OutputError: The file is malformed.
        """
        try:
            return TypeAdapter(BuildReport).validate_json(content)
        except ValidationError as error:
            raise OutputError(
                f"{name} is not what `poetfw build` wrote: {first_flaw(error)}",
                "run `poetfw build` again",
            ) from error


@dataclass(frozen=True)
class OpError:
    """Largest deviation of one op on the device from float64 on the same inputs.

    Attributes:
        op: its name.
        kind: its operator.
        training_step: which training step, from 1.
        plan_step: its number in `train_step.c`.
        tensor: what it wrote.
        error: largest absolute error of an element; None if it is not a number.
        bound: bound of the rounding error at that element.
    """

    op: str
    kind: str
    training_step: int
    plan_step: int
    tensor: str
    error: float | None
    bound: float


@dataclass(frozen=True)
class AlteredTensor:
    """A tensor whose bytes in RAM changed between the last write and an op's read.

    Attributes:
        op: which op; None for the end of the training step.
        training_step: which training step, from 1.
        plan_step: where in `train_step.c`.
        tensor: which tensor.
    """

    op: str | None
    training_step: int
    plan_step: int
    tensor: str


@dataclass(frozen=True)
class OpChecks:
    """The checks of the ops of one or more training steps, each on the device's own inputs.

    Attributes:
        checked: how many.
        worst: the one whose error is the largest part of its bound; None if all were exact.
        first_beyond: the first whose error is beyond its bound.
        first_altered: the first tensor that changed between being written and being read.
    """

    checked: int
    worst: OpError | None
    first_beyond: OpError | None
    first_altered: AlteredTensor | None


@dataclass(frozen=True)
class Verification:
    """Comparison of a run with the references.

    An error is the largest difference in a tensor, relative to the tensor's largest magnitude (but
    at least to a thousandth of the largest magnitude among all tensors, so that tensors that are
    zero but for rounding do not count); the figure is the largest among all tensors.

    Attributes:
        ok: the verdict; docs/running.md says what it asks for.
        missed: what it missed, one sentence each; empty where it is ok.
        max_rel_error_loss: losses of all steps, against the NumPy reference in float64.
        max_rel_error_gradients: the last step's gradients, as far as they are stored, and the
            momenta that all of them were added to, against the same; None where there are neither.
        max_rel_error_weights: parameters and running statistics after the last step, likewise.
        bit_identical_to_unscheduled: True if weights, optimizer state and losses have the bits of
            a run of the same model that recomputes and pages nothing.
        bit_identical_to_traced: True if the run that the ops were recorded in, which is compiled
            from the sources in the project's folder, had the same losses, weights and optimizer
            state; None where several programs trained together, which are not traced.
        ops: every op of the last step on what the device gave it; and those of `examined_steps`.
            None where several programs trained together.
        examined_steps: None where losses, gradients and weights agree with the reference. Else
            every step was compared with the reference from the device's own state, and these are
            the ones that did not agree, so that all their ops were checked too.
    """

    ok: bool
    missed: tuple[str, ...]
    max_rel_error_loss: float
    max_rel_error_gradients: float | None
    max_rel_error_weights: float
    bit_identical_to_unscheduled: bool
    bit_identical_to_traced: bool | None
    ops: OpChecks | None
    examined_steps: tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """The run of one program.

    Attributes:
        board: name of its board.
        plan_id: identifier of its plan, see `ProgramReport`.
        emulator: name of the twin that it ran on; None on the board itself.
        port: the serial port or the computer that the board was reached by; None for a twin.
        emulated: True if that is another processor than this computer's; its instructions are then
            counts of the emulator, neither cycles nor seconds of the board.
        computed: steps of the plan that it computes, in each training step.
        sent_bytes: bytes of the messages that it sends, in each training step.
        high_water_bytes: bytes of the arena up to the highest ever written.
        parts: its devices, each with its part of the arena, as planned.
        arenas: bytes of each part up to the highest ever written, by its device's name.
        stack_high_water_bytes: bytes of stack used.
        ticks: duration of its part of this run's training steps, without waits for messages.
        tick_unit: what a tick is: instructions, cycles or ns.
        tick_s: seconds of a tick; of an instruction one cycle of its core.
        step_s: average seconds of its part of a step; of instructions one for each cycle of its
            core. None where no step was trained.
        instructions: executed in the whole run; None where they are not counted.
        storage_bytes_read, storage_bytes_written: bytes read from and written to storage.
        step_traffic: transfers of this run's training steps together, without those of commits and
            evaluations; None if the device does not report them.
        planned_traffic: the same by the plan, with the gradients that the last step of a verified
            run writes; None where samples of the device's own take the place of some.
        blocks_written: blocks of 512 bytes that the firmware wrote to this storage, up to the last
            checkpoint and since the image was made: what wears it.
        blocks_per_epoch: the same over the epochs that were trained.
        storage_file: access to a storage file: `direct`, past the system's cache, or `cached`;
            None if the device does not report it.
        storage_erases: how often a part of the storage was erased; None where nothing was.
        damaged: samples that were skipped because their checksums are wrong: indices of `training`
            and `held_out` samples, and places of the `ring`.
        begun_anew: True if no commit was complete, so that training began with the program's
            initial weights.
        measured_energy_j: measured joules of the whole run; None without a meter.
        energy_source: the meter: `rapl` or `ina3221`; None without one.
        repeated_commands: commands that had to be sent to it again.
        trained: path of the storage image with what it trained.
    """

    board: str
    plan_id: str
    emulator: str | None
    port: str | None
    emulated: bool
    computed: int
    sent_bytes: int
    high_water_bytes: int
    parts: tuple[Part, ...]
    arenas: dict[str, int]
    stack_high_water_bytes: int
    ticks: int
    tick_unit: str
    tick_s: float
    step_s: float | None
    instructions: int | None
    storage_bytes_read: int
    storage_bytes_written: int
    step_traffic: Traffic | None
    planned_traffic: Traffic | None
    blocks_written: int
    blocks_per_epoch: float
    storage_file: str | None
    storage_erases: int | None
    damaged: dict[str, tuple[int, ...]]
    begun_anew: bool
    measured_energy_j: float | None
    energy_source: str | None
    repeated_commands: int
    trained: str


@dataclass(frozen=True)
class TimedStep:
    """An op or a transfer of a training step, timed within it.

    Attributes:
        plan_step: its number in `train_step.c`.
        op: the op, or the one whose tensor moves.
        operator: its kind; `page_in` or `page_out` for a transfer.
        ticks: average duration over some steps.
    """

    plan_step: int
    op: str
    operator: str
    ticks: float


@dataclass(frozen=True)
class StepTrace:
    """A training step, timed as a whole and piece by piece.

    Attributes:
        tick_unit: what a tick is: instructions, cycles or ns.
        whole_ticks: of an uninterrupted step, on average.
        steps: its ops and transfers in their order, of other such steps.
    """

    tick_unit: str
    whole_ticks: int
    steps: tuple[TimedStep, ...]


@dataclass(frozen=True)
class Evaluation:
    """Metric of the held-out samples after some training steps.

    Attributes:
        step: training steps done.
        accuracy: share of samples classified correctly; None without classes.
        held_out_loss: of the samples, by the loss that is trained; None with classes.
    """

    step: int
    accuracy: float | None
    held_out_loss: float | None

    def better_than(self, other: Evaluation) -> bool:
        """True if this accuracy is higher, or this error smaller."""
        if self.accuracy is not None and other.accuracy is not None:
            return self.accuracy > other.accuracy
        if self.held_out_loss is None or other.held_out_loss is None:
            return False
        return self.held_out_loss < other.held_out_loss


@dataclass(frozen=True, kw_only=True)
class RunReport(ProgramRun):
    """The result of a run. Other tools may rely on `to_json`.

    The attributes of `ProgramRun` are those of the program that evaluates held-out samples.

    Attributes:
        steps: training steps.
        resumed_from: how many of them were done before this run.
        loss: the batch's mean loss at each step of this run.
        accuracy: share of held-out samples classified correctly; None without classes.
        held_out_loss: of the held-out samples, by the loss that is trained; None with classes.
        evaluations: every evaluation of the held-out samples, in the order of their steps.
        messages: how many messages programs exchange in a training step.
        message_bytes: their bytes together.
        planned_step_s: what the plan says that a training step takes.
        planned_by: source of the plan's costs, in words.
        step_instructions: instructions that were counted of a training step, on average; None where
            they are not counted, or for several programs.
        planned_instructions: instructions of a training step by the prices of the board's core;
            None where `step_instructions` is, or where an op has no price.
        memories: the run of each memory's program, by the memory's name; an only one's is empty.
        verify: comparison with the references; None without `--verify`.
        trace: times of each op and transfer of a step; None without `--trace`.
        command: the command line of the run, like that of a build.
    """

    steps: int
    resumed_from: int
    loss: tuple[float, ...]
    accuracy: float | None
    held_out_loss: float | None
    evaluations: tuple[Evaluation, ...]
    messages: int
    message_bytes: int
    planned_step_s: float
    planned_by: str
    memories: dict[str, ProgramRun]
    verify: Verification | None
    trace: StepTrace | None = None
    step_instructions: float | None = None
    planned_instructions: float | None = None
    command: tuple[str, ...] = ()

    @property
    def metric_name(self) -> str:
        """The measure of held-out samples: `accuracy` or `held_out_loss`."""
        return "held_out_loss" if self.accuracy is None else "accuracy"

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return {"schema_version": RUN_SCHEMA_VERSION, **asdict(self)}

    @staticmethod
    def from_json(content: bytes) -> RunReport:
        """Parse a file with the values of `to_json`.

        Raises:
            ValueError: The content is not a report in this format.
        """
        document = parse_json(content)
        if not isinstance(document, dict) or document.pop("schema_version", None) != (
            RUN_SCHEMA_VERSION
        ):
            raise ValueError(f"it has no schema_version {RUN_SCHEMA_VERSION}")
        return TypeAdapter(RunReport).validate_python(document)
