# SPDX-License-Identifier: Apache-2.0
"""Verification that a run trained correctly: `poetfw run --verify`.

Three questions, each answered despite rounding (docs/adr/0013):

1. Is the schedule right? The same kernels, run without recomputation or paging, must give the same
   bits.
2. Are the kernels right? Every op of the last step must lie within its operator's error bound, on
   the device's own inputs, and no tensor may change between ops.
3. Is the training right? Losses, gradients and weights must agree with NumPy in float64. If they do
   not, rounding may have flipped a ReLU or a maximum. This is accepted with evidence: every step is
   compared from the device's own state, and steps that differ pass the check of question 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from poetfw.boards import Board
from poetfw.common.errors import DeviceError
from poetfw.costs import analytic_costs
from poetfw.firmware import (
    BLOCK_BYTES,
    GENERATED,
    IMAGE,
    LIBRARY,
    ImageSamples,
    RunRequest,
    SlotPurpose,
    TracedOp,
    TraceRequest,
    TraceTable,
    append_request,
    assign_slots,
    constant_values,
    image_blocks,
    read_samples,
    read_slots,
    read_sources,
    read_trace,
    render_project,
    sample_order,
    traced_project,
    write_image,
    write_project,
)
from poetfw.firmware.project import RUN_DIR
from poetfw.firmware.trace import Key
from poetfw.ops import Array
from poetfw.planning import Progress, lower_plan, plan_unscheduled
from poetfw.report import OpChecks, Verification
from poetfw.runs.execution import BuiltProject, SlotValues, execute
from poetfw.runs.op_check import OpChecker
from poetfw.tools import RunLog, build_environments
from poetfw.training import Reference, resident_form

LOSS_BOUND = 1e-5
"""Relative error of a loss against float64 that rounding alone does not reach."""

GRADIENT_BOUND = 1e-4
"""The same for gradients and momenta, whose sums have more cancellation."""

WEIGHT_BOUND = 1e-5
"""The same for parameters and running statistics."""

PART_BYTES = 256 * 1024 * 1024
"""Largest recording of one traced run; larger ones are split into several runs."""

_ERROR_FLOOR = 1e-3
_TINY = float(np.finfo(np.float32).tiny)
_SHARED_SOURCES = (f"{LIBRARY}/kernels/", f"{LIBRARY}/runtime/", f"{LIBRARY}/storage/", "src/")


@dataclass(frozen=True)
class Run:
    """A run to verify.

    Attributes:
        project: project that ran.
        request: request to the firmware.
        log: report of the firmware.
        values: slot values after the run.
        timeout_s: seconds that each further run may take.
        silence_s: seconds without a line after which the firmware counts as hung.
        begun: slot values of all programs before the first step.
    """

    project: BuiltProject
    request: RunRequest
    log: RunLog
    values: SlotValues
    timeout_s: float
    silence_s: float
    begun: SlotValues

    @cached_property
    def initial(self) -> Mapping[str, Array]:
        """Persistent tensors before the first step."""
        return {name: value for (name, _), value in self.begun.items()}

    @cached_property
    def state(self) -> Mapping[str, Array]:
        """Persistent tensors after training, without the evaluation's metric."""
        program = self.project.stages.program
        return {
            tensor.name: self.values[tensor.name, SlotPurpose.PERSISTENT]
            for tensor in program.training.persistent
        }

    @cached_property
    def _samples(self) -> ImageSamples:
        return read_samples(self.project.image, self.project.stages.program)

    def reference(self, state: Mapping[str, Array]) -> Reference:
        """Reference in float64 that starts from given persistent tensors."""
        stages = self.project.stages
        return Reference(stages.program, {**stages.constants, **state}, np.float64)

    def batch(self, step: int) -> tuple[Array, Array]:
        """Features and targets of a training step, counted from 1."""
        (x, y), (damaged, _) = self._samples.training, self._samples.damaged
        program = self.project.stages.program
        chosen = sample_order(len(x), program.batch, self.request.seed, step - 1, damaged)
        return x[chosen], y[chosen]


def verify(run: Run, progress: Progress) -> Verification:
    """Verify a run. With several programs, single ops are not checked.

    Args:
        run: the run and its results.
        progress: called with each activity that begins.

    Raises:
        DeviceError: A further run hangs, faults or reports an error.
        OutputError: A source of the project is missing, or cannot be traced.
        ToolError: The project's sources do not compile.
    """
    progress("building and running without recomputing or paging")
    log, unscheduled = run_unscheduled(run)
    same_bits = log.losses == run.log.losses and _same(run.state, unscheduled)
    progress("calculating the reference in float64")
    errors = compare(run)
    checked = _Checked()
    if not run.project.stages.training.apart:
        checked = _check_ops(run, errors, progress)
    missed = (*_missed_bits(same_bits), *checked.missed)
    return Verification(
        ok=not missed,
        missed=missed,
        max_rel_error_loss=errors.loss,
        max_rel_error_gradients=errors.gradients,
        max_rel_error_weights=errors.weights,
        bit_identical_to_unscheduled=same_bits,
        bit_identical_to_traced=checked.same_bits,
        ops=checked.ops,
        examined_steps=checked.examined_steps,
    )


class _Checked(NamedTuple):
    """Result of the traced run, see `Verification`; by default, there was none."""

    missed: tuple[str, ...] = ()
    same_bits: bool | None = None
    ops: OpChecks | None = None
    examined_steps: tuple[int, ...] | None = None


def _check_ops(run: Run, errors: Errors, progress: Progress) -> _Checked:
    """Check each op of the last step, and of the steps where the reference differs."""
    progress("building the traced run")
    with traced(run) as trace:
        checker = OpChecker(trace.table, run.project.stages.constants)
        steps = run.request.steps
        check_step(run, trace, checker, steps, None, run.state, progress)
        examined = None
        first_state_is_right = True
        if not errors.within_bounds and _all_right(checker.findings) and trace.same_bits:
            progress("recording the state before each step")
            states = trace.states()
            first_state_is_right = _same(states[1], run.initial)
            examined = []
            for step in range(1, steps + 1):
                progress(f"comparing step {step} of {steps} from the device's own state")
                after = states[step + 1] if step < steps else run.state
                if not compare_step(run, step, states[step], after).within_bounds:
                    examined.append(step)
            for step in examined:
                after = states[step + 1] if step < steps else run.state
                check_step(run, trace, checker, step, states[step], after, progress)
        same_as_traced = trace.same_bits
    ops = checker.findings
    missed = (
        *_missed_while_traced(same_as_traced, first_state_is_right),
        *_missed_ops(ops),
        *([] if errors.within_bounds or examined is not None else _missed_errors(errors)),
    )
    return _Checked(missed, same_as_traced, ops, None if examined is None else tuple(examined))


# 1. The schedule ---------------------------------------------------------------------------------


def run_unscheduled(run: Run) -> tuple[RunLog, Mapping[str, Array]]:
    """Build and run the same model without a schedule: everything stays in (enough) RAM.

    What is streamed or stored is that, too, unless the reference's RAM is too small for it. Kernels
    and runtime come from the project's folder: only the schedule differs. Returns the log and the
    persistent tensors after training.
    """
    project, program = run.project, resident_form(run.project.stages.program)
    board, environment = with_reference_ram(project)
    plan = plan_unscheduled(program, board, analytic_costs)
    if plan.memory.arena_bytes > board.unreserved_bytes:
        program = project.stages.program
        plan = plan_unscheduled(program, board, analytic_costs)
    slots = assign_slots(program, plan.training.plan)
    lowering = lower_plan(program, board, plan, slots)
    samples = read_samples(project.image, program)
    image = write_image(
        program,
        lowering.view.plan_id,
        slots,
        {**project.stages.constants, **run.initial},
        samples.training,
        samples.held_out,
        run.request,
        damaged=samples.damaged,
    )
    sources = {
        path: content
        for path, content in read_sources(project.folder).items()
        if path.startswith(_SHARED_SOURCES)
    }
    constants = constant_values(lowering.view.flash, lowering.names, project.stages.constants)
    rendered = render_project(lowering.view, board, constants=constants)
    rendered = rendered.with_files({**sources, IMAGE: image})
    folder = project.folder / RUN_DIR / "unscheduled"
    write_project(rendered, folder)
    elf = build_environments(folder, [environment])[environment]
    log = execute(
        project.twin.reference,
        elf,
        folder / IMAGE,
        folder / RUN_DIR,
        replace(run.request, evaluate=False),
        0,
        run.timeout_s,
        silence_s=run.silence_s,
    )
    values = read_slots(folder / RUN_DIR / IMAGE, slots, project.tensors)
    return log, _persistent(values)


def with_reference_ram(project: BuiltProject) -> tuple[Board, str]:
    """Board with the RAM of its twin's reference machine, and the PlatformIO environment for it.

    The reference machine runs what needs more RAM than the board has: the run without a schedule,
    and the traced run with its additional variables.
    """
    reference = project.twin.reference
    ram_bytes = reference.ram_bytes or project.board.ram_bytes
    return replace(project.board, ram_bytes=ram_bytes), project.environment_of(reference)


# 2. The ops --------------------------------------------------------------------------------------


class Trace:
    """Runs of the traced copy of a project.

    Attributes:
        table: tensors and statements that can be recorded.
        same_bits: True if every run so far gave the losses and the state of the run to verify.
    """

    def __init__(self, run: Run, table: TraceTable, elf: Path, folder: Path, block: int) -> None:
        self.table = table
        self.same_bits = True
        self._run = run
        self._elf = elf
        self._folder = folder
        self._block = block

    def record(self, wanted: TraceRequest) -> dict[int, dict[Key, Array]]:
        """Run up to the last step wanted; returns the recorded values by training step."""
        run = self._run
        last = wanted.steps[1]
        image = self._folder / IMAGE
        log = execute(
            run.project.twin.reference,
            self._elf,
            run.project.image,
            self._folder,
            replace(run.request, steps=last, evaluate=False),
            0,
            run.timeout_s,
            prepare=lambda copy: append_request(copy, wanted),
            room_bytes=self.table.recorded_blocks(wanted) * BLOCK_BYTES,
            silence_s=run.silence_s,
        )
        self.same_bits &= log.losses == run.log.losses[:last]
        if last == run.request.steps:
            values = read_slots(image, run.project.stages.slots, run.project.tensors)
            self.same_bits &= _same(run.state, _persistent(values))
        return read_trace(image, self.table, self._block, wanted)

    def parts(self, step: int) -> Iterator[tuple[tuple[TracedOp, ...], dict[Key, Array]]]:
        """Record a training step in parts; yields the ops of each part and their values."""
        for part in self.table.parts(PART_BYTES):
            statements = part[0].statement, part[-1].statement + 1
            yield part, self.record(TraceRequest((step, step), statements))[step]

    def states(self) -> dict[int, dict[str, Array]]:
        """Record the persistent tensors before each training step, by step."""
        steps = self._run.request.steps
        each = max(1, PART_BYTES // (self.table.blocks[1] * BLOCK_BYTES))
        names = [tensor.name for tensor in self.table.graph.persistent]
        states = {}
        for first in range(1, steps + 1, each):
            wanted = TraceRequest((first, min(first + each - 1, steps)), (1, 1))
            for step, values in self.record(wanted).items():
                states[step] = {name: np.array(values[1, name]) for name in names}
        return states


@contextmanager
def traced(run: Run) -> Iterator[Trace]:
    """Build the traced copy of a project; its recordings are deleted at the end of the block."""
    project, stages = run.project, run.project.stages
    board, environment = with_reference_ram(project)
    table = TraceTable.of(stages.program.training, stages.training, stages.memory, stages.slots)
    block = image_blocks(project.image)
    folder = project.folder / RUN_DIR / "traced"
    write_project(traced_project(project.folder, table, board, block), folder)
    elf = build_environments(folder, [environment])[environment]
    try:
        yield Trace(run, table, elf, folder / RUN_DIR, block)
    finally:
        (folder / RUN_DIR / IMAGE).unlink(missing_ok=True)


def check_step(
    run: Run,
    trace: Trace,
    checker: OpChecker,
    step: int,
    before: Mapping[str, Array] | None,
    after: Mapping[str, Array],
    progress: Progress,
) -> None:
    """Check every op of a training step, which left the state `after`; `before` it if known."""
    batch = run.project.stages.program.members(*run.batch(step))
    checker.begin_step(before)
    progress(f"recording the ops of step {step}")
    for part, values in trace.parts(step):
        progress(f"checking ops {part[0].statement} to {part[-1].statement} of step {step}")
        checker.check(step, part, values, batch)
    checker.end_step(step, after)


# 3. The training ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Relative errors against the reference; see `poetfw.report.Verification`."""

    loss: float
    gradients: float | None
    weights: float

    @property
    def within_bounds(self) -> bool:
        """True if rounding alone can explain the errors."""
        return (
            self.loss <= LOSS_BOUND
            and (self.gradients or 0.0) <= GRADIENT_BOUND
            and self.weights <= WEIGHT_BOUND
        )


def compare(run: Run) -> Errors:
    """Repeat the whole training in float64 from the initial weights, and compare."""
    reference = run.reference(run.initial)
    losses = [reference.step(*run.batch(step)) for step in range(1, run.request.steps + 1)]
    gradients = {
        name: value
        for (name, purpose), value in run.values.items()
        if purpose is SlotPurpose.CAPTURE
    }
    return _errors(run, zip(run.log.losses, losses, strict=True), gradients, run.state, reference)


def compare_step(
    run: Run, step: int, before: Mapping[str, Array], after: Mapping[str, Array]
) -> Errors:
    """Repeat one training step in float64 from the device's state before it, and compare."""
    reference = run.reference(before)
    loss = reference.step(*run.batch(step))
    return _errors(run, [(run.log.losses[step - 1], loss)], {}, after, reference)


def _errors(
    run: Run,
    losses: Iterable[tuple[float, float]],
    gradients: Mapping[str, Array],
    state: Mapping[str, Array],
    reference: Reference,
) -> Errors:
    program = run.project.stages.program
    momenta = {name: state[name] for name in program.optimizer_states}
    weights = {n: v for n, v in state.items() if n not in momenta and n != program.loss.name}
    return Errors(
        loss=max(abs(ours - theirs) / max(abs(theirs), _TINY) for ours, theirs in losses),
        gradients=max(
            (
                relative_error(ours, theirs)
                for ours, theirs in (
                    (gradients, reference.gradients),
                    (momenta, reference.persistent),
                )
                if ours
            ),
            default=None,
        ),
        weights=relative_error(weights, reference.persistent),
    )


def relative_error(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """Largest relative error of any tensor; see `poetfw.report.Verification`."""
    magnitudes = {name: float(np.abs(theirs[name]).max()) for name in ours}
    floor = max(_ERROR_FLOOR * max(magnitudes.values()), _TINY)
    return max(
        float(np.abs(value - theirs[name]).max()) / max(magnitudes[name], floor)
        for name, value in ours.items()
    )


# The verdict -----------------------------------------------------------------------------------


def verdict(verification: Verification) -> DeviceError:
    """Create the error for a failed verification: findings, and what to try."""
    found = None if verification.ops is None else verification.ops.first_beyond
    other_sources = verification.bit_identical_to_traced is False
    hints = []
    if other_sources:
        hints.append("compile what is in the folder: `pio run`; or build again: `poetfw build`")
    if found is not None:
        hints += [
            f"look at what operator {found.kind!r} runs, in lib/poetfw/kernels, and at step "
            f"{found.plan_step} in {GENERATED}/train_step.c",
            "if the kernel is meant to round differently, its `error_bounds` must say so "
            "(docs/adding-an-operator.md)",
        ]
    elif not other_sources:
        hints.append("build again with `poetfw build`, and run once more")
        hints.append(
            "if it happens again, it is a bug in poetfw: please report the project's folder"
        )
    return DeviceError("the run is not verified: " + "; ".join(verification.missed), *hints)


def _all_right(ops: OpChecks) -> bool:
    return ops.first_beyond is None and ops.first_altered is None


def _missed_bits(unscheduled: bool) -> Iterator[str]:
    if not unscheduled:
        yield "the same kernels without the schedule trained to other bits"


def _missed_while_traced(traced: bool, first_state: bool) -> Iterator[str]:
    if not traced:
        yield (
            "the sources in the project's folder do not train to the bits of the firmware that "
            "ran: it was compiled from others"
        )
    if not first_state:
        yield "training did not begin with the weights in the storage image"


def _missed_ops(ops: OpChecks) -> Iterator[str]:
    if (beyond := ops.first_beyond) is not None:
        error = "is not a number" if beyond.error is None else f"has an error of {beyond.error:.3g}"
        yield (
            f"op {beyond.op!r} ({beyond.kind}, step {beyond.plan_step} of the plan, in training "
            f"step {beyond.training_step}) is wrong: {beyond.tensor!r} {error}, where rounding "
            f"explains {beyond.bound:.3g}"
        )
    if (altered := ops.first_altered) is not None:
        reader = "the end of the step" if altered.op is None else f"op {altered.op!r}"
        yield (
            f"{reader} (step {altered.plan_step} of the plan, in training step "
            f"{altered.training_step}) found {altered.tensor!r} altered since it was written"
        )


def _missed_errors(errors: Errors) -> Iterator[str]:
    for what, error, bound in (
        ("losses", errors.loss, LOSS_BOUND),
        ("gradients", errors.gradients, GRADIENT_BOUND),
        ("weights", errors.weights, WEIGHT_BOUND),
    ):
        if error is not None and not error <= bound:
            yield f"{what} are {error:.3g} off the reference, where {bound:g} is accepted"


def _persistent(values: SlotValues) -> dict[str, Array]:
    return {n: v for (n, purpose), v in values.items() if purpose is SlotPurpose.PERSISTENT}


def _same(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> bool:
    return all(
        np.ascontiguousarray(value).tobytes() == np.ascontiguousarray(theirs[name]).tobytes()
        for name, value in ours.items()
    )
