# SPDX-License-Identifier: Apache-2.0
"""`poetfw build`: from a model to firmware."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from poetfw.cli import output
from poetfw.cli.command import command, command_deadline
from poetfw.cli.devices import log_of_devices
from poetfw.common.limits import Deadline
from poetfw.settings import (
    Application,
    Budget,
    BuildLimits,
    CompilerSettings,
    CostSettings,
    Detailed,
    Devices,
    NetworkSettings,
    Programmed,
    ProjectSettings,
    SchedulerSettings,
    Settings,
    TrainingSettings,
    arguments,
    setting,
)

if TYPE_CHECKING:
    from poetfw.report import (
        BuildReport,
        EnduranceReport,
        FeaturesReport,
        FrozenAs,
        MoreRam,
        StoredAs,
        StreamingReport,
    )


@dataclass(frozen=True)
class Written(Settings, group="Output"):
    """Extent of a build."""

    generate_only: bool = setting("Write the project without compiling it.", False, first=True)


@command("Example:  poetfw build --board nrf52840 --model net.pt2 --data samples.npz --batch 16")
def build(
    programmed: Programmed,
    devices: Devices,
    network: NetworkSettings,
    budget: Budget,
    by: SchedulerSettings,
    training: TrainingSettings,
    application: Application,
    costs: CostSettings,
    limits: BuildLimits,
    compiler: CompilerSettings,
    written: Written,
    project: ProjectSettings,
    printed: Detailed,
) -> None:
    """Plan the training of a model on a board, write the firmware and compile it."""
    from poetfw.api.plans import PlanWatch, check_target, plan_settings

    end = command_deadline(limits.time_limit_s)
    given = devices, network, budget, by, training, application, costs, limits, compiler
    typed = arguments(programmed, *given, written, project)
    with output.spinner() as progress:
        plan = plan_settings(
            PlanWatch(progress, output.search_log(progress, end), log_of_devices("time")),
            programmed,
            *given,
            end=end,
            command=("poetfw", "build", *typed),
            check=lambda settings: check_target(settings, project.out, not written.generate_only),
        )
        if written.generate_only:
            firmware = plan.write(project.out)
        else:
            firmware = plan.compile(project.out, progress=progress)
    for warning in plan.warnings:
        output.warn(warning)
    if printed.as_json:
        output.print_json(firmware.figures.to_json())
    else:
        run = ["--board", programmed.board] if programmed.board else []
        is_default = firmware.folder == plan.default_folder
        run += [] if is_default and run else ["--out", str(firmware.folder)]
        print_build(firmware.figures, firmware.folder, end, run, printed.verbose)


_LAYER_NAMES = {
    "conv2d": ("convolution", "convolutions"),
    "batch_norm": ("batch norm", "batch norms"),
    "linear": ("linear", "linear"),
    "dropout": ("dropout", "dropouts"),
}
"""Names of layer kinds in reports, singular and plural; other kinds keep their own names."""


def _layers(report: BuildReport) -> str:
    kinds = [kind for kind in _LAYER_NAMES if kind in report.layers]
    kinds += [kind for kind in report.layers if kind not in _LAYER_NAMES]
    text = ", ".join(
        f"{report.layers[kind]} {_LAYER_NAMES.get(kind, (kind, kind))[report.layers[kind] != 1]}"
        for kind in kinds
    )
    if not report.frozen:
        return text
    more = f" and {len(report.frozen) - 4} more" if len(report.frozen) > 4 else ""
    return f"{text}; frozen: {', '.join(report.frozen[:4])}{more}"


def _saved(more: MoreRam) -> str:
    """Energy that a larger budget would save, in words."""
    return f"{output.size(more.size_bytes)} more would save {more.saved:.1%}"


def _format_row(frozen_as: FrozenAs, classifies: bool) -> tuple[str, str]:
    """Measure of held-out samples with frozen weights in float32, and in a smaller format."""
    before, after = (
        f"{value:.2%}" if classifies else f"{value:.6g}"
        for value in (frozen_as.before, frozen_as.after)
    )
    measure = "accuracy" if classifies else "loss"
    return f"frozen as {frozen_as.format}", f"held-out {measure} {before} → {after}, untrained"


def _stored_rows(stored_as: StoredAs, report: BuildReport) -> Iterator[tuple[str, str]]:
    """Bytes and joules in float32 and in a smaller form, and the error of the gradients."""
    before, after = output.size(stored_as.before_bytes), output.size(stored_as.after_bytes)
    error = "same gradients"
    if stored_as.gradient_error:
        error = f"the first batch's gradients are {stored_as.gradient_error:.2g} from float32's"
    yield f"waiting, as {stored_as.form}", f"{before} → {after}; {error}"
    floats = stored_as.floats
    if floats is None:
        return
    before, after = output.size(floats.peak_bytes), output.size(report.checkpoint_all_peak_bytes)
    energies = _energies(floats.energy_j, stored_as.everything_j)
    yield "… keeping everything", f"{before} → {after}; {energies}"
    if floats.in_budget_j is None:
        yield "… in this budget", "no schedule found in float32 with all weights in RAM"
    else:
        yield "… in this budget", _energies(floats.in_budget_j, report.schedule.energy_j)


def _energies(before_j: float, after_j: float) -> str:
    """Energy of a step before and after, in words."""
    change = f" ({after_j / before_j - 1:+.1%})" if before_j else ""
    return f"{before_j * 1e3:.3f} → {after_j * 1e3:.3f} mJ a step{change}"


def _features_row(features: FeaturesReport) -> tuple[str, str]:
    """Energy of an epoch that calculates the frozen part's output, and of one that reads it."""
    place = "RAM" if features.place == "ram" else "storage"
    size = features.ram_bytes + features.storage_bytes
    which = f"kept in {place}" if features.kept else "calculated in every epoch"
    energies = f"{features.calculated_j:.4g} J an epoch, {features.kept_j:.4g} J if kept"
    room = f" in {output.size(size)}" if features.kept else ""
    return "frozen part's output", f"{which}{room}: {features.reason}; {energies}"


_INSTEAD = (
    "faster instead",
    "--freeze or --train last:1: frozen weights are never written; with --keep-features, their "
    "part is not computed again",
)


def _streaming_rows(
    streaming: StreamingReport, frozen_bytes: int, step_s: float
) -> list[tuple[str, str]]:
    """Places of tensors, traffic of streamed and stored ones, and wear of the storage."""
    moved = streaming.read_bytes + streaming.written_bytes
    steps = streaming.epoch_steps
    hours = steps * step_s / 3600
    rewritten = f"; each block is rewritten {streaming.rewrites:,.0f} times"
    stored = []
    if streaming.stored:
        size, count = output.size(streaming.stored_bytes), len(streaming.stored)
        stored = [("activations", f"{size} in {count} tensors are stored in storage, not in RAM")]
    frozen = []
    if streaming.constants:
        text = f"{output.size(frozen_bytes)} in flash, {output.size(streaming.constant_bytes)}"
        frozen = [("frozen weights", f"{text} streamed from storage")]
    return [
        (
            "weights and states",
            f"{output.size(streaming.resident_bytes)} in RAM, "
            f"{output.size(streaming.streamed_bytes)} streamed from storage",
        ),
        *frozen,
        *stored,
        (
            "streamed per step",
            f"{output.size(streaming.read_bytes)} read, {output.size(streaming.written_bytes)} "
            f"written in {streaming.requests:,} requests; {streaming.time_s:.4g} s, "
            f"{streaming.energy_j * 1e3:.3f} mJ of the step's",
        ),
        (
            "… per epoch",
            f"{steps:,} steps: {output.size(steps * moved)} moved, {hours:.3g} hours in all"
            + (rewritten if streaming.rewrites else ""),
        ),
        *([_INSTEAD] if hours >= 1 and streaming.tensors else []),
    ]


def _endurance_row(endurance: EnduranceReport) -> tuple[str, str]:
    """Steps, epochs and days of training that the storage's rated endurance allows."""
    return (
        "rated endurance",
        f"{output.size(endurance.rated_bytes)} written, at {endurance.step_bytes:,.0f} a step: "
        f"{endurance.steps:,} steps, {_rounded(endurance.epochs)} epochs, or "
        f"{_rounded(endurance.days)} days without a pause",
    )


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _trained(report: BuildReport) -> str:
    text = f"{report.trained_weights:,} of {report.weights:,} weights"
    parts = [f"{part} of {name}" for name, part in report.trained_in_part.items()]
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return f"{text}; {', '.join(parts[:4])}{more}" if parts else text


def print_build(
    report: BuildReport,
    folder: Path,
    end: Deadline,
    run: Sequence[str],
    verbose: bool,
) -> None:
    """Print a build's result: model, memory of each program, and plan."""
    schedule = report.schedule
    apart = len(report.memories) > 1
    energy = f"{schedule.energy_j * 1e3:.3f} mJ"
    trained = "trained", _trained(report)
    basis = ", ".join(source for source, count in report.cost_sources.items() if count)
    rows = [
        ("model", f"{report.model}, batch {report.batch}"),
        output.Detail("layers", _layers(report)),
        output.Detail("optimizer", report.optimizer),
        *([trained] if report.trained_weights < report.weights else [output.Detail(*trained)]),
        *([] if report.frozen_as is None else [_format_row(report.frozen_as, report.classifies)]),
        *(
            []
            if report.streaming is None
            else _streaming_rows(report.streaming, report.frozen_bytes, schedule.time_s)
        ),
        *([] if report.endurance is None else [_endurance_row(report.endurance)]),
        *([] if report.stored_as is None else _stored_rows(report.stored_as, report)),
        *([] if report.features is None else [_features_row(report.features)]),
        ("keeping everything", output.size(report.checkpoint_all_peak_bytes)),
        *(row for name in report.memories for row in _program_rows(name, report.of(name))),
        (
            "schedule",
            f"{schedule.scheduler}: {schedule.recomputes} recomputes, "
            f"{schedule.page_outs} page-outs, {schedule.page_ins} page-ins",
        ),
        *(output.proven_rows(schedule) if report.devices == 1 else []),
        *([] if report.more_ram is None else [("more RAM", _saved(report.more_ram))]),
        output.Detail("costs", report.costs),
        output.Detail("toolchain", report.toolchain),
        *([(f"energy per step ({basis})", energy)] if report.devices == 1 else []),
        (f"time per step ({basis})", f"{schedule.time_s:.4g} s"),
        *output.spent_rows(end),
        output.Detail("projects" if apart else "project", str(folder)),
    ]
    where = "boards of their own" if apart else report.board
    output.results.print(output.facts(f"{report.model} on {where}", rows, verbose=verbose))
    if report.elf is not None:
        output.results.print(f"Run it:  {output.escaped(shlex.join(['poetfw', 'run', *run]))}")


def _program_rows(name: str, report: BuildReport) -> list[tuple[str, str]]:
    """Rows on a program's RAM and flash, headed by its name if there are several."""
    rows = [(name, f"a program for {report.board}")] if name else []
    if report.devices == 1:
        rows.append(output.Detail("smallest possible", output.size(report.minimum_budget_bytes)))
    rows += [
        ("budget", output.size(report.budget_bytes)),
        ("peak", output.size(report.peak_bytes)),
    ]
    if report.live_bytes < report.peak_bytes:
        rows.append(output.Detail("… live at once", output.size(report.live_bytes)))
    if report.devices > 1:
        arenas = [part.arena for part in report.parts]
        rows += [
            (f"… of {a.device}", f"{output.size(a.size_bytes)} of {output.size(a.limit_bytes)}")
            for a in arenas
        ]
        rows.append(("… for the whole run", output.size(min(a.offset for a in arenas))))
    if report.flash_bytes is None or report.ram_bytes is None:
        return rows
    rows.append(("flash used", output.size(report.flash_bytes)))
    if report.frozen_bytes:
        rows.append(output.Detail("… of it frozen weights", output.size(report.frozen_bytes)))
    if report.schedule_bytes is not None:
        rows.append(
            output.Detail("… of it added by the schedule", output.size(report.schedule_bytes))
        )
    return [
        *rows,
        ("RAM used, stack included", output.size(report.ram_bytes)),
        output.Detail("firmware", str(report.elf)),
    ]
