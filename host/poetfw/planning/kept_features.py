# SPDX-License-Identifier: Apache-2.0
"""Choice between keeping the frozen part's output for each sample and recalculating it each epoch.

A training plan begins with ops of the frozen part. If the rest of the plan reads only one of their
tensors [batch, ...], the step can load this tensor, the features, instead of calculating it, with
the same plan, addresses and bits. Among all such tensors, the one that saves most energy is used.
Where the records fit the RAM that the plan leaves free, they are kept there, which costs nothing to
read; else in storage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from poetfw.boards import Board
from poetfw.common.errors import ConfigError
from poetfw.costs import CostTable
from poetfw.firmware import BLOCK_BYTES, LARGEST_SAMPLES_BYTES, KeptFeatures
from poetfw.importers import DataSet
from poetfw.ir import Graph, Op
from poetfw.models import Model
from poetfw.ops.pieces import plain_name
from poetfw.planning.problem import schedule_problem
from poetfw.report import FeaturesReport
from poetfw.schedule import ExecutionPlan, Node, Schedule, StepKind
from poetfw.settings import BuildSettings
from poetfw.training import Program, frozen_part, is_of_one_sample

_MOST_TARGETS_BYTES = BLOCK_BYTES
"""Largest size of a batch's targets, stored with the features, for which features are kept
without being requested."""

_NONE = "nothing that precedes all that trains is the same in every epoch"


@dataclass(frozen=True)
class BatchCosts:
    """Costs of a batch's features, in joules or in seconds.

    Attributes:
        calculating: cost of the steps that calculate features, and of loading the targets.
        reading: cost of reading records, which hold features and targets.
        writing: cost of looking for records without finding any, and of writing them.
    """

    calculating: float
    reading: float
    writing: float


@dataclass(frozen=True)
class Keepable:
    """Features that a plan could keep, with their costs per batch in joules and in seconds."""

    features: KeptFeatures
    energy_j: BatchCosts
    time_s: BatchCosts

    def in_ram(self, records: int) -> Keepable:
        """The same features with records in RAM, whose reading and writing cost nothing."""

        def costs(of: BatchCosts) -> BatchCosts:
            return BatchCosts(of.calculating, 0.0, 0.0)

        kept = replace(self.features, records=records)
        return Keepable(kept, costs(self.energy_j), costs(self.time_s))

    @property
    def saved_j(self) -> float:
        """Joules that a step saves if it reads the features."""
        return self.energy_j.calculating - self.energy_j.reading

    @property
    def break_even_epochs(self) -> int | None:
        """Number of epochs after which keeping has saved energy in total; None for never.

        The first epoch calculates the features and also writes them; each later epoch saves energy.
        """
        return 1 + math.ceil(self.energy_j.writing / self.saved_j) if self.saved_j > 0 else None


def find_keepable(
    program: Program, plan: ExecutionPlan, board: Board, costs: CostTable
) -> tuple[Keepable, Keepable] | None:
    """Find the features that save the most energy if kept; None if a plan has none.

    The first ones are those to keep in storage, where reading them costs energy; the second those
    to keep in RAM.

    Args:
        program: the program.
        plan: plan of its training step.
        board: board with the storage for the features.
        costs: costs of the training step's ops.
    """
    if board.storage is None:
        return None
    nodes = {
        node.name: node for node in schedule_problem(program.training, board, costs, None).nodes
    }
    found = [
        _costs(program, kept, plan, board, costs, nodes) for kept in _cuts(program, plan, board)
    ]
    if not found:
        return None
    latest = max(found, key=lambda each: each.energy_j.calculating)
    return max(found, key=lambda each: each.saved_j), latest


def _cuts(program: Program, plan: ExecutionPlan, board: Board) -> Iterator[KeptFeatures]:
    """Positions in the plan at which a single tensor of the frozen part is in RAM."""
    graph, batch = program.training, program.batch
    fixed = frozen_part(graph)
    ops = {op.name: op for op in graph.ops}
    unit = -(-((board.storage and board.storage.erase_bytes) or BLOCK_BYTES) // BLOCK_BYTES)
    held: set[str] = set()
    done: set[str] = set()
    for index, step in enumerate(plan):
        if step.kind is StepKind.COMPUTE and step.node in fixed:
            held.add(step.node)
            done.add(step.node)
        elif step.kind is StepKind.FREE and step.node in held:
            held.remove(step.node)
        else:
            return
        rest = plan[index + 1 :]
        live = [ops[name] for name in held if _is_read(graph, ops[name], rest)]
        again = any(later.kind is StepKind.COMPUTE and later.node in done for later in rest)
        if len(live) != 1 or again:
            continue
        (op,) = live
        tensor = graph.by_name[op.output or ""]
        if plain_name(op.kind) != "load_x" and tensor.shape[0] == batch and not tensor.tile:
            sizes = tensor.size_bytes // batch, program.y.size_bytes
            yield KeptFeatures(tensor.name, index + 1, *sizes, unit)


def _is_read(graph: Graph, op: Op, rest: ExecutionPlan) -> bool:
    """True if the rest of a plan reads or moves an op's output before it frees or writes it."""
    readers = {reader.name for reader in graph.consumers[op.output or ""]}
    for step in rest:
        if step.node == op.name:
            return step.kind is StepKind.PAGE_OUT
        if step.kind is StepKind.COMPUTE and step.node in readers:
            return True
    return False


def _costs(
    program: Program,
    kept: KeptFeatures,
    plan: ExecutionPlan,
    board: Board,
    costs: CostTable,
    nodes: Mapping[str, Node],
) -> Keepable:
    storage, batch = board.storage, program.batch
    assert storage is not None
    read, write = costs.page_in or storage.page_in, costs.page_out or storage.page_out
    loads = {op.name for op in program.training.ops if plain_name(op.kind) == "load_y"}
    left_out = [
        nodes[step.node]
        for index, step in enumerate(plan)
        if step.kind is StepKind.COMPUTE and (index < kept.steps or step.node in loads)
    ]
    size = kept.read_bytes
    energy = BatchCosts(
        sum(node.energy_j for node in left_out),
        batch * read.cost_j(size),
        read.cost_j(size) + batch * write.cost_j(size),
    )
    time = BatchCosts(
        sum(node.time_s for node in left_out),
        batch * read.time_s(size),
        read.time_s(size) + batch * write.time_s(size),
    )
    return Keepable(kept, energy, time)


def are_wanted(settings: BuildSettings, model: Model, keepable: Keepable | None) -> bool:
    """True if storage is to keep features if possible: as set, or because that saves energy."""
    if keepable is None or settings.keep_features in ("never", "ram"):
        return False
    if settings.keep_features == "storage":
        return True
    return not _reason_against(model, keepable)


def choose_features(
    settings: BuildSettings,
    board: Board,
    model: Model,
    data: DataSet,
    program: Program,
    schedule: Schedule,
    keepable: Keepable | None,
    latest: Keepable | None,
    image_bytes: int,
    spare_bytes: int,
    *,
    wanted: bool,
) -> tuple[FeaturesReport | None, KeptFeatures | None]:
    """Choose whether and where to keep features; reports both costs of an epoch, and the reason.

    Args:
        settings: settings of the build.
        board: board with its storage.
        model: the model.
        data: data set whose features would be kept.
        program: training and evaluation step.
        schedule: schedule of the training step.
        keepable: features that the schedule's plan could keep in storage; None without any.
        latest: those that it could keep in RAM; None without any.
        image_bytes: size of the storage image without features.
        spare_bytes: RAM that the plan leaves free.
        wanted: result of `are_wanted`.

    Returns:
        The report, None without a frozen part, and the features to keep, None for none.

    Raises:
        ConfigError: The settings require features to be kept, which is impossible.
    """
    setting = settings.keep_features
    told = setting in ("storage", "ram")
    if keepable is None or latest is None:
        if told:
            raise ConfigError(
                f"--keep-features {setting}: the training step has no features that can be kept: "
                + ("the board has no storage" if board.storage is None else _NONE),
                "freeze all layers before those that train, with batch norms in evaluation mode",
                "or build with --keep-features auto",
            )
        return None, None
    samples, steps = len(data.x_train), len(data.x_train) // program.batch
    records = samples + settings.ring
    in_ram = latest.in_ram(records)
    ram_bytes = in_ram.features.ram_bytes(records, program.batch)
    storage_bytes = records * keepable.features.record_blocks * BLOCK_BYTES
    no_ram = (
        ""
        if ram_bytes <= spare_bytes
        else f"it takes {ram_bytes:,} bytes of RAM, and " + (f"{max(0, spare_bytes):,} are left")
    )
    no_ram = no_ram or _too_slow(settings, schedule, in_ram.time_s)
    if setting == "ram" or (
        setting == "auto" and not no_ram and not _reason_against_ram(model, in_ram)
    ):
        chosen, size_bytes, wanted, obstacle = in_ram, ram_bytes, True, no_ram
    else:
        chosen, size_bytes = keepable, storage_bytes
        obstacle = _obstacle(board, image_bytes, size_bytes)
        obstacle = obstacle or _too_slow(settings, schedule, keepable.time_s)
    kept = chosen.features
    if wanted and not obstacle:
        batch = slice(program.batch)
        x, y = data.x_train[batch], data.y_train[batch]
        if not is_of_one_sample(program, model.weights, kept.tensor, x, y):
            obstacle = "it depends on the other samples of a batch"
    if told and obstacle:
        raise ConfigError(
            f"--keep-features {setting}: the features {kept.tensor!r:.60} cannot be kept: "
            f"{obstacle}",
            "build with --keep-features auto, which calculates them then",
        )
    energy, time, keeps = chosen.energy_j, chosen.time_s, wanted and not obstacle
    report = FeaturesReport(
        kept=keeps,
        reason=obstacle or _reason(settings, model, chosen),
        place="ram" if kept.records else "storage",
        tensor=kept.tensor,
        sample_bytes=kept.sample_bytes,
        storage_bytes=0 if kept.records else size_bytes,
        ram_bytes=size_bytes if kept.records else 0,
        calculated_j=steps * schedule.energy_j,
        kept_j=steps * (schedule.energy_j - chosen.saved_j),
        first_j=steps * (schedule.energy_j + energy.writing),
        calculated_s=steps * schedule.time_s,
        kept_s=steps * (schedule.time_s - time.calculating + time.reading),
        break_even_epochs=chosen.break_even_epochs,
    )
    return report, kept if keeps else None


def _obstacle(board: Board, image_bytes: int, size_bytes: int) -> str:
    """Reason why storage cannot keep features; empty if it can."""
    assert board.storage is not None
    if size_bytes > LARGEST_SAMPLES_BYTES:
        return (
            f"it takes {size_bytes:,} bytes, and an image holds at most {LARGEST_SAMPLES_BYTES:,} "
            "of it"
        )
    room = board.storage.size_bytes
    if room is not None and image_bytes + size_bytes > room:
        return (
            f"it takes {size_bytes:,} bytes, and the storage {board.storage.kind!r} has "
            f"{max(0, room - image_bytes):,} left"
        )
    return ""


def _too_slow(settings: BuildSettings, schedule: Schedule, time_s: BatchCosts) -> str:
    """Message about the step that misses the deadline if features are kept; empty without one."""
    writes_s = schedule.time_s + time_s.writing
    reads_s = schedule.time_s - time_s.calculating + time_s.reading
    longest_s = max(writes_s, reads_s)
    if settings.deadline_s is None or longest_s <= settings.deadline_s:
        return ""
    step = "writes" if longest_s == writes_s else "reads"
    return (
        f"a step that {step} it takes {longest_s:.3g} s, more than the deadline of "
        f"{settings.deadline_s:.3g} s"
    )


def _reason_against(model: Model, keepable: Keepable) -> str:
    """Reason why keeping features in storage is not the better choice; empty if it is."""
    targets_bytes = model.batch * keepable.features.target_bytes
    if targets_bytes > _MOST_TARGETS_BYTES:
        return f"the targets of a batch would take {targets_bytes:,} bytes of RAM"
    return _reason_against_ram(model, keepable)


def _reason_against_ram(model: Model, keepable: Keepable) -> str:
    """Reason why calculating features takes no more energy; empty if it does."""
    even = keepable.break_even_epochs
    if even is None:
        return "reading it takes more energy"
    if even > model.epochs:
        return f"keeping it takes less energy from {even:,} epochs on"
    return ""


def _reason(settings: BuildSettings, model: Model, keepable: Keepable) -> str:
    if settings.keep_features != "auto":
        return f"--keep-features {settings.keep_features}"
    if keepable.features.records:
        return _reason_against_ram(model, keepable) or "reading it takes less energy"
    return _reason_against(model, keepable) or "reading it takes less energy"
