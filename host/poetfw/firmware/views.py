# SPDX-License-Identifier: Apache-2.0
"""Typed values that templates render; all text is already escaped for C."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.kernels import InnerBlock
from poetfw.ops import ImageLayout, TileLayout


@dataclass(frozen=True, slots=True)
class Define:
    """`#define name value`, with a comment."""

    name: str
    value: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ConstantsView:
    """A kernel's constants: `const struct <struct> <name> = {.field = literal, ...}`."""

    struct: str
    name: str
    comment: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TilesView:
    """A table of the tiles of an op, and its text in C."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class FlashView:
    """Array of a constant in flash.

    Attributes:
        name: macro of the tensor.
        value: expansion of the macro: the array's address, cast to the tensor's type.
        comment: name of the tensor.
        array: name of the array.
        words: number of elements.
    """

    name: str
    value: str
    comment: str
    array: str
    words: int


@dataclass(frozen=True, slots=True)
class SlotView:
    """Slot of a tensor in storage.

    Attributes:
        name: macro of its index.
        first_block: first block, counted from its set or, outside sets, from the slots' region.
        size_bytes: bytes of its payload.
        comment: purpose and tensor.
    """

    name: str
    first_block: int
    size_bytes: int
    comment: str


@dataclass(frozen=True, slots=True)
class StreamView:
    """Streamed tensor in storage.

    Attributes:
        name: macro of its index.
        first_block: first block, counted from its set, or from the first of the slots in no set.
        blocks: number of blocks, trailers included.
        tiling: layout.
        is_constant: True if it is only read, and in no set.
        comment: name of the tensor.
    """

    name: str
    first_block: int
    blocks: int
    tiling: TileLayout
    is_constant: bool
    comment: str


@dataclass(frozen=True, slots=True)
class StoredView:
    """Stored tensor, or a table in storage.

    Attributes:
        name: macro of its index.
        first_block: first block, counted from the region of slots outside sets.
        image: layout.
        is_constant: True for a table.
        comment: name of the tensor.
    """

    name: str
    first_block: int
    image: ImageLayout
    is_constant: bool
    comment: str


@dataclass(frozen=True, slots=True)
class PersistentView:
    """Persistent tensor, which is loaded at boot and committed."""

    slot: str
    offset: int
    comment: str


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Line of the memory map in a step's header comment."""

    offset: int
    size_bytes: int
    identifier: str
    holds: str
    steps: str


@dataclass(frozen=True, slots=True)
class StatementView:
    """Statement of a plan step.

    Attributes:
        number: number, from 1.
        comment: description of the step.
        code: call of the step; "" if none is needed.
        waits: preceding calls that wait for transfers or for other workers.
        worker: number of its worker; 0 for a single one.
        message: number of the message that the step stops for; 0 for none.
    """

    number: int
    comment: str
    code: str
    waits: tuple[str, ...] = ()
    worker: int = 0
    message: int = 0


@dataclass(frozen=True, slots=True)
class KeptView:
    """Features that a training step loads instead of calculating them.

    Attributes:
        tensor: macro of their address.
        statements: number of leading statements that calculate the features.
    """

    tensor: str
    statements: int


@dataclass(frozen=True, slots=True)
class StepView:
    """Generated function of a training, evaluation or prediction step.

    Attributes:
        function: name.
        parameters: parameters in C.
        title: description in one line.
        summary: numbers of steps by kind.
        kernels: included kernel headers.
        addresses: macros of addresses, one per stay of a tensor in RAM.
        memory_map: the stays as a table, by offset.
        statements: body of the function.
        waits: calls at its end that wait for transfers.
        end: number after that of the last statement.
        marked: True for a training step, whose statements a copy of the project records or times.
        sliced: True if it can return between two statements and resume there.
        workers: number of threads that share its statements; 0 for a single one.
        stops: True if it returns at each message to or from another program, and resumes there.
        kept: features that are kept of training samples; None without one.
    """

    function: str
    parameters: str
    title: str
    summary: str
    kernels: tuple[str, ...]
    addresses: tuple[Define, ...]
    memory_map: tuple[MemoryRow, ...]
    statements: tuple[StatementView, ...]
    waits: tuple[str, ...]
    end: int
    marked: bool = False
    sliced: bool = False
    workers: int = 0
    stops: bool = False
    kept: KeptView | None = None


@dataclass(frozen=True, slots=True)
class MessageView:
    """Message that a program sends to another program, or receives from one.

    Attributes:
        offset: offset of the tensor in the arena.
        size_bytes: size of the tensor.
        arrives: True for a received message.
        comment: name of the tensor and of the other program.
    """

    offset: int
    size_bytes: int
    arrives: bool
    comment: str


@dataclass(frozen=True, slots=True)
class MemberView:
    """Member of a sample's struct, with its shape as a comment; `extent` is "" for a scalar."""

    c_type: str
    name: str
    extent: str
    comment: str


@dataclass(frozen=True, slots=True)
class TypeView:
    """Type in poetfw.h: of elements or, for several members, a struct."""

    name: str
    comment: str
    c_type: str
    members: tuple[MemberView, ...]


@dataclass(frozen=True, slots=True)
class ProjectView:
    """Values of all templates of a project.

    Attributes:
        title: model, board and batch, for header comments.
        plan_id: identifier of the plan, eight hexadecimal digits.
        board: name of the board.
        settings: the macros of plan.h.
        facts: what poetfw.h says of the plan, without the prefix.
        slices: whether a training step can be cut into slices.
        ring: whether there is a ring of the device's own samples.
        image_words: 32-bit words of a context that describe the storage image.
        types: the types of inputs, targets and outputs in poetfw.h.
        metric_comment: what the metric counts, for people.
        addresses: a macro for every persistent tensor.
        flash: the constants' arrays.
        slots: the places in storage.
        persistents: the tensors that are loaded at boot.
        streams: the tensors that ops load tile by tile.
        stored: the activations and gradients that ops load and store in parts.
        constants: the kernels' constants.
        tiles: the tables of tiles that these point to.
        blocks: the inner blocks of the tiles, in assembly.
        plain_loops: the macros of shapes.h that say which kinds of ops may run without tiles.
        divisors: its other macros.
        kernels: every kernel header in use.
        training, evaluation: the generated functions of the two steps.
        prediction: that of one sample's prediction; None where it is left out.
        messages: what a partner sends and gets; None where the program has no partners.
    """

    title: str
    plan_id: str
    poetfw_version: str
    board: str
    settings: tuple[Define, ...]
    facts: tuple[Define, ...]
    slices: bool
    ring: bool
    image_words: int
    types: tuple[TypeView, ...]
    metric_comment: str
    addresses: tuple[Define, ...]
    flash: tuple[FlashView, ...]
    slots: tuple[SlotView, ...]
    persistents: tuple[PersistentView, ...]
    streams: tuple[StreamView, ...]
    stored: tuple[StoredView, ...]
    constants: tuple[ConstantsView, ...]
    tiles: tuple[TilesView, ...]
    plain_loops: tuple[Define, ...]
    blocks: tuple[InnerBlock, ...]
    divisors: tuple[Define, ...]
    kernels: tuple[str, ...]
    training: StepView
    evaluation: StepView
    prediction: StepView | None
    messages: tuple[MessageView, ...] | None = None
