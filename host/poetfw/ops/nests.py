# SPDX-License-Identifier: Apache-2.0
"""Nests: what an op does that runs piece by piece, as loops, loads, calls and stores.

An op is cut along dimensions that all of its results have (`OpKind.axes`), so every sum is formed
within one piece, and results have the bits of the whole op. Its kernels run unchanged, on smaller
extents. Some ops can also be cut along the dimension over which they sum (`OpKind.summed`): their
result stays where it is while further terms are added to it, in order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby, pairwise, product
from typing import NamedTuple

from poetfw.common.errors import ModelError
from poetfw.common.transfer import BLOCK_BYTES, page_bytes
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops.base import LETTERS, Axes, RowWindow, Shape, kind_of
from poetfw.ops.continued import continued_name
from poetfw.ops.layouts import ImageLayout, TileLayout, aligned, image_layout
from poetfw.ops.load import RECORD_BYTES, first_byte

_FLOAT = Dtype.F32.size_bytes
_CRC_BYTES = 4
_TRANSFER_BYTES = 8
"""Room behind a column for the number of the transfer that loads it, aligned."""


_PREFERRED = f"ionrct{LETTERS}"
"""Letters of dimensions, the first of which is taken where ops have several for one."""


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """Elements of an axis, from `scale * index + first` on, by the index of dimension `dim`."""

    count: int
    dim: str = ""
    scale: int = 0
    first: int = 0


Part = tuple[AxisSpan, ...]
"""Part of a tensor: elements of each axis."""


Offsets = tuple[tuple[str, int], ...]
"""Numbers by the index of a dimension; "" for a constant."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """Part of a stored tensor, in its image: ranges of channels, each of the same rows.

    Attributes:
        channels: first channel.
        channel_count: channels of a range.
        rows: first row.
        row_count: number of rows.
        ranges: number of ranges.
        apart: channels from one range to the next one.
    """

    channels: Offsets
    channel_count: int
    rows: Offsets
    row_count: int
    ranges: int = 1
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Loop:
    """Statements for each index of a dimension from `first` to `end`, exclusive."""

    dim: str
    first: int
    end: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Copy of a part of a tensor between its home and a buffer of the workspace.

    Attributes:
        tensor: the tensor.
        part: the part.
        buffer: offset of the buffer in the workspace.
        stores: True to the tensor's home, False to the buffer.
        home: offset of the home in the workspace, of a tensor that was loaded there; None if the
            home is in the arena, in flash or in storage.
    """

    tensor: Tensor
    part: Part
    buffer: int
    stores: bool = False
    home: int | None = None


class BufferTurns(NamedTuple):
    """Two buffers that take turns: that of odd indices of `dim` is `apart` bytes further."""

    dim: str
    apart: int


@dataclass(frozen=True, slots=True)
class StreamMove:
    """Transfer of a streamed tensor's tiles: a row of them, or a column, by the index of `dim`.

    With turns, a store is begun and not waited for, and a load begins to load the next column.
    """

    tensor: str
    layout: TileLayout
    dim: str
    is_row: bool
    buffer: int
    stores: bool = False
    turns: BufferTurns | None = None


class OperandPlace(NamedTuple):
    """Address of an operand of a call: in a buffer of the workspace, or in the tensor itself.

    Attributes:
        tensor: the tensor, whose home has the operand if there is no buffer.
        buffer: offset of the buffer in the workspace; None without one.
        offsets: elements by which the operand is away from there, by the index of a dimension; ""
            for a constant.
        turns: a second buffer, if there is one.
    """

    tensor: str
    buffer: int | None
    offsets: tuple[tuple[str, int], ...] = ()
    turns: BufferTurns | None = None


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call of the kernel of an op of `Nest.graph`.

    Attributes:
        op: the op.
        places: places of its tensors.
        within: of an op that loads a part of each sample, elements by which the part is away from
            the sample's first one, by the index of a dimension; "" for a constant.
    """

    op: Op
    places: Mapping[str, OperandPlace]
    within: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Copy of rows of a table in storage, by their numbers; others than the table's are zeros.

    Attributes:
        table: name of the table.
        layout: its layout: each row is a tile.
        count: number of rows that are looked up.
        ids: place of their numbers.
        output: place of the copies.
    """

    table: str
    layout: ImageLayout
    count: int
    ids: OperandPlace
    output: OperandPlace


Statement = Loop | Move | StreamMove | KernelCall | Lookup


@dataclass(frozen=True, slots=True)
class Nest:
    """Statements of an op, and the ops that they call.

    Attributes:
        body: its statements.
        graph: the ops that it calls, on pieces.
        staging: offset in the workspace of a tile in storage's order.
        own: offset in the workspace of the workspace of kernels.
        workspace_bytes: size of the workspace.
    """

    body: tuple[Statement, ...]
    graph: Graph
    staging: int
    own: int
    workspace_bytes: int


class Order(StrEnum):
    """Order in which the plain ops of an op run."""

    IN_TURN = ""
    """In turn, on each slice of a streamed weight: each with loops of its own."""
    APART = "apart"
    """One after the other, each with slices of the weight of its own."""
    TOGETHER = "together"
    """Together, on each piece, in loops that they have in common."""


class Pieces(NamedTuple):
    """Pieces of an op.

    Attributes:
        loops: dimensions along which it is cut, from the outermost loop to the innermost one.
        cut: extents of a piece along these.
        kept: positions of the stored inputs that are loaded as a whole before the loops.
        order: order of its plain ops.
    """

    loops: str
    cut: tuple[int, ...]
    kept: tuple[int, ...] = ()
    order: Order = Order.IN_TURN


@dataclass(frozen=True, slots=True)
class TileTraffic:
    """Storage requests of one execution of an op.

    Attributes:
        reads: number of requests that read, by their bytes.
        writes: number of requests that write, by their bytes.
    """

    reads: Mapping[int, int]
    writes: Mapping[int, int]

    @property
    def read_bytes(self) -> int:
        """Bytes that are read."""
        return sum(size * count for size, count in self.reads.items())

    @property
    def written_bytes(self) -> int:
        """Bytes that are written."""
        return sum(size * count for size, count in self.writes.items())

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(self.reads.values()) + sum(self.writes.values())


@dataclass(frozen=True, slots=True)
class WeightSlices:
    """Streamed weight of an op, and its optimizer state, which are loaded a slice at a time.

    Attributes:
        tensors: names of the weight and of the state that is updated with it.
        layout: layout of each.
        dim: dimension of which a slice has some channels.
        axis: axis of the weight with that dimension.
        by_rows: True if a slice is a row of tiles, False if it is a column.
        updated: True if slices are stored again, around all else that the op does.
        ahead: True if columns are loaded ahead: while kernels run on one, the next one arrives, and
            the one before is stored.
    """

    tensors: tuple[str, ...]
    layout: TileLayout
    dim: str
    axis: int
    by_rows: bool = False
    updated: bool = False
    ahead: bool = False

    @property
    def count(self) -> int:
        """Number of slices."""
        return self.layout.rows if self.by_rows else self.layout.columns

    @property
    def channels(self) -> int:
        """Channels of a slice."""
        return self.layout.tile_outputs if self.by_rows else self.layout.tile_inputs

    @property
    def loads_ahead(self) -> bool:
        """True if slices are loaded ahead; rows, which are gathered from tiles, are not."""
        return self.ahead and not self.by_rows and self.count > 1

    @property
    def apart(self) -> int:
        """Bytes from the column of a tensor to that of the next one.

        A column that is loaded ahead has its last block to itself, and room for the number of the
        transfer that loads it.
        """
        if self.loads_ahead:
            return max(self.layout.column_request_bytes) + _TRANSFER_BYTES
        return self.layout.column_bytes

    @property
    def turns(self) -> BufferTurns | None:
        """Turns of two buffers, if slices are loaded ahead."""
        return BufferTurns(self.dim, len(self.tensors) * self.apart) if self.loads_ahead else None

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the workspace for a slice of each tensor, or for two.

        Columns lie side by side, with room for the last one's blocks. A row has a checksum for each
        column, and a tile as stored.
        """
        layout = self.layout
        if self.loads_ahead:
            return 2 * len(self.tensors) * self.apart
        if self.by_rows:
            tile_bytes = max(layout.tile_request_bytes)
            if layout.columns == 1:
                return tile_bytes
            checksums = aligned(_CRC_BYTES * layout.columns)
            return aligned(layout.row_bytes) + checksums + tile_bytes
        behind = max(layout.column_request_bytes) - layout.column_bytes
        return aligned(len(self.tensors) * layout.column_bytes + behind)


@dataclass(frozen=True, slots=True)
class Loads:
    """Persistent tensors that an op loads from storage.

    Attributes:
        vectors: layout of each that is loaded as a whole, by name.
        weight: a weight that is loaded slice by slice; None without one.
        tables: layout of each of which rows are looked up, by name.
    """

    vectors: Mapping[str, TileLayout] = field(default_factory=dict)
    weight: WeightSlices | None = None
    tables: Mapping[str, ImageLayout] = field(default_factory=dict)

    @property
    def layouts(self) -> dict[str, TileLayout | ImageLayout]:
        """Layout of each tensor."""
        found: dict[str, TileLayout | ImageLayout] = {**self.vectors, **self.tables}
        if self.weight is not None:
            found |= dict.fromkeys(self.weight.tensors, self.weight.layout)
        return found

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the workspace for what is loaded at once."""
        vectors = sum(layout.stored_bytes for layout in self.vectors.values())
        return vectors + (self.weight.buffer_bytes if self.weight else 0)

    def by_columns(self) -> Loads:
        """The same with a weight that is loaded by input channels, over which an op sums."""
        assert self.weight is not None
        return replace(self, weight=replace(self.weight, dim="i", axis=1, by_rows=False))

    @property
    def moved(self) -> Moved:
        """Transfers of a layer: of each slice of its weight, and of vectors that it reads."""
        size_bytes = sum(layout.stored_bytes for layout in self.vectors.values())
        requests = len(self.vectors)
        if self.weight is not None:
            times = len(self.weight.tensors) * (2 if self.weight.updated else 1)
            for size, count in _slices_of(self.weight.layout, self.weight.by_rows):
                size_bytes += times * count * size
                requests += times * count
        return Moved(size_bytes, requests)


class CutAxis(NamedTuple):
    """Dimension along which an op can be cut."""

    dim: str
    extent: int


def op_axes(plain: Op, tensors: Mapping[str, Tensor]) -> Axes | None:
    """Dimensions of an op's operands; None for an op that runs on whole tensors only."""
    kind = kind_of(plain)
    if kind.view:
        return None
    return kind.axes(
        plain, [tensors[name] for name in plain.inputs], [tensors[n] for n in results_of(plain)]
    )


def cut_axes(plain: Op, tensors: Mapping[str, Tensor]) -> tuple[CutAxis, ...]:
    """Dimensions along which a plain op can be cut: those of all of its results."""
    axes = op_axes(plain, tensors)
    if axes is None:
        return ()
    first, *rest = axes.results
    shape = tensors[results_of(plain)[0]].shape
    return tuple(
        CutAxis(letter, extent)
        for letter, extent in zip(first, shape, strict=True)
        if letter != "." and all(letter in other for other in rest)
    )


def results_of(plain: Op) -> tuple[str, ...]:
    """Names of an op's output, if it has one, and of the tensors that it updates."""
    return (*([plain.output] if plain.output is not None else []), *plain.updates)


class _Segment(NamedTuple):
    """Indices of a dimension whose pieces differ by their place only.

    Attributes:
        first, end: the indices.
        window: rows of the input that belong to the first one; None if these are the piece's.
        step: by how many rows further each following one begins.
    """

    first: int
    end: int
    window: RowWindow | None = None
    step: int = 0


class _Terms(NamedTuple):
    """Terms of its sums that a call of an op adds: the first ones, and the last ones."""

    first: bool = True
    last: bool = True


class _Home(NamedTuple):
    """Buffer of a persistent tensor that was loaded, or of the slice of it by index of `dim`."""

    buffer: int
    shape: Shape
    dim: str = ""
    turns: BufferTurns | None = None


class _Piece(NamedTuple):
    """An op on pieces, its tensors by name, and the workspace of its kernel in bytes."""

    op: Op
    tensors: Mapping[str, Tensor]
    own_bytes: int


@dataclass(frozen=True, eq=False)
class Frame:
    """A plain op and its tensors, whatever their pieces and homes are.

    Attributes:
        op: the op.
        tensors: its tensors by name.
        axes: dimensions of its operands.
        extents: extents of the dimensions along which it can be cut.
        summed: that of these over which it sums; empty without one.
    """

    op: Op
    tensors: Mapping[str, Tensor]
    axes: Axes
    extents: Mapping[str, int]
    summed: str = ""

    @cached_property
    def letters(self) -> dict[str, str]:
        """Dimensions of each operand, by name."""
        names = (*self.op.inputs, *results_of(self.op))
        return dict(zip(names, (*self.axes.inputs, *self.axes.results), strict=True))

    @lru_cache(maxsize=1024)  # noqa: B019 (frames are kept in any case)
    def windows(self, rows: int) -> tuple[RowWindow, ...]:
        """Rows of the input that each so many rows of the result depend on."""
        shapes = [self.tensors[name].shape for name in self.op.inputs]
        window = kind_of(self.op).row_window
        count = self.extents["r"] // rows
        return tuple(window(self.op, shapes, i * rows, rows) for i in range(count))

    @lru_cache(maxsize=4096)  # noqa: B019
    def piece(
        self, shapes: tuple[Shape, ...], groups: int | None, padding: Shape | None, terms: _Terms
    ) -> _Piece:
        """The op on pieces of these shapes, in the order of its operands.

        Groups and padding are those of the op if they are None.
        """
        names = tuple(self.letters)
        tensors = {
            name: replace(
                self.tensors[name], shape=shape, base=None, offset_bytes=0, tile=(), image=()
            )
            for name, shape in zip(names, shapes, strict=True)
        }
        result = results_of(self.op)[0]
        ends = self.tensors[result], tensors[result]
        changed = kind_of(self.op).piece_attributes(self.op, *ends)
        attributes: dict[str, Attribute] = {**self.op.attributes, **changed}
        if groups is not None:
            attributes["groups"] = groups
        if padding is not None:
            attributes["padding"] = padding
        op = replace(self.op, attributes=attributes)
        if not terms.last:
            op = replace(op, inputs=op.inputs[:2])
        if not terms.first:
            kind = continued_name(op.kind)
            op = replace(op, kind=kind, output=None, updates=results_of(op))
            tensors |= {op.updates[0]: replace(tensors[op.updates[0]], role=Role.STATE)}
        tensors = {name: tensors[name] for name in (*op.inputs, *results_of(op))}
        kind_of(op).infer(op, [tensors[name] for name in op.inputs])
        graph = Graph(op.name, tuple(tensors.values()), (op,), next(iter(tensors)))
        return _Piece(op, tensors, kind_of(op).workspace_bytes(op, graph))


def frame_of(plain: Op, tensors: Mapping[str, Tensor]) -> Frame | None:
    """Frame of a plain op; None if it runs on whole tensors only."""
    names = dict.fromkeys((*plain.inputs, *results_of(plain)))
    held = tuple((t.name, t.shape, t.dtype, t.role) for t in map(tensors.__getitem__, names))
    return _framed(plain, held)


@lru_cache(maxsize=1024)
def _framed(op: Op, held: tuple[tuple[str, Shape, Dtype, Role], ...]) -> Frame | None:
    tensors = {each[0]: Tensor(*each) for each in held}
    axes = op_axes(op, tensors)
    if axes is None:
        return None
    extents = dict(cut_axes(op, tensors))
    summed = kind_of(op).summed
    for name, letters in zip(op.inputs, axes.inputs, strict=True):
        if summed and summed in letters and summed not in extents:
            extents[summed] = tensors[name].shape[letters.index(summed)]
            return Frame(op, tensors, axes, extents, summed)
    return Frame(op, tensors, axes, extents)


def joint_frames(plain: Sequence[Op], tensors: Mapping[str, Tensor]) -> tuple[Frame, ...] | None:
    """Frames of ops that have loops in common: what they see along an axis has one letter.

    An axis along which one of them cannot be cut has none. None if one runs on whole tensors only.
    """
    names = dict.fromkeys(name for op in plain for name in (*op.inputs, *results_of(op)))
    held = tuple((t.name, t.shape, t.dtype, t.role) for t in map(tensors.__getitem__, names))
    return _jointly_framed(tuple(plain), held)


@lru_cache(maxsize=1024)
def _jointly_framed(
    plain: tuple[Op, ...], held: tuple[tuple[str, Shape, Dtype, Role], ...]
) -> tuple[Frame, ...] | None:
    tensors = {each[0]: Tensor(*each) for each in held}
    frames = []
    for op in plain:
        frame = frame_of(op, tensors)
        if frame is None:
            return None
        frames.append(frame)
    along: dict[tuple[str, int], set[tuple[int, str]]] = {}  # number of the op, and its letter
    for number, frame in enumerate(frames):
        for name, letters in frame.letters.items():
            for axis, letter in enumerate(letters):
                along.setdefault((name, axis), set()).add((number, letter))
    same = {each: {each} for seen in along.values() for each in seen if each[1] not in ".R"}
    uncut: list[tuple[int, str]] = []
    for seen in along.values():
        dims = [(number, letter.lower()) for number, letter in seen if letter != "."]
        if len({letter == "." for _, letter in seen}) > 1 or any(each[1] == "R" for each in seen):
            uncut += dims
        for other in dims[1:]:
            joint = same.setdefault(dims[0], {dims[0]}) | same.setdefault(other, {other})
            same |= dict.fromkeys(joint, joint)
    named: dict[tuple[int, str], str] = {}
    for each in sorted(same):
        if each not in named:
            wanted = sorted((letter for _, letter in same[each]), key=_PREFERRED.index)
            taken = set(named.values())
            letter = next(letter for letter in (*wanted, *LETTERS) if letter not in taken)
            named |= dict.fromkeys(same[each], letter)
    for each in uncut:
        named |= dict.fromkeys(same[each], ".")
    return tuple(_renamed(frame, number, named) for number, frame in enumerate(frames))


def _renamed(frame: Frame, number: int, named: Mapping[tuple[int, str], str]) -> Frame:
    """A frame with other letters; `.` for those along which it is not cut."""
    letters = {
        letter: named.get((number, letter.lower()), ".")
        for text in (*frame.axes.inputs, *frame.axes.results)
        for letter in text
    }
    table = str.maketrans(letters)
    inputs, results = (tuple(each.translate(table) for each in axes) for axes in frame.axes)
    extents = {named[number, dim]: extent for dim, extent in frame.extents.items()}
    extents.pop(".", None)
    summed = named[number, frame.summed].replace(".", "") if frame.summed else ""
    return Frame(frame.op, frame.tensors, Axes(inputs, results), extents, summed)


class _Operands:
    """Operands of ops that have all loops in common.

    Attributes:
        letters: dimensions of each, by name.
        by_level: names of those whose parts change with the innermost of so many loops.
        written: names of those that are results of the whole op.
        producers: the op that computes an output, by name.
        parts: part that is at hand, by name.
        buffers: offset of the buffer in the workspace of each that has one.
        rooms: bytes of a buffer.
    """

    def __init__(
        self, op: Op, frames: Sequence[Frame], own: Sequence[str], outer: Collection[str]
    ) -> None:
        """Begin without buffers.

        Args:
            op: the whole op.
            frames: its plain ops that have loops in common.
            own: dimensions of these loops, from the outermost one on.
            outer: dimensions of the loops around them.

        Raises:
            ModelError: Ops see different parts of an operand.
        """
        self._frames = frames
        self.letters: dict[str, str] = {}
        moving: dict[str, str] = {}
        for name, text in (pair for frame in frames for pair in frame.letters.items()):
            seen = "".join(each if each.lower() in (*own, *outer) else "." for each in text)
            if moving.setdefault(name, seen) != seen:
                raise ModelError(f"op {op.name!r} cannot run in these pieces: parts of {name!r}")
            self.letters.setdefault(name, text)
        self.by_level: list[list[str]] = [[] for _ in range(len(own) + 1)]
        for name, text in moving.items():
            moved = (own.index(each) + 1 for each in text.lower() if each in own)
            self.by_level[max(moved, default=0)].append(name)
        results = {name for frame in frames for name in results_of(frame.op)}
        self.written = results.intersection(results_of(op))
        self.producers = {frame.op.output: frame.op for frame in frames if frame.op.output}
        self.parts: dict[str, Part] = {}
        self.buffers: dict[str, int] = {}
        self.rooms: dict[str, int] = {}

    def overwritten_by(self, name: str, size_bytes: int) -> str | None:
        """The operand whose buffer an output can take; None without one."""
        op = self.producers.get(name)
        if op is None:
            return None
        ops = [frame.op for frame in self._frames]
        needed = {each for other in ops[ops.index(op) + 1 :] for each in other.inputs}
        for position in kind_of(op).in_place:
            if position < len(op.inputs):
                of = op.inputs[position]
                fits = self.letters[of] == self.letters[name] and self.rooms.get(of) == size_bytes
                last = op.inputs.count(of) == 1 and of not in needed | self.written
                if of in self.buffers and fits and last:
                    return of
        return None


class Builder:
    """Builds the nest of an op, or a sketch of the nest of one of its plain ops."""

    def __init__(
        self,
        op: Op,
        plain: tuple[Op, ...],
        loads: Loads,
        tensors: Mapping[str, Tensor],
        pieces: Pieces,
        sketched: Collection[int] | None = None,
    ) -> None:
        """Begin with an empty workspace.

        Args:
            op: the op.
            plain: what it is equivalent to, in order.
            loads: what it loads.
            tensors: its tensors by name.
            pieces: its pieces.
            sketched: indices of the plain ops whose moves are wanted, without calls; None for all
                ops with calls.
        """
        self._op, self._plain, self._whole, self._sketched = op, plain, tensors, sketched
        self._vectors, self._weight, self._tables = loads.vectors, loads.weight, loads.tables
        self._loops, self._kept, self._order = pieces.loops, pieces.kept, pieces.order
        self._cut = dict(zip(pieces.loops, pieces.cut, strict=True))
        self._homes: dict[str, _Home] = {}
        self._tensors: dict[str, Tensor] = {}
        self._ops: list[Op] = []
        self._size = 0  # of the workspace so far
        self._most = 0
        self._staged = 0
        self._own_bytes = 0
        self._most_rows = 0  # of a window
        self._seen: dict[tuple[int, *tuple[object, ...]], Op] = {}

    def nest(self) -> Nest:
        """The nest.

        Raises:
            ModelError: The op cannot be cut like this.
        """
        plain = dict(enumerate(self._plain))
        apart = [{number: each} for number, each in plain.items()]
        body: list[Statement] = []
        for stage in apart if self._order is Order.APART else [plain]:
            if any(map(self._wanted, stage)):
                body += self._stage(stage)
        staging = aligned(self._most)
        own = staging + aligned(self._staged)
        tensors = self._tensors or self._whole
        any_name = next(iter(tensors))
        graph = Graph(self._op.name, tuple(tensors.values()), tuple(self._ops), any_name)
        return Nest(tuple(body), graph, staging, own, own + self._own_bytes)

    def _wanted(self, number: int) -> bool:
        return self._sketched is None or number in self._sketched

    def _stage(self, stage: Mapping[int, Op]) -> list[Statement]:
        """Plain ops, by number, that run together; of a sketch, the first one has all loads."""
        self._size = 0
        self._homes = {}
        kept = self._keep({name for plain in stage.values() for name in plain.inputs})
        results = self._keep_results(stage)
        loads: list[StreamMove] = []
        for name, layout in self._vectors.items():
            at = self._buffer(layout.stored_bytes)
            self._homes[name] = _Home(at, self._whole[name].shape)
            loads.append(StreamMove(name, layout, "", False, at))
        updates = any(plain.updates for plain in stage.values())
        outer, columns = self._slices(None if updates else 1)
        begin = self._size
        if not self._wanted(next(iter(stage))):
            kept, loads, columns = [], [], []
        groups = [{number: plain} for number, plain in stage.items()]
        if self._order is Order.TOGETHER:
            groups = [dict(stage)]
        body: list[Statement] = []
        for segment in self._outer_segments(outer, stage.values()):
            inner: list[Statement] = []
            for group in groups:
                if any(map(self._wanted, group)):
                    self._size = begin
                    inner += self._group(group, {outer: segment} if outer else {})
                    self._most = max(self._most, self._size)
            inner = [*columns, *inner, *_stored(columns if updates else [])]
            is_loop = outer in self._cut
            body += [Loop(outer, segment.first, segment.end, tuple(inner))] if is_loop else inner
        updated = [move for move in loads if move.tensor in self._op.updates]
        return [*kept, *loads, *body, *_stored(updated), *results]

    def _keep(self, inputs: Collection[str]) -> list[Move]:
        """Loads as a whole of those of some inputs that are stored and to be kept."""
        moves = []
        for name in (self._op.inputs[position] for position in self._kept):
            if name not in inputs:
                continue
            tensor = self._whole[name]
            at = self._buffer(tensor.size_bytes)
            self._homes[tensor.name] = _Home(at, tensor.shape)
            self._staged = max(self._staged, image_layout(tensor).request_bytes)
            moves.append(Move(tensor, tuple(map(AxisSpan, tensor.shape)), at))
        return moves

    def _keep_results(self, stage: Mapping[int, Op]) -> list[Move]:
        """Stores of results that the outermost loop continues, which are kept as a whole."""
        moves = []
        for number, plain in stage.items():
            name = plain.output
            if name is None or not self._whole[name].tile or not self._continues_outside(plain):
                continue
            tensor = self._whole[name]
            at = self._buffer(tensor.size_bytes)
            self._homes[name] = _Home(at, tensor.shape)
            self._staged = max(self._staged, image_layout(tensor).request_bytes)
            if self._wanted(number):
                moves.append(Move(tensor, tuple(map(AxisSpan, tensor.shape)), at, stores=True))
        return moves

    def _continues_outside(self, plain: Op) -> bool:
        """True if the outermost loop is over terms of an op's sums."""
        weight = self._weight
        if weight is None or not weight.updated or weight.dim not in self._cut:
            return False
        if weight.tensors[0] not in plain.inputs:
            return False
        return self._frame(plain).summed == weight.dim

    def _outer_segments(self, outer: str, plain: Collection[Op]) -> list[_Segment]:
        """Indices of the outermost loop: the first ones apart where sums begin with these."""
        if self._weight is None or not outer or outer not in self._cut:
            return [_Segment(0, 0)]
        count = self._count(outer, self._weight.count * self._weight.channels)
        if any(map(self._continues_outside, plain)):
            return [_Segment(0, 1), _Segment(1, count)]
        return [_Segment(0, count)]

    def _slices(self, count: int | None) -> tuple[str, list[StreamMove]]:
        """Dimension of the outermost loop, and loads within it of a weight and its state.

        With a count, of so many of these tensors.
        """
        if self._weight is None:
            return "", []
        weight = replace(self._weight, tensors=self._weight.tensors[:count])
        at = self._buffer(weight.buffer_bytes)
        dim = weight.dim if weight.dim in self._cut else ""
        moves = []
        for number, name in enumerate(weight.tensors):
            shape = list(self._whole[name].shape)
            shape[weight.axis] = weight.channels
            place = at + number * weight.apart
            self._homes[name] = _Home(place, tuple(shape), weight.dim, weight.turns)
            moves.append(self._slice(name, weight, dim))
        if not weight.updated:
            return "", []
        self._homes[self._op.inputs[0]] = self._homes[weight.tensors[0]]
        return weight.dim, moves

    def _slice(self, name: str, weight: WeightSlices, dim: str) -> StreamMove:
        """Load of a slice of a weight, or of its state, by the index of a dimension."""
        home = self._homes[name]
        ends = (name, weight.layout, dim, weight.by_rows, home.buffer)
        return StreamMove(*ends, turns=home.turns)

    def _unfit(self, why: str) -> ModelError:
        return ModelError(f"op {self._op.name!r} cannot run in these pieces: {why}")

    def _buffer(self, size_bytes: int) -> int:
        at = self._size
        self._size += aligned(size_bytes)
        return at

    def _count(self, dim: str, extent: int) -> int:
        if extent % self._cut[dim]:
            raise self._unfit(f"{self._cut[dim]} does not divide {extent}")
        return extent // self._cut[dim]

    def _group(self, group: Mapping[int, Op], outer: Mapping[str, _Segment]) -> list[Statement]:
        """The loops of ops that have all loops in common; those of `outer` are around them."""
        joint = joint_frames([*group.values()], self._whole) if len(group) > 1 else None
        if len(group) > 1 and joint is None:
            raise self._unfit("one of its parts runs on whole tensors only")
        frames = dict(zip(group, joint or map(self._frame, group.values()), strict=True))
        shared = set.intersection(*(self._dims(frame) for frame in frames.values()))
        own = [dim for dim in self._loops if dim in shared - outer.keys()]
        if len(group) > 1 and not {*own, *outer}.issuperset(self._loops):
            raise self._unfit("its parts do not have all loops in common")
        operands = _Operands(self._op, [*frames.values()], own, [*outer])
        weight = self._weight
        for name in () if weight is None else weight.tensors:
            assert weight is not None
            if operands.letters.get(name, weight.dim * 2)[weight.axis] not in (weight.dim, "."):
                raise self._unfit(f"slices of {name!r} are along another dimension")
        stays = {
            name: -1 if self._continues_outside(frame.op) else own.index(frame.summed)
            for frame in frames.values()
            if self._continues_outside(frame.op) or frame.summed in own
            for name in results_of(frame.op)
        }
        self._most_rows = 0

        def within(level: int, segments: Mapping[str, _Segment]) -> list[Statement]:
            body: list[Statement] = []
            after: list[Statement] = []
            for name in operands.by_level[level]:
                letters = operands.letters[name]
                operands.parts[name] = self._part(self._whole[name], letters, segments)
                moves = self._moves(name, operands)
                if name in operands.buffers and level > stays.get(name, level):
                    raise self._unfit(f"sums of {name!r} are left before they are complete")
                body += moves[0]
                after += moves[1]
            if level < len(own):
                dim = own[level]
                for segment in tuple(self._segments(frames.values(), dim)):
                    inner = within(level + 1, {**segments, dim: segment})
                    body.append(Loop(dim, segment.first, segment.end, tuple(inner)))
            else:
                for number, frame in frames.items():
                    body += self._call(frame, number, operands, segments)
            return body + after

        return within(0, {dim: each for dim, each in outer.items() if dim in self._cut})

    def _dims(self, frame: Frame) -> set[str]:
        """Dimensions along which an op is cut here.

        A sum over channels of the weight's slices goes on with all that a slice has. Any other sum
        is formed at once, unless ops share the pieces over which it goes on.
        """
        dims, weight = set(frame.extents), self._weight
        if weight is not None and weight.dim == frame.summed:
            of_weight = "".join(frame.letters.get(name, "") for name in weight.tensors)
            return dims - {*of_weight} | {frame.summed}
        return dims if self._order is Order.TOGETHER else dims - {frame.summed}

    def _frame(self, plain: Op) -> Frame:
        frame = frame_of(plain, self._whole)
        if frame is not None:
            return frame
        if self._cut:
            raise self._unfit("it runs on whole tensors only")
        letters = [
            "." * len(self._whole[name].shape) for name in (*plain.inputs, *results_of(plain))
        ]
        inputs = len(plain.inputs)
        return Frame(plain, self._whole, Axes(tuple(letters[:inputs]), tuple(letters[inputs:])), {})

    def _segments(self, frames: Collection[Frame], dim: str) -> Iterator[_Segment]:
        count = self._count(dim, next(iter(frames)).extents[dim])
        sums = [frame for frame in frames if frame.summed == dim]
        for frame in sums:
            if self._cut[dim] % kind_of(frame.op).summed_unit:
                raise self._unfit(f"{self._cut[dim]} of its terms are not summed apart")
        if sums:
            has_bias = any(len(frame.op.inputs) > 2 for frame in sums)  # which comes last
            ends = dict.fromkeys((1, count - 1 if has_bias else count, count))
            yield from (_Segment(*pair) for pair in pairwise((0, *ends)))
            return
        windowed = [frame for frame in frames if "R" in "".join(frame.letters.values())]
        if dim != "r" or not windowed:
            yield _Segment(0, count)
            return
        if len(frames) > 1:
            raise self._unfit("its parts need rows of their own")
        windows = windowed[0].windows(self._cut[dim])
        self._most_rows = max(window.count for window in windows)
        if any(window.count < 1 for window in windows):
            raise self._unfit("some rows of its output depend on none of its input")
        step = windows[2].first - windows[1].first if count > 2 else 0

        def key(i: int) -> object:
            return windows[i].count, windows[i].padding, windows[i].first - i * step

        for _, run in groupby(range(count), key):
            indices = list(run)
            first = windows[indices[0]]
            yield _Segment(indices[0], indices[-1] + 1, first, step)

    def _part(self, tensor: Tensor, letters: str, segments: Mapping[str, _Segment]) -> Part:
        spans = []
        for letter, extent in zip(letters, tensor.shape, strict=True):
            dim = letter.lower()
            if letter == "." or dim not in self._cut or dim not in segments:
                spans.append(AxisSpan(extent))
                continue
            window = segments[dim].window
            if letter == "R" and window is not None:
                step = segments[dim].step
                first = window.first - segments[dim].first * step
                spans.append(AxisSpan(window.count, dim, step, first))
            else:
                spans.append(AxisSpan(self._cut[dim], dim, self._cut[dim]))
        return tuple(spans)

    def _moves(self, name: str, operands: _Operands) -> tuple[list[Statement], list[Statement]]:
        """Loads of an operand before calls, and stores after them."""
        if name in self._tables:
            self._staged = max(self._staged, self._tables[name].request_bytes)
            return [], []
        tensor, part, home = self._whole[name], operands.parts[name], self._homes.get(name)
        first: list[Statement] = []
        if home is not None:
            weight = self._weight
            if weight is not None and name in weight.tensors and not weight.updated:
                dim = part[weight.axis].dim
                first = [self._slice(name, weight, dim)]
            tensor, part = self._inside(name, part)
        inner = name in operands.producers and name not in operands.written
        if not (tensor.tile or inner) and run_of(tensor, part) is not None:
            return first, []
        if not (tensor.tile or inner):
            gathered(tensor, part)  # or it cannot be
            if home is not None and home.turns is not None:
                raise self._unfit(f"pieces of {name!r} are not contiguous in its slices")
        size_bytes = _FLOAT * math.prod(
            max(self._most_rows, span.count) if letter == "R" else span.count
            for letter, span in zip(operands.letters[name], part, strict=True)
        )
        if tensor.tile:
            self._staged = max(self._staged, image_layout(tensor).request_bytes)
            image_part(tensor, part)  # or it cannot be
            if name in operands.written:
                self._expect_whole_tiles(tensor, part)
        if name not in operands.buffers:
            taken = operands.overwritten_by(name, size_bytes)
            at = self._buffer(size_bytes) if taken is None else operands.buffers[taken]
            operands.buffers[name], operands.rooms[name] = at, size_bytes
        at = operands.buffers[name]
        move = Move(tensor, part, at, home=None if home is None else home.buffer)
        if name not in operands.producers:
            first.append(move)
        return first, [replace(move, stores=True)] if name in operands.written else []

    def _inside(self, name: str, part: Part) -> tuple[Tensor, Part]:
        """A loaded tensor, or its slice, as it is in its buffer, and a part of it there."""
        home = self._homes[name]
        inside = []
        for span, extent in zip(part, home.shape, strict=True):
            if span.dim and span.dim == home.dim:
                span = AxisSpan(span.count)
            inside.append(span)
            if span.dim == "" and span.count != extent:
                raise self._unfit(f"its pieces are not tiles of {name!r}")
        return replace(self._whole[name], shape=home.shape, tile=()), tuple(inside)

    def _expect_whole_tiles(self, tensor: Tensor, part: Part) -> None:
        place = image_part(tensor, part)
        for offsets, count, extent in _along(place, image_layout(tensor)):
            if any(number % extent for number in (count, *(number for _, number in offsets))):
                raise self._unfit(f"pieces of {tensor.name!r} are not whole tiles")

    def _call(
        self,
        frame: Frame,
        number: int,
        operands: _Operands,
        segments: Mapping[str, _Segment],
    ) -> list[Statement]:
        parts, buffers = operands.parts, operands.buffers
        if not self._tables.keys().isdisjoint(frame.op.inputs):
            return [self._lookup(frame.op, parts, buffers)]
        window = segments["r"].window if "r" in segments else None
        shapes = tuple(tuple(span.count for span in parts[name]) for name in frame.letters)
        groups = None if frame.op.attributes.get("groups", 1) == 1 else self._cut.get("c")
        padding = window.padding if window else None
        terms = _Terms()
        if frame.summed in segments:
            segment = segments[frame.summed]
            count = self._count(frame.summed, frame.extents[frame.summed])
            terms = _Terms(segment.first == 0, segment.end == count)
        piece = frame.piece(shapes, groups, padding, terms)
        self._own_bytes = max(self._own_bytes, piece.own_bytes)
        within: tuple[tuple[str, int], ...] = ()
        if RECORD_BYTES in piece.op.attributes:
            within = self._within_sample(frame.op.output or "", parts)
            if self._sketched is not None:
                return [KernelCall(piece.op, {}, within)]
        elif self._sketched is not None:
            return []
        variant = number, shapes, padding, terms
        if variant not in self._seen:
            alike = sum(key[0] == number for key in self._seen)
            self._seen[variant] = self._named(piece, f"{number}.{alike}")
        op, plain = self._seen[variant], frame.op
        names = (*plain.inputs[: len(op.inputs)], *results_of(plain))
        pieces = (*op.inputs, *results_of(op))
        places = {
            each: self._place(name, parts[name], buffers)
            for each, name in zip(pieces, names, strict=True)
        }
        return [KernelCall(op, places, within)]

    def _lookup(self, plain: Op, parts: Mapping[str, Part], buffers: Mapping[str, int]) -> Lookup:
        """Lookup of an embedding, whose inputs are ids and table."""
        ids, table = plain.inputs
        places = (self._place(name, parts[name], buffers) for name in (ids, plain.output or ""))
        count = math.prod(span.count for span in parts[ids])
        return Lookup(table, self._tables[table], count, *places)

    def _within_sample(self, name: str, parts: Mapping[str, Part]) -> tuple[tuple[str, int], ...]:
        """Place of a part of the batch in each sample, which is loaded in one run."""
        whole, (_, *part) = self._whole[name], parts[name]
        offsets = run_of(replace(whole, shape=whole.shape[1:]), tuple(part))
        if offsets is None:
            raise self._unfit(f"pieces of {name!r} are not contiguous in a sample")
        return offsets

    def _named(self, piece: _Piece, variant: str) -> Op:
        """The op on pieces, under a name of its own, as are its tensors."""
        renamed = {name: f"{name}.{variant}" for name in piece.tensors}
        for name, tensor in piece.tensors.items():
            self._tensors[renamed[name]] = replace(tensor, name=renamed[name])
        op = piece.op
        self._ops.append(
            replace(
                op,
                name=f"{op.name}.{variant}",
                inputs=tuple(renamed[name] for name in op.inputs),
                output=None if op.output is None else renamed[op.output],
                updates=tuple(renamed[name] for name in op.updates),
            )
        )
        return self._ops[-1]

    def _place(self, name: str, part: Part, buffers: Mapping[str, int]) -> OperandPlace:
        if name in buffers:
            return OperandPlace(name, buffers[name])
        home, tensor = self._homes.get(name), self._whole[name]
        if home is not None:
            tensor, part = self._inside(name, part)
        offsets = run_of(tensor, part)
        assert offsets is not None
        if home is None:
            return OperandPlace(name, None, offsets)
        return OperandPlace(name, home.buffer, offsets, home.turns)


def _stored(loads: Sequence[StreamMove]) -> list[StreamMove]:
    """Moves that store what others loaded, the last one first."""
    return [replace(move, stores=True) for move in reversed(loads)]


def run_of(tensor: Tensor, part: Part) -> tuple[tuple[str, int], ...] | None:
    """Offset in elements of a part that is contiguous, by dimension; None if it is not."""
    strides = _strides(tensor.shape)
    cut = [k for k, span in enumerate(part) if span.count < tensor.shape[k]]
    if cut and any(span.count > 1 for span in part[: cut[-1]]):
        return None
    return tuple(
        (dim, elements)
        for span, stride in zip(part, strides, strict=True)
        for dim, elements in ((span.dim, span.scale * stride), ("", span.first * stride))
        if elements
    )


@lru_cache(maxsize=65536)
def image_part(tensor: Tensor, part: Part) -> ImagePart:
    """A part of a stored tensor, or of a window of one, in the tensor's image.

    Raises:
        ModelError: It is not of ranges of channels, each of the same rows.
    """
    _, rows, elements = tensor.image
    of_channel = rows * elements
    offset = tensor.offset_bytes // _FLOAT
    first_channel, inside = divmod(offset, of_channel)
    first_row, within = divmod(inside, elements)
    if all(span.count == extent for span, extent in zip(part, tensor.shape, strict=True)):
        if inside == 0 and tensor.elements % of_channel == 0:
            count = tensor.elements // of_channel
            return ImagePart((("", first_channel),), count, (("", 0),), rows)
        if (
            within == 0
            and tensor.elements % elements == 0
            and inside + tensor.elements <= of_channel
        ):
            count = tensor.elements // elements
            return ImagePart((("", first_channel),), 1, (("", first_row),), count)
    strides = _strides(tensor.shape)
    axes = [
        (span, extent, stride)
        for span, extent, stride in zip(part, tensor.shape, strides, strict=True)
        if extent > 1
    ]
    by_channels = [axis for axis in axes if axis[2] >= of_channel]
    by_rows = [axis for axis in axes if elements <= axis[2] < of_channel]
    by_elements = [axis for axis in axes if axis[2] < elements]
    whole_rows = math.prod(extent for _, extent, _ in by_elements) == elements
    whole_channels = math.prod(extent for _, extent, _ in by_rows) == rows
    if (
        inside
        or not (whole_rows and whole_channels)
        or any(span.count < extent for span, extent, _ in by_elements)
    ):
        raise ModelError(f"{tensor.name!r} does not lie along its image in storage")
    channel_count, ranges, apart = _ranges(by_channels, of_channel)
    row_count, of_rows, _ = _ranges(by_rows, elements)
    if of_rows > 1:
        raise ModelError(f"a part of {tensor.name!r} is in ranges of rows")
    if apart % tensor.tile[0]:
        raise ModelError(f"ranges of {tensor.name!r} begin within tiles")
    return ImagePart(
        (*_firsts(by_channels, of_channel), ("", first_channel)),
        channel_count,
        (*_firsts(by_rows, elements), ("", 0)),
        row_count,
        ranges,
        apart,
    )


def _firsts(axes: Sequence[tuple[AxisSpan, int, int]], unit: int) -> Offsets:
    """First element of a part along some axes, in units of elements."""
    return tuple(
        (dim, number * stride // unit)
        for span, _, stride in axes
        for dim, number in ((span.dim, span.scale), ("", span.first))
        if number
    )


def _ranges(axes: Sequence[tuple[AxisSpan, int, int]], unit: int) -> tuple[int, int, int]:
    """Units of a range, number of ranges, and units from one to the next, of a part along axes."""
    cut = [k for k, (span, extent, _) in enumerate(axes) if span.count < extent]
    if not cut:
        return math.prod(extent for _, extent, _ in axes), 1, 0
    last = cut[-1]
    count = axes[last][0].count * axes[last][2] // unit
    outer = [axis for axis in axes[:last] if axis[0].count > 1]
    if len(outer) > 1:
        raise ModelError("a part has ranges along two axes")
    if not outer:
        return count, 1, 0
    return count, outer[0][0].count, outer[0][2] // unit


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of elements of a tensor, apart by the same stride; all in elements."""

    count: int
    stride: int
    elements: int
    offsets: tuple[tuple[str, int], ...]


def gathered(tensor: Tensor, part: Part) -> Runs:
    """A part of a tensor as runs.

    Raises:
        ModelError: It has runs along two axes.
    """
    strides = _strides(tensor.shape)
    last = max(k for k, span in enumerate(part) if span.count < tensor.shape[k])
    along = [k for k, span in enumerate(part[:last]) if span.count > 1]
    if len(along) > 1:
        raise ModelError(f"a part of {tensor.name!r} has runs along two axes")
    (axis,) = along
    offsets = tuple(
        (dim, elements)
        for span, stride in zip(part, strides, strict=True)
        for dim, elements in ((span.dim, span.scale * stride), ("", span.first * stride))
        if elements
    )
    elements = part[last].count * strides[last]
    return Runs(part[axis].count, strides[axis], elements, offsets)


def _strides(shape: Shape) -> tuple[int, ...]:
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _along(part: ImagePart, layout: ImageLayout) -> tuple[tuple[Offsets, int, int], ...]:
    """Beginning and extent of a part, and the extent of a tile: along channels, and rows."""
    return (
        (part.channels, part.channel_count, layout.tile_channels),
        (part.rows, part.row_count, layout.tile_rows),
    )


def _overlapped(first: int, count: int, extent: int) -> int:
    """Number of tiles of an extent in which some elements lie."""
    return -(-(first + count) // extent) - first // extent


def _overlapped_by(offsets: Offsets, count: int, extent: int, around: Mapping[str, range]) -> int:
    """Number of tiles in which some elements lie, for all indices of the loops around."""
    first, times = 0, 1
    moving: list[range] = []
    for dim, number in offsets:
        indices = around.get(dim, range(1))
        if not dim:
            first += number
        elif number % extent == 0:  # by whole tiles
            times *= len(indices)
            first += number * indices.start
        else:
            moving.append(range(indices.start * number, indices.stop * number, number))
    return times * sum(_overlapped(first + sum(at), count, extent) for at in product(*moving))


class Moved(NamedTuple):
    """Bytes that a nest reads and writes, and its number of requests."""

    size_bytes: int
    requests: int


def nest_moved(nest: Nest) -> Moved:
    """Bytes and number of storage requests of a nest, and of what is read of samples."""
    size_bytes = requests = 0
    for move, loops in _moves_within(nest.body, ()):
        for size, count in _requests_of(move, loops):
            size_bytes += count * size
            requests += count
    return Moved(size_bytes, requests)


def nest_traffic(nest: Nest) -> TileTraffic:
    """Storage requests of a nest."""
    reads: Counter[int] = Counter()
    writes: Counter[int] = Counter()
    for move, loops in _moves_within(nest.body, ()):
        if not isinstance(move, KernelCall):
            stores = not isinstance(move, Lookup) and move.stores
            for size, count in _requests_of(move, loops):
                (writes if stores else reads)[size] += count
    return TileTraffic(reads, writes)


def _requests_of(
    move: Move | StreamMove | KernelCall | Lookup, loops: Sequence[Loop]
) -> Iterator[tuple[int, int]]:
    """Bytes and number of the storage requests of a statement, for all indices of its loops."""
    around = {loop.dim: range(loop.first, loop.end) for loop in loops}
    if isinstance(move, Lookup):
        yield move.layout.request_bytes, move.count * math.prod(map(len, around.values()))
    elif isinstance(move, KernelCall):
        record_bytes = page_bytes(move.op.integer(RECORD_BYTES), BLOCK_BYTES)
        yield record_bytes, math.prod(map(len, around.values()))
    elif isinstance(move, StreamMove):
        times = math.prod(len(indices) for dim, indices in around.items() if dim != move.dim)
        indices = around.get(move.dim)
        for size, count in _slices_of(move.layout, move.is_row, indices):
            yield size, times * count
    elif move.tensor.tile:
        layout = image_layout(move.tensor)
        place = image_part(move.tensor, move.part)
        used = {span.dim for span in move.part}
        tiles = math.prod(len(indices) for dim, indices in around.items() if dim not in used)
        tiles *= place.ranges
        for offsets, count, extent in _along(place, layout):
            tiles *= _overlapped_by(offsets, count, extent, around)
        yield layout.request_bytes, tiles


@lru_cache(maxsize=4096)
def _slices_of(
    layout: TileLayout, by_rows: bool, indices: range | None = None
) -> tuple[tuple[int, int], ...]:
    """Bytes and number of the requests for some rows of tiles, or columns; for all by default."""
    sizes = layout.tile_request_bytes if by_rows else layout.column_request_bytes
    if indices is not None and not by_rows:
        sizes = sizes[indices.start : indices.stop]
    elif indices is not None:
        sizes = tuple(size for row in indices for size in sizes[row :: layout.rows])
    return tuple(Counter(sizes).items())


def _moves_within(
    body: Sequence[Statement], loops: tuple[Loop, ...]
) -> Iterator[tuple[Move | StreamMove | KernelCall | Lookup, tuple[Loop, ...]]]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _moves_within(statement.body, (*loops, statement))
        elif not isinstance(statement, KernelCall) or RECORD_BYTES in statement.op.attributes:
            yield statement, loops


def stream_moves(nest: Nest) -> list[StreamMove]:
    """Transfers of streamed tensors."""
    return [move for move, _ in _moves_within(nest.body, ()) if isinstance(move, StreamMove)]


def sample_parts(body: Sequence[Statement], at: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """First byte and bytes of each part of the samples that statements load, in order.

    Args:
        body: the statements.
        at: indices of the loops around them.
    """
    for each in body:
        if isinstance(each, Loop):
            for index in range(each.first, each.end):
                yield from sample_parts(each.body, {**at, each.dim: index})
        elif isinstance(each, KernelCall) and RECORD_BYTES in each.op.attributes:
            place = sum(elements * (at[dim] if dim else 1) for dim, elements in each.within)
            size = math.prod(each.op.integers("shape")[1:]) * _FLOAT
            yield first_byte(each.op) + place * _FLOAT, size


def calls_of(nest: Nest) -> Mapping[str, int]:
    """Number of calls of each op of a nest, by name."""
    times: Counter[str] = Counter()
    for name, count in _called(nest.body, 1):
        times[name] += count
    return times


def _called(body: Sequence[Statement], times: int) -> Iterator[tuple[str, int]]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _called(statement.body, times * (statement.end - statement.first))
        elif isinstance(statement, KernelCall):
            yield statement.op.name, times
