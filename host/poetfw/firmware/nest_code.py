# SPDX-License-Identifier: Apache-2.0
"""Code of an op that runs piece by piece: loops that load, call kernels and store results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from poetfw.firmware.c_text import wrap_call
from poetfw.firmware.tensor_names import C_TYPES
from poetfw.ir import Dtype, Op
from poetfw.ops import Kernel, kind_of
from poetfw.ops.load import RECORD_BYTES
from poetfw.ops.nests import (
    BufferTurns,
    KernelCall,
    Lookup,
    Loop,
    Move,
    Nest,
    OperandPlace,
    Statement,
    StreamMove,
    gathered,
    image_part,
    stream_moves,
)

_INDENT = 4
_WIDTH = 88
_FLOAT = Dtype.F32.size_bytes
_RANGE = "range"

Identifier = Callable[[str], str]
"""Macro of a tensor, by its name."""

Arguments = Callable[[Op, Kernel, Identifier], list[str]]
"""Arguments of a kernel's call in C, without its workspace."""

_Indices = Mapping[str, str]
"""Expression of the index of each dimension, by its letter."""


@dataclass(frozen=True)
class NestCode:
    """Code of one op.

    Attributes:
        nest: what it does.
        identifier: macro of a tensor in RAM or flash.
        stream: macro of a streamed tensor's index.
        stored: macro of a stored tensor's index.
        workspace: macro of the workspace's address.
        arguments: arguments of a kernel's call, given an expression for each tensor.
        sample: address of the sample in the caller's memory; empty where a step loads its batch.
    """

    nest: Nest
    identifier: Identifier
    stream: Identifier
    stored: Identifier
    workspace: str
    arguments: Arguments
    sample: str = ""

    def statement(self) -> str:
        """The statement of the op."""
        lines = self._lines(self.nest.body, {})
        if any(move.stores and move.turns for move in stream_moves(self.nest)):
            lines.append("POET_TRY(poet_storage_wait());")
        return f"\n{' ' * _INDENT}".join(lines)

    def _lines(self, body: Sequence[Statement], at: _Indices) -> list[str]:
        lines: list[str] = []
        for each in body:
            if isinstance(each, Loop):
                lines += self._loop(each, at)
            elif isinstance(each, StreamMove):
                lines += self._stream_move(each, at)
            elif isinstance(each, Move):
                lines += self._move(each, at)
            elif isinstance(each, Lookup):
                lines += self._lookup(each, at)
            else:
                lines += self._call(each, at)
        return lines

    def _loop(self, loop: Loop, at: _Indices) -> list[str]:
        if loop.end - loop.first == 1:
            return self._lines(loop.body, {**at, loop.dim: f"{loop.first}u"})
        inner = self._lines(loop.body, {**at, loop.dim: loop.dim})
        dim, first, end = loop.dim, loop.first, loop.end
        head = f"for (uint32_t {dim} = {first}u; {dim} < {end}u; {dim}++) {{"
        return [head, *(" " * _INDENT + line for line in inner), "}"]

    def _stream_move(self, move: StreamMove, at: _Indices) -> list[str]:
        index = at[move.dim] if move.dim else "0u"
        buffer = self._at(move.buffer) + _turned(move.turns, at)
        arguments = [self.stream(move.tensor), index, buffer]
        if move.turns is None:
            function = "poet_stream_row" if move.is_row else "poet_stream_column"
            if move.stores:
                function = "poet_stream_put"
        elif move.stores:
            function = "poet_stream_put_begin"
        else:
            function = "poet_stream_ahead"
            arguments.append(self._at(move.buffer) + _turned(move.turns, at, other=True))
        return _call(f"POET_TRY({function}", arguments, ")")

    def _move(self, move: Move, at: _Indices) -> list[str]:
        buffer = self._at(move.buffer)
        if move.tensor.tile:
            return self._stored_move(move, at)
        runs = gathered(move.tensor, move.part)
        base = self.identifier(move.tensor.name) if move.home is None else self._at(move.home)
        home = _sum(base, runs.offsets, at)
        strides = [f"{runs.elements * _FLOAT}u", f"{runs.stride * _FLOAT}u"]
        ends = [buffer, strides[0], home, strides[1]]
        if move.stores:
            ends = [home, strides[1], buffer, strides[0]]
        return _call("poet_copy_runs", [*ends, f"{runs.count}u", strides[0]])

    def _stored_move(self, move: Move, at: _Indices) -> list[str]:
        """Transfer of a stored tensor's part: one call, or one for each range of channels."""
        part, buffer = image_part(move.tensor, move.part), self._at(move.buffer)
        channels = part.channels
        if part.ranges > 1:
            at = {**at, _RANGE: _RANGE}
            channels += ((_RANGE, part.apart),)
            size = part.channel_count * part.row_count * move.tensor.image[2]
            buffer = f"{buffer} + {_RANGE} * {size}u"
        arguments = [
            self.stored(move.tensor.base or move.tensor.name),
            _offset(channels, at),
            f"{part.channel_count}u",
            _offset(part.rows, at),
            f"{part.row_count}u",
            buffer,
            self._at(self.nest.staging),
        ]
        function = "poet_stored_put" if move.stores else "poet_stored_get"
        lines = _call(f"POET_TRY({function}", arguments, ")")
        if part.ranges == 1:
            return lines
        head = f"for (uint32_t {_RANGE} = 0u; {_RANGE} < {part.ranges}u; {_RANGE}++) {{"
        return [head, *(" " * _INDENT + line for line in lines), "}"]

    def _lookup(self, lookup: Lookup, at: _Indices) -> list[str]:
        arguments = [
            self.stored(lookup.table),
            self._place(lookup.ids, at, Dtype.I32),
            f"{lookup.count}u",
            self._place(lookup.output, at, Dtype.F32),
            self._at(self.nest.staging),
        ]
        return _call("POET_TRY(poet_stored_rows", arguments, ")")

    def _call(self, call: KernelCall, at: _Indices) -> list[str]:
        kernel = kind_of(call.op).kernel(call.op, self.nest.graph)
        tensors = self.nest.graph.by_name
        arguments = self.arguments(
            call.op,
            kernel,
            lambda name: self._place(call.places[name], at, tensors[name].dtype),
        )
        if RECORD_BYTES in call.op.attributes:
            places = [(dim, elements * _FLOAT) for dim, elements in call.within]
            buffer, first, size = arguments
            if self.sample:
                lines = _call(
                    "memcpy", [buffer, _sum(f"{self.sample} + {first}", places, at), size]
                )
                others = call.op.integers("shape")[0] - 1
                rest = [f"(uint8_t *)({buffer}) + {size}", "0", f"{others} * {size}"]
                return lines + (_call("memset", rest) if others else [])
            arguments[1] = _sum(first, places, at)
        if kernel.workspace_bytes:
            arguments.append(self._at(self.nest.own))
        if kernel.fallible:
            return _call(f"POET_TRY({kernel.function}", arguments, ")")
        return _call(kernel.function, arguments)

    def _place(self, place: OperandPlace, at: _Indices, dtype: Dtype) -> str:
        if place.buffer is None:
            return _sum(self.identifier(place.tensor), place.offsets, at)
        buffer = self._at(place.buffer, dtype) + _turned(place.turns, at)
        return _sum(buffer, place.offsets, at)

    def _at(self, offset: int, dtype: Dtype = Dtype.F32) -> str:
        """Address in the workspace, which is aligned for floats."""
        return f"({C_TYPES[dtype]} *){self.workspace} + {offset // _FLOAT}u"


def _turned(turns: BufferTurns | None, at: _Indices, *, other: bool = False) -> str:
    """Offset from the first of two buffers to that which has its turn, or to the other one."""
    if turns is None:
        return ""
    index, apart = at[turns.dim], turns.apart // _FLOAT
    if index.endswith("u"):
        return f" + {apart}u" * ((int(index[:-1]) + other) % 2)
    index = f"({index} + 1u)" if other else index
    return f" + {index} % 2u * {apart}u"


def _call(function: str, arguments: list[str], end: str = "") -> list[str]:
    return (wrap_call(function, arguments, 0, _WIDTH) + f"{end};").split("\n")


def _sum(base: str, offsets: Sequence[tuple[str, int]], at: _Indices) -> str:
    """An address, and what is added to it."""
    more = _offset(offsets, at)
    return (
        base if more == "0u" else f"{base} - {more[1:]}" if more[0] == "-" else f"{base} + {more}"
    )


def _offset(offsets: Sequence[tuple[str, int]], at: _Indices) -> str:
    """Sum of numbers, each times the index of a dimension; "" is the dimension of a constant."""
    constant, terms = 0, []
    for dim, scale in offsets:
        index = at[dim] if dim else "1u"
        if index.endswith("u"):
            constant += int(index[:-1]) * scale
        else:
            terms.append(index if scale == 1 else f"{index} * {scale}u")
    text = " + ".join(terms)
    if constant and text:
        return f"{text} {'-' if constant < 0 else '+'} {abs(constant)}u"
    return text or f"{constant}u"
