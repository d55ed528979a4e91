# SPDX-License-Identifier: Apache-2.0
"""Sentences of a report. Each states figures of a build or a run, and no cause."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poetfw.report.html.source import ReportSource
from poetfw.report.summary import BuildReport, ProgramRun, RunReport, StoredAs
from poetfw.schedule import BoundCovers, ScheduleSummary, Status

FEW_POINTS = 2
"""Number of points of a curve of a plan that is close to keeping everything."""
_NOTHING = 1e-6


@dataclass(frozen=True)
class Badge:
    """Short statement on the state of a build.

    Attributes:
        text: the statement.
        tone: "good", "bad" or "open".
    """

    text: str
    tone: str


@dataclass(frozen=True)
class Tile:
    """Figure at the top of a report.

    Attributes:
        label: what it measures.
        value: the figure.
        unit: its unit, or what it is a part of.
        note: further figures.
        share: part of the whole, 0 … 1; None for no bar.
    """

    label: str
    value: str
    unit: str
    note: str
    share: float | None = None


def size(size_bytes: float) -> str:
    """Exact number of bytes."""
    return f"{size_bytes:,.0f} B"


def _rounded(size_bytes: float) -> tuple[str, str]:
    """Number of bytes in a unit that suits its size, and the unit."""
    for unit, bytes_each in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= 10 * bytes_each:
            value = size_bytes / bytes_each
            return (f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"), unit
    return f"{size_bytes:,.0f}", "B"


def _scaled(value: float, unit: str) -> tuple[str, str]:
    """Value with three digits or more, and its unit with a prefix."""
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if abs(value) >= 0.9995 * factor:
            scaled = value / factor
            return (f"{scaled:,.0f}" if scaled >= 999.5 else f"{scaled:.3g}"), f"{prefix}{unit}"
    return "0", unit


def seconds(value: float) -> str:
    """Time with a suitable unit."""
    return " ".join(_scaled(value, "s"))


def joules(value: float) -> str:
    """Energy with a suitable unit."""
    return " ".join(_scaled(value, "J"))


def _times(ratio: float) -> str:
    """Multiple of something, in words."""
    if ratio < 1.1:
        return f"{ratio - 1:.2%} more than"
    return f"{ratio:.3g} times"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def title(source: ReportSource) -> str:
    """Model, and where it is trained."""
    build = source.build
    boards = list(dict.fromkeys(program.board for program in build.memories.values()))
    where = ", ".join(boards)
    if build.devices > 1:
        where = f"{build.devices} devices ({where})"
    return f"{build.model} on {where}"


def subtitle(build: BuildReport) -> str:
    """Settings of the training, on one line."""
    trained = "all trained"
    if build.trained_weights < build.weights:
        trained = f"{build.trained_weights:,} of them trained"
    return f"batch {build.batch} · {build.optimizer} · {build.weights:,} weights, {trained}"


def badges(source: ReportSource) -> tuple[Badge, ...]:
    """State of a build, in short."""
    build, run = source.build, source.run
    fits = all(p.peak_bytes <= p.budget_bytes for p in build.memories.values())
    found = [Badge("fits its budget", "good") if fits else Badge("exceeds its budget", "bad")]
    if build.devices == 1:
        found.append(_proof_badge(build.schedule))
    if build.time_limited:
        found.append(Badge("search ended by the time limit", "open"))
    found.append(_cost_badge(build))
    if run is None:
        found.append(Badge("not run yet", "open"))
    else:
        where = "on an emulator, not on a board" if run.emulated else "on this computer"
        found.append(Badge(f"ran {'on the board' if run.port else where}", "open"))
        found.append(_verified_badge(run))
    return tuple(found)


def _proof_badge(schedule: ScheduleSummary) -> Badge:
    covers = schedule.bound_covers
    if schedule.status is Status.OPTIMAL and covers is not None:
        return Badge(f"optimal among {covers.in_words}", "good")
    if schedule.gap is None:
        return Badge("no bound covers this plan", "open")
    return Badge(f"gap at most {schedule.gap:.2%}", "open")


def _cost_badge(build: BuildReport) -> Badge:
    if build.devices > 1:
        return Badge("costs by the device files", "open")
    measured = build.cost_sources.get("measured", 0)
    total = sum(build.cost_sources.values())
    if not measured:
        return Badge("costs estimated, none measured", "open")
    return Badge(f"costs of {measured:,} of {total:,} ops measured", "good")


def _verified_badge(run: RunReport) -> Badge:
    if run.verify is None:
        return Badge("bits not verified", "open")
    return Badge("bits verified", "good") if run.verify.ok else Badge("verification failed", "bad")


def lead(source: ReportSource) -> str:
    """Summary of the build, in a few sentences."""
    build, schedule = source.build, source.build.schedule
    sentences = [f"Keeping everything would take {size(build.checkpoint_all_peak_bytes)}."]
    if build.devices == 1:
        spare = build.budget_bytes - build.peak_bytes
        sentences.append(
            f"This plan takes {size(build.peak_bytes)}, {size(spare)} below its budget of "
            f"{size(build.budget_bytes)}."
        )
    else:
        used = (
            f"{part.device} {size(part.arena.size_bytes)} of {size(part.arena.limit_bytes)}"
            for part in source.plan.parts
        )
        sentences.append(f"The devices take for tensors: {'; '.join(used)}.")
    sentences.append(_moves(schedule))
    if build.streaming is not None:
        streaming = build.streaming
        sentences.append(
            f"Ops stream {size(streaming.streamed_bytes)} of weights and their state: in a step "
            f"they read {size(streaming.read_bytes)} from storage and write "
            f"{size(streaming.written_bytes)}."
        )
        if streaming.constants:
            sentences.append(
                f"{size(streaming.constant_bytes)} of frozen weights, for which flash has no room, "
                "are streamed, too, and only read."
            )
        if streaming.stored:
            sentences.append(
                f"{len(streaming.stored)} activations and gradients are stored in storage, and ops "
                "run on parts of them."
            )
    sentences += _price(build)
    if build.stored_as is not None:
        sentences += _stored(build.stored_as)
    if build.more_ram is not None:
        more = build.more_ram
        sentences.append(
            f"With {size(more.size_bytes)} more RAM, a step would take {joules(more.energy_j)} "
            f"instead of {joules(schedule.energy_j)}."
        )
    return " ".join(sentences)


def _stored(stored: StoredAs) -> Iterator[str]:
    """Effect of smaller activations, beside float32 where that is known."""
    error = "with the same gradients"
    if stored.gradient_error:
        error = f"and the first batch's gradients are {stored.gradient_error:.2g} from float32's"
    yield (
        f"Activations that wait for the backward pass are stored as {stored.form}, "
        f"{size(stored.after_bytes)} instead of {size(stored.before_bytes)}, {error}."
    )
    floats = stored.floats
    if floats is None:
        return
    text = f"In float32, keeping everything would take {size(floats.peak_bytes)}"
    if floats.in_budget_j is None:
        yield f"{text}; no plan in this budget was found."
    else:
        yield f"{text}, and a step in this budget at most {joules(floats.in_budget_j)}."


def _moves(schedule: ScheduleSummary) -> str:
    did = []
    if schedule.recomputes:
        did.append(f"computes {_count(schedule.recomputes, 'op')} again")
    if schedule.page_outs or schedule.page_ins:
        did.append(
            f"writes {_count(schedule.page_outs, 'tensor')} to storage and reads "
            f"{schedule.page_ins:,} back"
        )
    if not did:
        return "A step computes each op once, and pages nothing."
    return f"A step {' and '.join(did)}."


def _price(build: BuildReport) -> Iterator[str]:
    overhead = build.schedule.overhead
    if overhead is None:
        return
    if overhead <= _NOTHING:
        yield "That is the energy of keeping everything."
        return
    text = f"That takes {_times(1 + overhead)} the energy of keeping everything"
    kept = build.ram_curve[-1] if build.ram_curve else None
    if kept is not None and not kept.recomputes and not kept.page_ins and kept.time_s:
        text += f", and {_times(build.schedule.time_s / kept.time_s)} its time"
    yield f"{text}."


def tiles(source: ReportSource) -> tuple[Tile, ...]:
    """Figures at the top."""
    build, run, schedule = source.build, source.run, source.build.schedule
    peak, limit = build.peak_bytes, build.budget_bytes
    high = "" if run is None else f"; a run used {size(run.high_water_bytes)}"
    value, unit = _rounded(peak)
    whole, whole_unit = _rounded(limit)
    found = [
        Tile(
            "RAM of the arena",
            value,
            f"{unit} of {whole} {whole_unit}",
            f"{size(peak)}{high}",
            peak / limit,
        )
    ]
    value, unit = _scaled(schedule.time_s, "s")
    found.append(Tile("Time of a step, planned", value, unit, _measured_time(run)))
    if schedule.energy_j:
        value, unit = _scaled(schedule.energy_j, "J")
        note = f"{joules(schedule.compute_energy_j)} computing"
        if build.streaming is not None:
            note += f" and streaming ({joules(build.streaming.energy_j)} of it)"
        if build.devices == 1:
            note += f", {joules(schedule.paging_energy_j)} paging"
        if run is not None and run.measured_energy_j is not None:
            note += f"; the meter {run.energy_source}: {joules(run.measured_energy_j)} for the run"
        found.append(Tile("Energy of a step, planned", value, unit, note))
    if run is not None:
        found.append(_learned(run))
    if build.flash_bytes is not None:
        value, unit = _rounded(build.flash_bytes)
        parts = []
        if build.frozen_bytes:
            parts.append(f"{size(build.frozen_bytes)} frozen weights")
        if build.schedule_bytes is not None:
            parts.append(f"{size(build.schedule_bytes)} by the schedule")
        found.append(Tile("Flash", value, unit, ", ".join(parts)))
    return tuple(found)


def _measured_time(run: RunReport | None) -> str:
    if run is None or not run.step_s:
        return "not measured"
    if run.instructions is not None:
        return f"emulator: {seconds(run.step_s)} at a cycle per instruction"
    if run.emulated:
        return f"emulator: {seconds(run.step_s)}"
    return f"measured: {seconds(run.step_s)}"


def _learned(run: RunReport) -> Tile:
    note = f"after {_count(run.steps, 'step')}"
    if run.loss:
        note += f", loss {run.loss[0]:.3g} → {run.loss[-1]:.3g}"
    if run.accuracy is not None:
        return Tile("Held-out accuracy", f"{100 * run.accuracy:.2f}", "%", note, run.accuracy)
    if run.held_out_loss is not None:
        return Tile("Held-out loss", f"{run.held_out_loss:.4g}", "", note)
    return Tile("Training", f"{run.steps:,}", "steps", note)


# What is proven ---------------------------------------------------------------------------------


def proofs(source: ReportSource) -> tuple[tuple[str, str], ...]:
    """Statements on what is proven, measured or open, by subject."""
    build, run = source.build, source.run
    return (
        ("Plan", _plan_proof(build)),
        (
            "Legality",
            "An independent simulator replayed the plan step by step, and an independent "
            "validator checked every address. A build that fails either is refused.",
        ),
        ("Bits", _bits(run)),
        ("RAM", _ram(source)),
        ("Costs", _costs(build)),
        ("Energy", _energy(build, run)),
        ("Time", _time(build, run)),
        ("Transfers", _transfers(run)),
        ("Board", _board(run)),
    )


def _plan_proof(build: BuildReport) -> str:
    schedule = build.schedule
    if build.devices > 1:
        return (
            f"Found by {schedule.scheduler}, {schedule.status}. Time was minimised. How far the "
            "plan is from the best one is not part of this build."
        )
    covers = "" if schedule.bound_covers is None else schedule.bound_covers.in_words
    order = "" if schedule.bound_covers is BoundCovers.ALL else " Plans for other orders are open."
    if schedule.status is Status.OPTIMAL and covers:
        gap = f"{schedule.gap or 0:.4%}"
        less = "less energy" if gap == f"{0:.4%}" else f"over {gap} less energy"
        text = f"No plan takes {less} among {covers}.{order}"
    elif schedule.gap is None:
        text = "No bound covers this plan: how much less energy another takes is open."
    elif schedule.gap <= _NOTHING:
        text = f"At least as good as the best of {covers}.{order}"
    else:
        text = f"The best of {covers} takes at most {schedule.gap:.2%} less energy.{order}"
    if build.time_limited:
        text += " The time limit ended a search: another run may find another plan."
    return text


def _bits(run: RunReport | None) -> str:
    if run is None or run.verify is None:
        return (
            "Not verified. `poetfw run --verify` compares every weight with a run that keeps "
            "everything."
        )
    found = run.verify
    same = "are those" if found.bit_identical_to_unscheduled else "are NOT those"
    text = f"Weights, optimizer state and losses {same} of a run that keeps everything, bit by bit."
    if found.ops is not None:
        bound = "within" if found.ops.first_beyond is None else "NOT within"
        text += f" {_count(found.ops.checked, 'op')} of the last step {bound} their error bounds."
    return text if found.ok else f"{text} Verification failed: {'; '.join(found.missed)}"


def _ram(source: ReportSource) -> str:
    build, run = source.build, source.run
    if run is None:
        return f"Planned: {size(build.peak_bytes)}. Not run yet."
    programs = [(name, build.memories[name], ran) for name, ran in run.memories.items()]
    texts = []
    for name, planned, ran in programs:
        which = f"{name}: " if name else ""
        same = "the same" if ran.high_water_bytes == planned.peak_bytes else "a difference"
        texts.append(
            f"{which}{size(planned.peak_bytes)} planned, {size(ran.high_water_bytes)} counted by "
            f"the program itself: {same}."
        )
    return " ".join(texts)


def _costs(build: BuildReport) -> str:
    if build.devices > 1:
        return "Times and energies of ops and links follow from the device files."
    if not build.cost_sources.get("measured", 0) and not build.cost_sources.get("fitted", 0):
        return "Analytic: operation counts and the board's published figures. Nothing was measured."
    return f"{build.costs[0].upper()}{build.costs[1:]}."


def _energy(build: BuildReport, run: RunReport | None) -> str:
    text = "Not planned for several devices"
    if build.schedule.energy_j:
        text = f"{joules(build.schedule.energy_j)} a step, planned"
    if run is None or run.measured_energy_j is None:
        return f"{text}. No meter measured it."
    return (
        f"{text}. The meter {run.energy_source} counted {joules(run.measured_energy_j)} in the "
        f"whole run of {_count(run.steps, 'step')}, evaluations and start included."
    )


def _time(build: BuildReport, run: RunReport | None) -> str:
    planned = f"{seconds(build.schedule.time_s)} planned"
    if build.devices > 1:
        planned += " for devices as their files describe them"
    if run is None or not run.step_s:
        return f"{planned}, not measured."
    text = f"{planned}; {_measured_time(run)}."
    if run.emulated:
        text += " An emulator has neither the board's wait states nor its storage."
    if run.step_instructions is not None and run.planned_instructions is not None:
        text += (
            f" {run.planned_instructions:,.0f} instructions planned, "
            f"{run.step_instructions:,.0f} counted "
            f"({run.planned_instructions / run.step_instructions - 1:+.1%})."
        )
    return text


def _transfers(run: RunReport | None) -> str:
    if run is None or run.step_traffic is None:
        return "Not counted."
    if run.planned_traffic is None:
        return f"{run.step_traffic.requests:,} requests in the run's training steps."
    if run.step_traffic == run.planned_traffic:
        return f"{run.step_traffic.requests:,} requests in the run's training steps, as planned."
    return (
        f"{run.step_traffic.requests:,} requests in the run's training steps, and "
        f"{run.planned_traffic.requests:,} planned."
    )


def _board(run: RunReport | None) -> str:
    if run is None:
        return "This plan has not run."
    return "; ".join(f"{one.board}: {_place(one)}" for one in run.memories.values()) + "."


def _place(run: ProgramRun) -> str:
    if run.port is not None:
        return f"the board itself, at {run.port}"
    if run.emulated:
        return f"the emulator {run.emulator}, not the board"
    return "this computer"


def commands(source: ReportSource) -> Sequence[str]:
    """Command lines that make the build, its run and this report again."""
    build, run = source.build, source.run
    lines = [build.command] if build.command else []
    if run is not None and run.command:
        lines.append(run.command)
    if lines:
        lines.append(("poetfw", "report", "--out", build.out_dir, "-o", "report.html"))
    return [shlex.join(line) for line in lines]


def identity(source: ReportSource) -> tuple[tuple[str, str], ...]:
    """Names and paths of the build and the run."""
    build, run = source.build, source.run
    rows = [("folder", build.out_dir)]
    for name, program in build.memories.items():
        which = f" of {name}" if name else ""
        rows.append((f"plan{which}", program.plan_id))
        if program.elf is not None:
            rows.append((f"firmware{which}", program.elf))
    if run is not None:
        rows.append(("trained weights", run.trained))
    return tuple(rows)


def who(source: ReportSource) -> str:
    """Words for those that work in a training step, and their verb."""
    if source.build.devices > 1:
        return "the devices and the links between them do"
    paging = source.build.schedule.page_outs or source.build.schedule.page_ins
    return "the core and the storage do" if paging else "the core does"


def layers_note(source: ReportSource) -> str:
    """Explanation of the bars of layers."""
    run = source.run
    if run is None or run.trace is None:
        return "Planned. `poetfw run --trace` also times each op of a step."
    how = "timed"
    if run.tick_unit == "instructions":
        how = "counted by the emulator, at a cycle per instruction and without the storage's time"
    left_out = ", without steps that use storage" if run.emulated else ""
    return (
        f"Thick, first figure: planned. Thin, second: {how}. Its joules are these seconds at the "
        f"power that the plan has for each op{left_out}: no meter measures single ops."
    )


def curve_note(build: BuildReport) -> str:
    """Explanation of the energies by RAM; a sentence where there is nothing to draw."""
    points = build.ram_curve
    if len(points) > FEW_POINTS:
        return (
            "At most this energy: each point is the best schedule found with little work, and "
            "holds up to the next."
        )
    if len(points) < FEW_POINTS:
        return "The budget has room for keeping everything."
    own, kept = points
    return (
        f"Keeping everything takes {size(kept.budget_bytes - own.budget_bytes)} more, and "
        f"{1 - kept.energy_j / own.energy_j:.2%} less energy."
    )


def loss_note(source: ReportSource) -> str:
    """Explanation of the loss curve."""
    run = source.run
    if run is None:
        return ""
    text = "Loss of each step's batch, and its mean over 10 steps."
    if run.evaluations:
        measure = "accuracy" if run.accuracy is not None else "loss"
        text += f" Green: {measure} of {source.build.held_out_samples:,} held-out samples."
    return text
