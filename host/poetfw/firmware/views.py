# SPDX-License-Identifier: Apache-2.0
"""The typed values that templates render. All text in them is escaped for C already."""

from __future__ import annotations

from dataclasses import dataclass


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
class FlashView:
    """A constant's array in flash.

    Attributes:
        name: the macro that stands for the tensor.
        value: what it stands for: the array's address as the tensor's type.
        comment: the tensor, for people.
        array: the array's name.
        words: how many elements it has.
    """

    name: str
    value: str
    comment: str
    array: str
    words: int


@dataclass(frozen=True, slots=True)
class SlotView:
    """A place in storage that holds one tensor.

    Attributes:
        name: the macro that holds its index.
        first_block: in its set or, if it is in none, in the slots' region.
        size_bytes: bytes of its payload.
        comment: what it holds.
    """

    name: str
    first_block: int
    size_bytes: int
    comment: str


@dataclass(frozen=True, slots=True)
class PersistentView:
    """A tensor that is loaded at boot and committed."""

    slot: str
    offset: int
    comment: str


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A line of the memory map in a step's header comment."""

    offset: int
    size_bytes: int
    identifier: str
    holds: str
    steps: str


@dataclass(frozen=True, slots=True)
class StatementView:
    """One plan step.

    Attributes:
        number: its number, from 1.
        comment: what it does.
        code: the call that does it; "" where no code is needed.
        waits: calls that wait for transfers or for other workers, before it.
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
        statements: number of the statements that calculate them: the first ones.
    """

    tensor: str
    statements: int


@dataclass(frozen=True, slots=True)
class StepView:
    """A generated function that runs one training or evaluation step.

    Attributes:
        function: its name.
        parameters: its parameters, in C.
        title: what it does, in one line.
        summary: counts of its steps.
        kernels: the kernel headers it includes.
        addresses: a macro for every stay of a tensor in RAM.
        memory_map: the same for people, by offset.
        statements: its body.
        waits: calls that wait for transfers, behind it.
        end: the number behind its last statement.
        marked: True for a training step, whose statements a copy of the project records or times.
        sliced: True if it may return between two statements, and go on there.
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
    """A message that a partner sends or gets.

    Attributes:
        offset: where the tensor lies, in the arena.
        size_bytes: how large it is.
        arrives: True if it comes from another partner; else it goes to one.
        comment: which tensor, and which partner.
    """

    offset: int
    size_bytes: int
    arrives: bool
    comment: str


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member of a sample's struct, and its shape as a comment; `extent` is "" for a scalar."""

    c_type: str
    name: str
    extent: str
    comment: str


@dataclass(frozen=True, slots=True)
class TypeView:
    """A type of poetfw.h: that of elements, or a struct where a sample has several members."""

    name: str
    comment: str
    c_type: str
    members: tuple[MemberView, ...]


@dataclass(frozen=True, slots=True)
class ProjectView:
    """Everything the templates of one project need.

    Attributes:
        title: model, board and batch, for header comments.
        plan_id: eight hexadecimal digits that name the plan.
        board: name of the board.
        settings: the macros of plan.h.
        facts: what poetfw.h says of the plan, without the prefix.
        slices: True if a training step can be cut into slices.
        ring: True if there is a ring of the device's own samples.
        image_words: 32-bit words of a context that describe the storage image.
        types: the types of inputs, targets and outputs in poetfw.h.
        metric_comment: what the metric counts, for people.
        addresses: a macro for every persistent tensor.
        flash: the constants' arrays.
        slots: the places in storage.
        persistents: the tensors that are loaded at boot.
        constants: the kernels' constants.
        divisors: the macros of shapes.h.
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
    constants: tuple[ConstantsView, ...]
    divisors: tuple[Define, ...]
    kernels: tuple[str, ...]
    training: StepView
    evaluation: StepView
    prediction: StepView | None
    messages: tuple[MessageView, ...] | None = None
