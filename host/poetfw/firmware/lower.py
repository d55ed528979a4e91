# SPDX-License-Identifier: Apache-2.0
"""Lowering of a program with its plans and addresses to the views that templates render."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from poetfw.boards import Board
from poetfw.common.version import __version__
from poetfw.firmware.c_text import comment_text
from poetfw.firmware.defines import (
    IMAGE_WORDS,
    OTHER_SUMS,
    Facts,
    common_settings,
    device_facts,
    divisors_of,
    kept_settings,
    message_settings,
    message_views,
    ring_facts,
    watchdog_facts,
    worker_settings,
)
from poetfw.firmware.kept import KeptFeatures
from poetfw.firmware.members import member_settings, type_views
from poetfw.firmware.prediction import Prediction
from poetfw.firmware.ring import Ring
from poetfw.firmware.slots import Slot, SlotPurpose
from poetfw.firmware.step_code import Shared, StepLowering
from poetfw.firmware.tensor_names import ConstantTable, Names
from poetfw.firmware.tile_choice import program_tiles
from poetfw.firmware.views import (
    Define,
    PersistentView,
    ProjectView,
    SlotView,
    StoredView,
    StreamView,
)
from poetfw.memory.plan import MemoryPlan
from poetfw.memory.step_plan import StepPlan, on_one
from poetfw.schedule import ExecutionPlan
from poetfw.training import Program


@dataclass(frozen=True)
class Lowering:
    """Views of a project, and the model's names by identifier."""

    view: ProjectView
    names: Mapping[str, str]


def lower(
    program: Program,
    board: Board,
    training: StepPlan,
    evaluation: ExecutionPlan,
    memory: MemoryPlan,
    slots: Sequence[Slot],
    prediction: Prediction | None = None,
    ring: Ring | None = None,
    slices: bool = False,
    watchdog_ms: int | None = None,
    kept: KeptFeatures | None = None,
) -> Lowering:
    """Lower plans to views; identifiers are derived from indices, never from a model's strings."""
    plan_id = _plan_id(
        program,
        board,
        ring,
        kept,
        _identity(training.steps),
        _identity(evaluation),
        memory.to_json(),
        *([training.here, training.evaluates, *training.memories] if training.apart else []),
    )
    names = Names(program, prediction)
    constants = ConstantTable(program_tiles(program, board))
    persistent_offsets = {a.owner: a.offset for a in memory.persistent}
    slot_names = {(slot.tensor, slot.purpose): names.slot(slot) for slot in slots}
    shared = Shared(names, constants, slot_names, board.overlaps)
    training_view = replace(
        StepLowering(
            shared,
            program.training,
            training,
            memory.training,
            memory.persistent,
            training.own_messages(program) if training.apart else (),
            kept=kept,
        ).lower("poet_train_step", "one training step"),
        marked=True,
        sliced=slices,
    )
    evaluation_view = StepLowering(
        shared, program.evaluation, on_one(evaluation), memory.evaluation
    ).lower("poet_evaluate_step", "one evaluation step")
    views = [training_view, evaluation_view]
    prediction_view = None
    if prediction is not None:
        prediction_view = StepLowering(
            shared,
            prediction.graph,
            on_one(prediction.plan),
            prediction.memory,
            predicts=True,
        ).lower("poet_predict_step", "the prediction of one sample")
        views.append(prediction_view)
    facts = Facts.of(program, memory, training.steps)
    view = ProjectView(
        title=f"{comment_text(program.training.name.removesuffix(' training'))} on {board.name}, "
        f"batch {program.batch}",
        plan_id=plan_id,
        poetfw_version=__version__,
        board=board.name,
        settings=(
            *common_settings(program, board, memory, facts, names, plan_id),
            *member_settings(program),
            *ring_facts(ring, "POET_"),
            *kept_settings(kept),
            *([Define("POET_SLICES", "1", "a training step can be cut")] if slices else []),
            *worker_settings(training),
            *message_settings(program, training),
        ),
        facts=(
            *facts.public(program, board, memory, plan_id),
            *ring_facts(ring, ""),
            *watchdog_facts(watchdog_ms),
            *device_facts(training),
        ),
        slices=slices,
        ring=ring is not None,
        image_words=IMAGE_WORDS + (ring is not None),
        types=type_views(program, classifies=facts.classes > 0),
        metric_comment="how many answers are right" if facts.classes else "mean loss",
        addresses=tuple(
            names.address(names.tensor(tensor), tensor, persistent_offsets[tensor.name])
            for tensor in program.persistent
            if tensor.name in persistent_offsets
        ),
        flash=tuple(names.in_flash(tensor) for tensor in program.in_flash),
        slots=tuple(
            SlotView(
                slot_names[slot.tensor, slot.purpose],
                slot.first_block,
                slot.size_bytes,
                f"{slot.purpose}: {comment_text(slot.tensor)}",
            )
            for slot in slots
            if slot.tiling is None and slot.image is None
        ),
        streams=tuple(
            StreamView(
                names.stream(slot.tensor),
                slot.first_block,
                slot.blocks,
                slot.tiling,
                slot.purpose is SlotPurpose.CONSTANT,
                comment_text(slot.tensor),
            )
            for slot in slots
            if slot.tiling is not None
        ),
        stored=tuple(
            StoredView(
                names.stored(slot.tensor),
                slot.first_block,
                slot.image,
                slot.purpose is SlotPurpose.CONSTANT,
                comment_text(slot.tensor),
            )
            for slot in slots
            if slot.image is not None
        ),
        persistents=tuple(
            PersistentView(
                slot_names[slot.tensor, slot.purpose],
                persistent_offsets[slot.tensor],
                comment_text(slot.tensor),
            )
            for slot in slots
            if slot.purpose is SlotPurpose.PERSISTENT and slot.tiling is None
        ),
        constants=constants.views(),
        tiles=constants.tiles(),
        blocks=constants.blocks(),
        plain_loops=constants.plain_loops(),
        divisors=divisors_of(
            program.training,
            program.evaluation,
            *([] if prediction is None else [prediction.graph]),
        ),
        kernels=tuple(sorted({kernel for step in views for kernel in step.kernels})),
        training=training_view,
        evaluation=evaluation_view,
        prediction=prediction_view,
        messages=message_views(program, training, memory),
    )
    return Lowering(view, names.table())


def _plan_id(
    program: Program,
    board: Board,
    ring: Ring | None,
    kept: KeptFeatures | None,
    *parts: object,
) -> str:
    """Digest of everything that firmware and storage image must have in common."""
    document = [
        __version__,
        board.label,
        program.training.to_json(),
        program.evaluation.to_json(),
        *parts,
        *OTHER_SUMS[board.compute.arithmetic],
        *([] if ring is None else [ring.samples, ring.share]),
        *([] if kept is None else [kept.tensor, kept.steps, kept.record_blocks]),
        *(["records in RAM", kept.records] if kept is not None and kept.records else []),
        *([program.fingerprint] if program.fingerprint else []),
    ]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:8]


def _identity(plan: ExecutionPlan) -> list[tuple[str | None, ...]]:
    """Steps in the form that enters the plan's identifier, without the name of a single device."""
    return [tuple(step) if step.device else tuple(step[:2]) for step in plan]
