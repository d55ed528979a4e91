# SPDX-License-Identifier: Apache-2.0
"""Measuring firmware: runs the cases of a network one by one, on the library of a project.

An op of a case has operands of its own, one behind the other above the page buffer, so that what
it costs does not depend on a plan. Transfers go through slots, as a training's do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from poetfw.boards import Board
from poetfw.common.resources import profiler_sketches_dir
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.common.version import __version__
from poetfw.costs import BESIDE, MOVES, TAKEN, TRANSFERS, Case, alone, case_tiles, direction_of
from poetfw.firmware.c_text import comment_text, shape_text, table
from poetfw.firmware.defines import batch_settings, board_settings, divisors_of
from poetfw.firmware.library import BLOCKS, GENERATED, LIBRARY
from poetfw.firmware.project import (
    Project,
    copied_sources,
    hal_families,
    template_environment,
)
from poetfw.firmware.slots import BLOCK_BYTES
from poetfw.firmware.step_code import call_statement
from poetfw.firmware.tensor_names import C_TYPES, ConstantTable
from poetfw.firmware.views import ConstantsView, Define, PersistentView, SlotView, TilesView
from poetfw.ir import Dtype, Op, Tensor
from poetfw.kernels import InnerBlock
from poetfw.memory.plan import ALIGNMENT
from poetfw.ops import kind_of
from poetfw.training import Program, make_prediction

NOTHING = "0" * 16
"""Key of the last case of every sketch, which is empty: it measures the cost of a call."""

_PAGE_BUFFER = 0
_SECTOR_BLOCKS = 8  # scratch space begins where flash can be erased
_WORD_BYTES = 4
_HALVES = dict.fromkeys(BESIDE, 1) | dict.fromkeys(TAKEN, 3)
"""Halves of a transfer's time that a kernel beside it takes: less than the transfer, or more."""
_GENERATED = (
    ("generated/plan.h.j2", f"{GENERATED}/plan.h"),
    ("generated/plan.c.j2", f"{GENERATED}/plan.c"),
    ("generated/ops.h.j2", f"{GENERATED}/ops.h"),
    ("generated/ops.c.j2", f"{GENERATED}/ops.c"),
    ("generated/blocks_asm.S.j2", BLOCKS),
    ("generated/shapes.h.j2", f"{LIBRARY}/kernels/shapes.h"),
    ("cases.c.j2", f"{GENERATED}/cases.c"),
)
_LEFT_OUT = (
    *(f"lib/poetfw/runtime/{name}.c" for name in ("poetfw", "progress", "stages")),
    *("lib/poetfw/port/port.c", "src/main.c", "src/runtime/desk.c"),
)
"""Files of training, which need parts of the plan that a sketch lacks."""


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    code: str


@dataclass(frozen=True, slots=True)
class _Fill:
    """The values that an operand is filled with.

    Attributes:
        offset, words: where it lies in the arena, and how long it is.
        kind: the enumerator.
        first_value, values: range of given values, for an operand that is filled with them.
    """

    offset: int
    words: int
    kind: str
    first_value: int = 0
    values: int = 0


@dataclass(frozen=True)
class _CaseView:
    """A case as the template lays it out.

    Attributes:
        key: names it.
        comment: what it is, for people.
        functions: its functions, without those that an earlier case has.
        run, prepare, without: names of the functions that run it, prepare it, and are timed too
            and subtracted.
        first_fill, fills: range of the fills of its operands.
        transfer: the enumerator of its direction.
        size_bytes: of a transfer.
        sets: how many sets of numbers its operands are fed in turn, before each run; 0 where they
            are filled once.
    """

    key: str
    comment: str
    functions: tuple[_Function, ...]
    run: str
    prepare: str
    first_fill: int
    fills: int
    transfer: str = "POET_NO_TRANSFER"
    size_bytes: int = 0
    without: str = "NULL"
    sets: int = 0


@dataclass(frozen=True)
class _SketchView:
    """The view of a sketch's templates; those that projects have, too, ask for the same."""

    title: str
    poetfw_version: str
    plan_id: str
    settings: tuple[Define, ...]
    addresses: tuple[Define, ...]
    slots: tuple[SlotView, ...]
    persistents: tuple[PersistentView, ...]
    constants: tuple[ConstantsView, ...]
    tiles: tuple[TilesView, ...]
    plain_loops: tuple[Define, ...]
    blocks: tuple[InnerBlock, ...]
    divisors: tuple[Define, ...]
    kernels: tuple[str, ...]
    cases: tuple[_CaseView, ...]
    fills: tuple[_Fill, ...]
    values: tuple[float, ...]
    flash: tuple[()] = ()
    streams: tuple[()] = ()
    stored: tuple[()] = ()
    messages: None = None


@dataclass(frozen=True)
class Sketch:
    """Firmware that measures cases: ops and transfers.

    Attributes:
        project: files of the firmware.
        sketch_id: eight hexadecimal digits, which the firmware sends as its identity.
        cases: measured cases, by the numbers that commands take.
        sets: number of operand sets that a case takes in turn, one before each run; 0 if its
            operands are filled once, before all runs.
        scratch_blocks: number of storage blocks that the firmware overwrites.
    """

    project: Project
    sketch_id: str
    cases: tuple[Case, ...]
    sets: tuple[int, ...]
    scratch_blocks: int


@dataclass(frozen=True)
class _Layout:
    """Addresses of an op's operands in the arena.

    Attributes:
        offsets: byte offsets by tensor; None is the workspace.
        end: first byte after all operands.
        overwrites: True if the output lies over an input.
    """

    offsets: Mapping[str | None, int]
    end: int
    overwrites: bool

    @staticmethod
    def of(case: Case, room_bytes: int) -> _Layout:
        """A layout without overlaps; if that does not fit, the output overwrites an input."""
        op, graph = alone(case)
        kind = kind_of(op)
        sizes: dict[str | None, int] = {t.name: t.size_bytes for t in graph.tensors}
        sizes[None] = kind.kernel(op, graph).workspace_bytes
        over = None
        if BLOCK_BYTES + sum(map(_padded, sizes.values())) > room_bytes and op.output is not None:
            inputs = [op.inputs[i] for i in kind.in_place if i < len(op.inputs)]
            over = next((name for name in inputs if sizes[name] == sizes[op.output]), None)
        offsets: dict[str | None, int] = {}
        end = BLOCK_BYTES
        for name, size_bytes in sizes.items():
            if over is not None and name == op.output:
                offsets[name] = offsets[over]
            else:
                offsets[name] = end
                end += _padded(size_bytes)
        return _Layout(offsets, end, over is not None)


def arena_bytes_of(case: Case, room_bytes: int) -> int:
    """Bytes of arena that a case takes within `room_bytes`; more than that if it does not fit.

    Raises:
        ModelError: There is no such op.
    """
    if case.kind in MOVES:
        return BLOCK_BYTES + _padded(case.size_bytes)
    return _Layout.of(case, room_bytes).end


Operands = Mapping[Case, Sequence[Sequence[tuple[float, ...]]]]
"""Sets of numbers that a case is run with in turn. A set has those of each input, and then of what
the case updates: each in place of those around it, where the operand is larger. Those of other
cases are random."""


def render_sketch(
    cases: Sequence[Case],
    program: Program,
    board: Board,
    room_bytes: int,
    operands: Operands | None = None,
) -> Sketch:
    """Render the firmware that measures some cases of a program on a board.

    Args:
        cases: cases to measure.
        program: program of the cases' ops.
        board: board of the firmware.
        room_bytes: largest arena in bytes; operands do not overlap if it is large enough.
        operands: input values of cases whose time depends on them; None if none does.

    Raises:
        BoardError: The board has no firmware support.
        ModelError: A case is not an op.
    """
    lowering = _Lowering(board, room_bytes, operands or {})
    views = tuple(lowering.case(index, case) for index, case in enumerate(cases))
    needed = (arena_bytes_of(case, room_bytes) for case in cases)
    arena_bytes = max([2 * BLOCK_BYTES, lowering.others_end, *needed])
    record_blocks = _blocks(program.x.size_bytes + program.y.size_bytes + 8)
    slots_block = -(-record_blocks // _SECTOR_BLOCKS) * _SECTOR_BLOCKS
    largest = max((case.size_bytes for case in cases if case.kind in MOVES), default=0)
    scratch_blocks = slots_block + _blocks(largest + TRAILER_BYTES)
    view = _SketchView(
        title=f"{comment_text(program.training.name.removesuffix(' training'))} on {board.name}",
        poetfw_version=__version__,
        plan_id="00000000",
        settings=(
            *board_settings(board, "00000000", arena_bytes, _PAGE_BUFFER),
            *batch_settings(program),
            Define("POET_SCRATCH_BLOCKS", f"{scratch_blocks}u", "of storage that are written"),
            Define("POET_SCRATCH_SLOTS", f"{slots_block}u", "behind so many of them"),
        ),
        addresses=(),
        slots=lowering.slots,
        persistents=(PersistentView("SLOT_NOTHING", 0, "nothing"),),
        constants=lowering.constants.views(),
        tiles=lowering.constants.tiles(),
        blocks=lowering.constants.blocks(),
        plain_loops=lowering.constants.plain_loops(),
        divisors=divisors_of(program.training, program.evaluation, make_prediction(program)),
        kernels=tuple(sorted(lowering.kernels)),
        cases=views,
        fills=tuple(lowering.fills),
        values=tuple(lowering.values),
    )
    copied = {
        path: content
        for path, content in copied_sources(board, view.kernels).items()
        if path not in _LEFT_OUT
    }
    copied |= _application(board)
    nameless = _render(view)
    digest = hashlib.sha256()
    for path, content in sorted({**copied, **nameless}.items()):
        digest.update(path.encode() + b"\0" + content + b"\0")
    sketch_id = digest.hexdigest()[:8]
    named = replace(
        view,
        plan_id=sketch_id,
        settings=tuple(
            replace(define, value=f"0x{sketch_id}u") if define.name == "POET_PLAN_ID" else define
            for define in view.settings
        ),
    )
    sets = tuple(one.sets for one in views)
    project = Project({**copied, **_render(named)})
    return Sketch(project, sketch_id, tuple(cases), sets, scratch_blocks)


def _render(view: _SketchView) -> dict[str, bytes]:
    environment = template_environment()
    environment.filters["table"] = table
    return {
        target: environment.get_template(template).render(project=view).encode()
        for template, target in _GENERATED
    }


def _application(board: Board) -> dict[str, bytes]:
    """Files that a sketch has in place of a project's application, and beside its drivers."""
    folder = profiler_sketches_dir() / "application"
    files = {f"src/{file.name}": file.read_bytes() for file in sorted(folder.glob("*.[ch]"))}
    return files | mark_files(board)


def mark_files(board: Board) -> dict[str, bytes]:
    """Files that mark the beginning and the end of a case, if a board or its twin has any."""
    folder = profiler_sketches_dir()
    files = {"src/runtime/mark.h": (folder / "hal" / "mark.h").read_bytes()}
    for family in sorted(hal_families(board)):
        for file in sorted((folder / "hal" / family).glob("*.c")):
            files[f"src/hal/{family}/{file.name}"] = file.read_bytes()
    return files


def _values(op: Op, tensor: Tensor) -> str:
    """Values that an operand is filled with before its op is timed."""
    kind = kind_of(op)
    updated = tensor.name in op.updates
    if tensor.dtype is not Dtype.F32 or (updated and kind.counts):
        return "ZERO"
    return "POSITIVE" if updated or tensor.name in kind.never_negative(op) else "SIGNED"


class _Lowering:
    """Lowers cases to the functions that run them, and collects what they share."""

    def __init__(self, board: Board, room_bytes: int, operands: Operands) -> None:
        self._overlap = board.overlaps
        self._erases = board.storage is not None and board.storage.erase_bytes is not None
        self._operands = operands
        self._room_bytes = room_bytes
        self.constants = ConstantTable(case_tiles(board))
        self.kernels: set[str] = set()
        self.fills: list[_Fill] = []
        self.values: list[float] = []
        self._first_values: dict[tuple[float, ...], int] = {}
        self._runs: dict[Case, str] = {}
        self.others_end = 0
        """The first byte behind what second page-outs write."""
        self.slots: tuple[SlotView, ...] = (
            SlotView("SLOT_NOTHING", 0, _WORD_BYTES, "what is committed: nothing"),
        )

    def case(self, index: int, case: Case) -> _CaseView:
        if case.kind in MOVES:
            return self._transfer(index, case)
        return self._op(index, case)

    def _op(self, index: int, case: Case) -> _CaseView:
        op, graph = alone(case)
        kind = kind_of(op)
        kernel = kind.kernel(op, graph)
        self.kernels.update(kernel.sources)
        first_fill = len(self.fills)
        layout = _Layout.of(case, self._room_bytes)
        operands = (*op.inputs, *op.updates)
        sets = self._operands.get(case, ())
        likes = dict(zip(operands, zip(*sets, strict=True), strict=False))
        addresses: dict[str, str] = {}
        for tensor in graph.tensors:
            at = layout.offsets[tensor.name]
            addresses[tensor.name] = f"({C_TYPES[tensor.dtype]} *)(void *)(poet_arena + {at}u)"
            if tensor.name != op.output:
                self.fills.append(self._fill(op, tensor, at, likes.get(tensor.name, ())))
        named = replace(op, name=case.kind)
        arguments = self.constants.arguments(named, kernel, addresses.__getitem__)
        if kernel.workspace_bytes:
            arguments.append(f"(void *)(poet_arena + {layout.offsets[None]}u)")
        code = call_statement(kernel.function, arguments, fallible=kernel.fallible)
        if not kernel.source:
            code = f"poet_select_next();\n    {code}"
        run = self._runs.setdefault(case.of_any_numbers, f"run_{index}")
        functions = (_Function(run, code),) if run == f"run_{index}" else ()
        shapes = ", ".join(shape_text(shape) for shape, _ in (*case.inputs, *case.updates))
        return _CaseView(
            key=case.key,
            comment=comment_text(f"{case.kind} {shapes}".strip(), 100),
            functions=functions,
            run=run,
            prepare="NULL" if kernel.source else "poet_prepare_sample",
            first_fill=first_fill,
            fills=len(self.fills) - first_fill,
            # What a run changes is not what the next one would have in training.
            sets=len(sets) if len(sets) > 1 or op.updates or layout.overwrites else 0,
        )

    def _fill(self, op: Op, tensor: Tensor, at: int, sets: Sequence[tuple[float, ...]]) -> _Fill:
        words, kind = tensor.size_bytes // _WORD_BYTES, _values(op, tensor)
        if kind == "ZERO" or not sets:
            return _Fill(at, words, f"POET_FILL_{kind}")
        values = tuple(number for numbers in sets for number in numbers)
        if values not in self._first_values:
            self._first_values[values] = len(self.values)
            self.values += values
        return _Fill(at, words, "POET_FILL_LIKE", self._first_values[values], len(sets[0]))

    def _transfer(self, index: int, case: Case) -> _CaseView:
        direction, beside = direction_of(case.kind), case.kind not in TRANSFERS
        begin, wait = self._moves(direction, case.size_bytes)
        first_fill = len(self.fills)
        self.fills.append(_Fill(BLOCK_BYTES, case.size_bytes // _WORD_BYTES, "POET_FILL_SIGNED"))
        move = _Function(f"move_{index}", _lines(begin, wait))
        functions, run, without, prepare = [move], move.name, "NULL", list[str]()
        if direction == "page_in":
            prepare += self._moves("page_out", case.size_bytes)
        if beside:
            kernel = f"poet_kernel({_HALVES[case.kind]}u);"
            prepare.append(call_statement("poet_prepare_kernel", [move.name], fallible=True))
            ran = [begin, kernel, wait]
            without = move.name
            if case.kind in TAKEN:
                functions.append(_Function(f"kernel_{index}", kernel))
                without = functions[-1].name
            else:
                ran.insert(1, self._second(direction, case.size_bytes))
            functions.append(_Function(f"run_{index}", _lines(*ran)))
            run = functions[-1].name
        if prepare:
            functions.append(_Function(f"before_{index}", _lines(*prepare)))
        return _CaseView(
            key=case.key,
            comment=f"{case.kind} of {case.size_bytes:,} bytes",
            functions=tuple(functions),
            run=run,
            prepare=functions[-1].name if prepare else "NULL",
            first_fill=first_fill,
            fills=len(self.fills) - first_fill,
            transfer="POET_NO_TRANSFER"
            if beside
            else f"POET_TRANSFER_{direction.removeprefix('page_').upper()}",
            size_bytes=case.size_bytes,
            without=without,
        )

    def _slot(self, size_bytes: int) -> str:
        name = f"SLOT_{size_bytes}"
        if name not in [slot.name for slot in self.slots]:
            self.slots += (SlotView(name, 0, size_bytes, f"page: {size_bytes:,} bytes"),)
        return name

    def _second(self, direction: str, size_bytes: int) -> str:
        """The C statement that begins the second of two transfers.

        To a flash, it is of memory that the first is not read from: that is changed before.
        """
        at, padded = BLOCK_BYTES, _padded(size_bytes)
        if self._erases and direction == "page_out" and at + 2 * padded <= self._room_bytes:
            at += padded
            self.others_end = max(self.others_end, at + padded)
            self.fills.append(_Fill(at, size_bytes // _WORD_BYTES, "POET_FILL_SIGNED"))
        begin, _ = self._moves(direction, size_bytes, at)
        return begin

    def _moves(self, direction: str, size_bytes: int, at: int = BLOCK_BYTES) -> tuple[str, str]:
        """The C statements that begin a transfer and wait for it; none for a single call."""
        slot = self._slot(size_bytes)
        arguments = [slot, f"poet_arena + {at}u", f"{size_bytes}u"]
        if not self._overlap:
            return call_statement(f"poet_{direction}", arguments, fallible=True), ""
        begin = call_statement(f"poet_{direction}_begin", arguments, fallible=True)
        if self._erases and direction == "page_out":
            begin = _lines(call_statement("poet_change", arguments[1:], fallible=False), begin)
        return begin, call_statement("poet_page_wait", [slot], fallible=True)


def _lines(*statements: str) -> str:
    return "\n    ".join(filter(None, statements))


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def _blocks(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES)
