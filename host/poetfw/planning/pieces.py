# SPDX-License-Identifier: Apache-2.0
"""Choice of the tiles of stored tensors, and of the pieces in which each op on them runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import combinations, permutations, product
from types import MappingProxyType
from typing import NamedTuple, Protocol

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.memory import padded
from poetfw.ops import KINDS, PiecedOp, kind_of, pieced, streamed_kind
from poetfw.ops.layouts import image_layout, image_of
from poetfw.ops.nests import (
    Frame,
    Loads,
    Nest,
    Order,
    Pieces,
    cut_axes,
    frame_of,
    joint_frames,
    nest_moved,
    op_axes,
    results_of,
)
from poetfw.ops.pieces import pieced_name
from poetfw.ops.streamed import by_outputs

_FEATURES = 16
"""Features of a vector that count as a row of an image where a tile's rows are limited."""

Tile = tuple[int, int]
"""Channels and rows of the tiles of a stored tensor."""

REQUEST_BYTES = 495
"""Bytes that take as long as the latency of a request."""


class TensorTiles(Protocol):
    """Tiles of stored tensors."""

    def tile_of(self, tensor: Tensor, unit: int = 0) -> Tile:
        """Channels and rows of a tensor's tiles.

        Args:
            tensor: the tensor.
            unit: a number that the extent of a tile divides along channels of images, along
                features of other tensors; 0 without one.
        """

    def key(self, tensor: Tensor) -> tuple[int, ...]:
        """Numbers on which the tiles of a tensor of its shape depend, for any unit."""


@dataclass(frozen=True)
class GivenTiles:
    """Tiles that are given for each tensor by name."""

    tiles: Mapping[str, Tile]

    def tile_of(self, tensor: Tensor, unit: int = 0) -> Tile:
        """Those of the tensor, whatever the unit."""
        return self.tiles[tensor.name]

    def key(self, tensor: Tensor) -> tuple[int, ...]:
        """The tile."""
        return self.tiles[tensor.name]


@dataclass(frozen=True)
class TilePolicy:
    """Rule for the tiles of stored tensors.

    Attributes:
        size_bytes: largest payload of a tile, unless a row of one channel is larger.
        rows: largest number of rows of a tile.
        smaller: smaller payloads, by tensor.
    """

    size_bytes: int
    rows: int
    smaller: Mapping[str, int] = field(default_factory=dict)

    def tile_of(self, tensor: Tensor, unit: int = 0) -> Tile:
        """The largest tiles that the rule allows."""
        size_bytes = self.smaller.get(tensor.name, self.size_bytes)
        channels, rows = divided_by_tiles(tensor, unit)
        row_bytes = image_of(tensor.shape)[2] * Dtype.F32.size_bytes
        most = self.rows, size_bytes // row_bytes
        if len(tensor.shape) != 4:
            most = self.rows * _FEATURES, max(_FEATURES, size_bytes // row_bytes)
        tile_rows = _largest(rows, min(most))
        return _largest(channels, size_bytes // (tile_rows * row_bytes)), tile_rows

    def key(self, tensor: Tensor) -> tuple[int, ...]:
        """Limits of rows and payload."""
        return self.rows, self.smaller.get(tensor.name, self.size_bytes)

    def halved(self, names: Iterable[str], least_bytes: int) -> TilePolicy:
        """The rule with payloads of half the size for some tensors, down to a least one."""
        sizes = {name: self.smaller.get(name, self.size_bytes) // 2 for name in names}
        smaller = {name: max(size, least_bytes) for name, size in sizes.items()}
        return replace(self, smaller={**self.smaller, **smaller})


def divided_by_tiles(tensor: Tensor, unit: int) -> tuple[int, int]:
    """Numbers that the channels and the rows of a tensor's tiles divide; `unit` as for a policy."""
    rows = image_of(tensor.shape)[1]
    if len(tensor.shape) == 4:
        return math.gcd(tensor.shape[1], unit), rows
    channels = next((extent for extent in tensor.shape[-2::-1] if extent > 1), 1)
    return channels, math.gcd(rows, unit)


def tiles_nearby(tensor: Tensor, unit: int, most_bytes: int) -> Iterator[Tile]:
    """Tiles of a stored tensor with a step more or less channels, or rows, or both.

    Args:
        tensor: the tensor, with its tile.
        unit: as for `TilePolicy.tile_of`.
        most_bytes: largest payload of a tile.
    """
    options = []
    ways = (divided_by_tiles(tensor, each) for each in (unit, 0))
    for by_unit, whole, extent in zip(*ways, tensor.tile, strict=True):
        divisors = _divisors(whole if by_unit % extent else by_unit)
        at = divisors.index(extent)
        options.append(divisors[max(0, at - 1) : at + 2])
    row_bytes = image_of(tensor.shape)[2] * Dtype.F32.size_bytes
    for channels, rows in product(*options):
        if (channels, rows) != tensor.tile and channels * rows * row_bytes <= most_bytes:
            yield channels, rows


def channel_units(*graphs: Graph) -> dict[str, int]:
    """Channels that an op with a streamed weight gives at once, by the name of its output.

    Tiles of the output are filled at once, too, so their channels divide this number.
    """
    units: dict[str, int] = {}
    for graph in graphs:
        for op in graph.ops:
            unit = unit_of(op)
            if unit and op.output is not None:
                units[op.output] = math.gcd(unit, units.get(op.output, 0))
    return units


def unit_of(op: Op) -> int:
    """Channels of its output that an op with a streamed weight gives at once; 0 for all.

    A gradient of the input that is summed slice by slice of the weight is complete at once.
    """
    tile = op.attributes.get("tile")
    if not isinstance(tile, tuple) or (op.backward and len(tile) == 1):
        return 0
    return int(tile[-1] if op.backward else tile[0])


@dataclass(frozen=True, slots=True)
class PieceChoice:
    """Pieces of an op, with their cost in bytes and their workspace."""

    pieces: Pieces
    cost: int
    workspace_bytes: int


class _Part(NamedTuple):
    """Pieces of one of the plain ops of an op, with their cost and the parts of the workspace."""

    choice: Mapping[str, int]
    cost: int
    room: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class PieceSearch:
    """Exhaustive search for the pieces of each op; what a process has found is remembered.

    Attributes:
        continues: True on a board whose sums may be continued (`poetfw.ops.continued`).
    """

    continues: bool = False

    def choose(self, op: Op, tensors: Mapping[str, Tensor], room_bytes: int) -> Op:
        """The op in the pieces of least traffic, within a room.

        Args:
            op: an op with stored operands.
            tensors: the tensors of its graph.
            room_bytes: limit of its workspace with its operands that are in RAM.

        Returns:
            The op in the best pieces; if none fit the room, in those of the least workspace.
        """
        return pieced(op, self.best(op, tensors, room_bytes).pieces)

    def best(self, op: Op, tensors: Mapping[str, Tensor], room_bytes: int) -> PieceChoice:
        """The pieces of least traffic within a room; if none fit it, those of least workspace."""
        choices = self.choices(op, tensors)
        left = room_bytes - held_bytes(op, tensors)
        fitting = [each for each in choices if each.workspace_bytes <= left]
        return fitting[-1] if fitting else choices[0]

    def weigh(self, op: Op, tensors: Mapping[str, Tensor], room_bytes: int) -> tuple[int, int]:
        """Bytes by which an op exceeds a room, and its traffic in bytes, in its best pieces."""
        if not _stored(op, tensors):
            return self.bound(op, tensors, room_bytes)
        best = self.best(op, tensors, room_bytes)
        excess = held_bytes(op, tensors) + best.workspace_bytes - room_bytes
        return max(0, excess), best.cost

    def bound(self, op: Op, tensors: Mapping[str, Tensor], room_bytes: int) -> tuple[int, int]:
        """Lower bounds of the excess and the traffic of a streamed op.

        They are its own if none of its operands is stored.
        """
        kind, stored = streamed_kind(op), _stored(op, tensors)
        assert kind is not None
        loads = kind.loads(op, tensors)
        size_bytes, requests = loads.moved
        for name in _moved_once(kind.plain(op), tensors).intersection(stored):
            layout = image_layout(tensors[name])
            size_bytes += layout.stored_bytes
            requests += layout.tiles
        used = loads.buffer_bytes if stored else kind.nest_of(op, tensors).workspace_bytes
        excess = held_bytes(op, tensors) + used - room_bytes
        return max(0, excess), size_bytes + REQUEST_BYTES * requests

    def assess(
        self, graph: Graph, room_bytes: int, waiting: Mapping[str, int] = MappingProxyType({})
    ) -> tuple[dict[Op, int], int]:
        """Bytes by which ops on stored tensors exceed a room, and the traffic of all in bytes.

        Args:
            graph: the ops.
            room_bytes: RAM for an op.
            waiting: bytes that stay in RAM meanwhile, by op.

        Returns:
            The bytes of each op that exceeds the room, and the traffic.
        """
        excess: dict[Op, int] = {}
        cost = 0
        for op in graph.ops:
            kind = kind_of(op)
            if isinstance(kind, PiecedOp):
                nest = kind.nest(op, graph)
                held = held_bytes(op, graph.by_name)
                held += waiting.get(op.name, 0)
                if held + nest.workspace_bytes > room_bytes:
                    excess[op] = held + nest.workspace_bytes - room_bytes
                cost += _cost(nest)
        return excess, cost

    def choices(self, op: Op, tensors: Mapping[str, Tensor]) -> tuple[PieceChoice, ...]:
        """All pieces of an op, none of which is worse than another one in both respects."""
        found = _best_choices(*_without_names(op, tensors), continues=self.continues)
        if not found:
            raise ModelError(f"op {op.name!r} ({op.kind}) cannot run in pieces")
        return found


def _operands(op: Op) -> dict[str, None]:
    """Names of an op's inputs and output, in order."""
    return dict.fromkeys((*op.inputs, *([op.output] if op.output is not None else [])))


def operand_roots(op: Op, tensors: Mapping[str, Tensor]) -> dict[str, None]:
    """Names of the tensors that an op's inputs and output are, or are windows of, in order."""
    return dict.fromkeys(tensors[name].base or name for name in _operands(op))


def _stored(op: Op, tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of an op's stored operands."""
    return [name for name in _operands(op) if tensors[name].tile]


def _moved_once(plain: Sequence[Op], tensors: Mapping[str, Tensor]) -> set[str]:
    """Names of operands that are moved once at least; of others, rows may be left out."""
    frames = filter(None, (frame_of(each, tensors) for each in plain))
    return {name for each in frames for name, letters in each.letters.items() if "R" not in letters}


def held_bytes(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Bytes of an op's operands that are in RAM and not persistent."""
    in_ram = [tensors[name] for name in _operands(op) if not tensors[name].tile]
    bases = dict.fromkeys(tensor.base or tensor.name for tensor in in_ram)
    return sum(padded(tensors[name].size_bytes) for name in bases if tensors[name].role.transient)


def _cost(nest: Nest) -> int:
    moved = nest_moved(nest)
    return moved.size_bytes + REQUEST_BYTES * moved.requests


def _without_names(op: Op, tensors: Mapping[str, Tensor]) -> tuple[Op, tuple[Tensor, ...]]:
    """The op with numbers for names, and its tensors: what its pieces depend on."""
    inner = (part.output for part in op.joined if part.output is not None)
    names = dict.fromkeys((*_operands(op), *op.updates, *inner))
    number = {name: str(index) for index, name in enumerate(names)}
    renamed = (_numbered(tensors[name], number[name]) for name in names if name in tensors)
    return _with_names(op, "op", number), tuple(renamed)


@lru_cache(maxsize=4096)
def _numbered(tensor: Tensor, number: str) -> Tensor:
    """The tensor by itself, with a number for its name."""
    offset_bytes = tensor.offset_bytes if tensor.tile else 0
    return replace(tensor, name=number, base=None, offset_bytes=offset_bytes)


def _with_names(op: Op, name: str, names: Mapping[str, str]) -> Op:
    """The op with other names of its own and of its operands."""
    return replace(
        op,
        name=name,
        inputs=tuple(names[each] for each in op.inputs),
        output=None if op.output is None else names[op.output],
        updates=tuple(names[each] for each in op.updates),
        joined=tuple(
            _with_names(part, f"{name}.{number}", names) for number, part in enumerate(op.joined)
        ),
    )


@lru_cache(maxsize=1 << 16)
def _best_choices(
    op: Op, tensors: tuple[Tensor, ...], *, continues: bool
) -> tuple[PieceChoice, ...]:
    """Pieces of an op, none of which is worse than another one in both respects."""
    every = _every_choice(op, {tensor.name: tensor for tensor in tensors}, continues=continues)
    best: list[PieceChoice] = []
    for each in sorted(every, key=lambda each: (each.workspace_bytes, each.cost)):
        if not best or each.cost < best[-1].cost:
            best.append(each)
    return tuple(best)


def _every_choice(
    op: Op, tensors: Mapping[str, Tensor], *, continues: bool
) -> Iterator[PieceChoice]:
    """All pieces of an op.

    A forward op whose sums may be continued can also load its weight by input channels.
    """
    kind = KINDS[pieced_name(op.kind)]
    assert isinstance(kind, PiecedOp)
    tensors = {**tensors, **kind.inner(op, tensors)}
    loads = kind.loads(op, tensors)
    yield from _choices_with(op, tensors, kind, loads, continues=continues)
    plain = kind.plain(op)[0]
    frame = frame_of(plain, tensors)
    if (
        continues
        and not op.joined
        and loads.weight is not None
        and loads.weight.layout.columns > 1
        and not by_outputs(op)
        and frame is not None
        and frame.summed == "i"
    ):
        yield from _choices_with(op, tensors, kind, loads.by_columns(), continues=continues)


def _choices_with(
    op: Op, tensors: Mapping[str, Tensor], kind: PiecedOp, loads: Loads, *, continues: bool
) -> Iterator[PieceChoice]:
    """All pieces with some loads, in each order of the plain ops."""
    plain, weight = kind.plain(op), loads.weight
    fixed = {} if weight is None else {weight.dim: weight.channels}
    outermost = weight.dim if weight is not None and weight.updated else ""
    streamed = () if weight is None else weight.tensors
    frames: Sequence[Frame | None] = [frame_of(each, tensors) for each in plain]
    joint = joint_frames(plain, tensors) if len(plain) > 1 else None
    orders = [] if op.joined else [Order.IN_TURN]
    if joint is not None:
        sums = any(each is not None and each.summed == outermost != "" for each in frames)
        orders += [Order.APART] if sums and not op.joined else []
        orders += [Order.TOGETHER]
    subsets = list(_subsets(_worth_keeping(op, plain, outermost, tensors)))
    for kept, order in product(subsets, orders):
        together = order is Order.TOGETHER
        numbers = range(len(plain))
        options = []
        for group in [numbers] if together else [[number] for number in numbers]:
            grouped = joint if together and joint else [frames[number] for number in group]
            parts: list[tuple[str, _Part]] = []
            cuts = _cuts(grouped, fixed, outermost, streamed, tensors, sums=together and continues)
            for loops, cut in cuts:
                try:
                    nest = kind.sketch(op, tensors, Pieces(loops, cut, kept, order), group)
                except ModelError:
                    continue
                room = (nest.staging, nest.own - nest.staging, nest.workspace_bytes - nest.own)
                parts.append((loops, _Part(dict(zip(loops, cut, strict=True)), _cost(nest), room)))
            options.append(parts)
        for chosen in product(*options):
            loops = "".join(dict.fromkeys("".join(loops for loops, _ in chosen)))
            sizes = {dim: size for _, part in chosen for dim, size in part.choice.items()}
            rooms = zip(*(part.room for _, part in chosen), strict=True)
            cost = sum(part.cost for _, part in chosen)
            pieces = Pieces(loops, tuple(sizes[dim] for dim in loops), kept, order)
            yield PieceChoice(pieces, cost, sum(map(max, rooms)))


def _worth_keeping(
    op: Op, plain: Sequence[Op], outermost: str, tensors: Mapping[str, Tensor]
) -> tuple[int, ...]:
    """Positions of stored inputs that a loop loads again: of the outermost one, if there is one."""
    again = set()
    for each in plain:
        axes, loops = op_axes(each, tensors), cut_axes(each, tensors)
        if axes is not None:
            for name, letters in zip(each.inputs, axes.inputs, strict=True):
                dims = [axis.dim for axis in loops if axis.dim in (outermost or axis.dim)]
                if any(dim not in letters.lower() for dim in dims):
                    again.add(name)
    return tuple(k for k, name in enumerate(op.inputs) if name in again and tensors[name].tile)


def _subsets(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for count in range(len(positions) + 1):
        yield from combinations(positions, count)


def _cuts(
    frames: Sequence[Frame | None],
    fixed: Mapping[str, int],
    outermost: str,
    streamed: Collection[str],
    tensors: Mapping[str, Tensor],
    *,
    sums: bool,
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Loops that plain ops have in common, and the extents of pieces along them, as are possible.

    Nothing is loaded again in a loop over a dimension of all that is moved. So without a streamed
    weight, such loops are around the others, in pieces as small as tiles let them be, or there are
    none. With `sums`, there are loops over terms of sums, too.
    """
    seen = [frame for frame in frames if frame is not None]
    if len(seen) < len(frames):
        yield "", ()
        return
    letters = {name: text for frame in seen for name, text in frame.letters.items()}
    written = [(frame, name) for frame in seen for name in results_of(frame.op)]
    moved = [name for name in letters if tensors[name].tile or name in streamed]
    extents = {
        dim: extent
        for dim, extent in seen[0].extents.items()
        if all(dim in frame.extents for frame in seen)
    }
    summed = {frame.summed for frame in seen}
    options: list[list[tuple[str, int]]] = []
    around = outermost
    for dim, extent in extents.items():
        if dim in summed and dim not in fixed and not sums:
            continue
        unit = math.lcm(1, *(_unit(frame, dim, tensors[name]) for frame, name in written))
        sizes = [each for each in _divisors(extent) if each % unit == 0 or each == extent]
        if dim in fixed:
            sizes = [size for size in sizes if size == fixed[dim]]
        elif summed & fixed.keys() and any(dim in letters.get(each, "") for each in streamed):
            sizes = [extent]  # a slice of the weight has all of them
        elif dim == "n":  # one sample, or all
            sizes = [size for size in sizes if size in (1, extent)]
        elif not streamed and all(dim in letters[name] for name in moved):
            whole = math.lcm(
                unit,
                *(
                    _unit(frame, dim, tensors[name])
                    for frame in seen
                    for name in frame.letters
                    if name in moved
                ),
            )
            least = (unit, min((each for each in sizes if each % whole == 0), default=extent))
            sizes = [size for size in sizes if size in (*least, extent)]
            around += dim
        options.append([(dim, size) for size in sizes])
    for choice in product(*options):
        cut = {dim: size for dim, size in choice if size < extents[dim]}
        for order in permutations(dim for dim in cut if dim not in around):
            loops = (*(dim for dim in around if dim in cut), *order)
            yield "".join(loops), tuple(cut[dim] for dim in loops)


def _unit(frame: Frame, dim: str, tensor: Tensor) -> int:
    """Extent of a stored tensor's tiles along a dimension; 1 without such."""
    if not tensor.tile or dim not in frame.letters[tensor.name]:
        return 1
    _, rows, elements = tensor.image
    tile_channels, tile_rows = tensor.tile
    stride = math.prod(tensor.shape[frame.letters[tensor.name].index(dim) + 1 :])
    channels, rest = divmod(stride, rows * elements)
    extent, step = (tile_channels, channels) if channels else (tile_rows, rest // elements)
    return extent // math.gcd(extent, step)


def _largest(extent: int, limit: int) -> int:
    """Largest divisor of an extent within a limit; 1 at least."""
    return max((each for each in _divisors(extent) if each <= limit), default=1)


@cache
def _divisors(extent: int) -> tuple[int, ...]:
    return tuple(each for each in range(1, extent + 1) if extent % each == 0)
