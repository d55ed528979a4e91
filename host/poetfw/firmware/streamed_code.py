# SPDX-License-Identifier: Apache-2.0
"""Code of a streamed op: a loop that loads a slice of the weight and calls the op's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from poetfw.firmware.c_text import wrap_call
from poetfw.ir import Graph, Op
from poetfw.ops import Kernel, StreamedBackward, StreamedForward, kind_of
from poetfw.ops.streamed import (
    LoadedOp,
    backward_bytes,
    by_outputs,
    by_sample,
    loaded_bytes,
    loaded_layouts,
)

_INDENT = 4
_WIDTH = 88

Identifier = Callable[[str], str]
"""Macro of a tensor, by its name."""

Arguments = Callable[[Op, Kernel, Identifier], list[str]]
"""Arguments of a kernel's call in C, without its workspace."""


@dataclass(frozen=True)
class StreamedCode:
    """Code of one streamed op.

    Attributes:
        op: the op.
        graph: its graph.
        identifier: macro of a tensor in RAM or flash.
        stream: macro of a streamed tensor's index.
        workspace: macro of the workspace's address.
        arguments: arguments of a kernel's call, given an expression for each tensor.
    """

    op: Op
    graph: Graph
    identifier: Identifier
    stream: Identifier
    workspace: str
    arguments: Arguments

    def forward(self, kind: StreamedForward) -> str:
        """The statement of a forward op."""
        op, (slices, channels) = self.op, kind.slices(self.op, self.graph)
        loaded, buffer = kind.buffers(op, self.graph)
        x, w, *biases = (self.graph.by_name[name] for name in op.inputs)
        y = self.graph.by_name[op.output or ""]
        each = by_sample(slices, x)
        vectors = self._vectors()
        places = {
            x.name: self._part(x.name, each),
            w.name: _bytes_behind(self.workspace, loaded),
            y.name: self._part(y.name, each, slices, channels),
            **{
                bias.name: self._part(bias.name, False, slices, channels, vectors.get(bias.name))
                for bias in biases
            },
        }
        runs = kind.slice_ops(op, self.graph)
        load = "poet_stream_column" if by_outputs(op) else "poet_stream_row"
        body = [
            self._try(load, [self.stream(w.name), _index(slices), places[w.name]]),
            *_loop(
                "sample",
                x.shape[0] if each else 1,
                [self._call(runs.ops[0], runs, places, loaded + buffer)],
            ),
        ]
        return _text([*self._loads(vectors), *_loop("slice", slices, body)])

    def backward(self, kind: StreamedBackward) -> str:
        """The statement of a backward op."""
        op, tiling = self.op, kind.tiling(self.op, self.graph)
        tensors = self.graph.by_name
        sliced = tensors[kind.sliced(op)]
        each = by_sample(tiling.columns, sliced)
        columns_bytes, gathered_bytes = backward_bytes(tiling, len(op.updates), sliced)
        index = _index(tiling.columns)
        columns = {
            name: _bytes_behind(self.workspace, number * tiling.column_bytes)
            for number, name in enumerate(op.updates)
        }
        runs = kind.slice_ops(op, self.graph)
        slices = tiling.columns, tiling.tile_inputs
        part = self._part(sliced.name, False, *slices)
        gathered = _bytes_behind(self.workspace, columns_bytes) if each else part
        places = {
            **{name: self.identifier(name) for name in op.inputs[1:]},
            f"{op.inputs[2]}.sample": self._part(op.inputs[2], each),
            **columns,
            sliced.name: gathered,
        }
        if op.output is not None:
            places[op.output] = self._part(op.output, each, *slices)
        *back, apply = (
            self._call(run, runs, places, columns_bytes + gathered_bytes) for run in runs.ops
        )
        body = [
            self._try("poet_stream_column", [self.stream(name), index, columns[name]])
            for name in op.updates
        ]
        samples = sliced.shape[0]
        body += _loop("sample", samples if each else 1, back) if back else []
        if each:
            of_sample = sliced.size_bytes // samples
            sizes = (samples, of_sample, of_sample // tiling.columns)
            source = [gathered, part, *(f"{size}u" for size in sizes)]
            body.append([wrap_call("poet_stream_gather", source, 0, _WIDTH) + ";"])
        body.append(apply)
        body += [
            self._try("poet_stream_put", [self.stream(name), index, columns[name]])
            for name in reversed(op.updates)
        ]
        return _text(_loop("slice", tiling.columns, body))

    def loading(self, kind: LoadedOp) -> str:
        """The statement of an op that loads vectors as a whole."""
        op, runs, vectors = self.op, kind.slice_ops(self.op, self.graph), self._vectors()
        operands = (*op.inputs, *op.updates, *([op.output] if op.output is not None else []))
        places = {name: vectors.get(name) or self.identifier(name) for name in operands}
        call = self._call(runs.ops[0], runs, places, loaded_bytes(op, self.graph))
        updated = {name: place for name, place in vectors.items() if name in op.updates}
        return _text(
            [*self._loads(vectors), call, *self._loads(updated, function="poet_stream_put")]
        )

    def _vectors(self) -> dict[str, str]:
        """Address of each tensor that is loaded as a whole."""
        places, offset = {}, 0
        for name, layout in loaded_layouts(self.op, self.graph).items():
            places[name] = f"(float *){self.workspace} + {offset // 4}u"
            offset += layout.stored_bytes
        return places

    def _loads(
        self, vectors: Mapping[str, str], function: str = "poet_stream_column"
    ) -> list[list[str]]:
        return [
            self._try(function, [self.stream(name), "0u", place]) for name, place in vectors.items()
        ]

    def _part(
        self, name: str, each: bool, slices: int = 1, channels: int = 0, place: str | None = None
    ) -> str:
        """Address of the current sample of a tensor, and of the current slice's channels."""
        tensor = self.graph.by_name[name]
        terms = [place or self.identifier(name)]
        of_sample = tensor.elements // tensor.shape[0]
        if each:
            terms.append(f"sample * {of_sample}u")
        if slices > 1:
            axis = 0 if len(tensor.shape) == 1 else 1
            of_channel = tensor.elements
            for extent in tensor.shape[: axis + 1]:
                of_channel //= extent
            terms.append(f"slice * {channels * of_channel}u")
        return " + ".join(terms)

    def _call(
        self, run: Op, graph: Graph, places: Mapping[str, str], own_workspace: int
    ) -> list[str]:
        kernel = kind_of(run).kernel(run, graph)
        arguments = self.arguments(run, kernel, places.__getitem__)
        if kernel.workspace_bytes:
            arguments.append(_bytes_behind(self.workspace, own_workspace))
        if kernel.fallible:
            return self._try(kernel.function, arguments)
        return [wrap_call(kernel.function, arguments, 0, _WIDTH) + ";"]

    def _try(self, function: str, arguments: list[str]) -> list[str]:
        return [wrap_call(f"POET_TRY({function}", arguments, 0, _WIDTH) + ");"]


def streamed_statement(code: StreamedCode) -> str:
    """The statement of a streamed op."""
    kind = kind_of(code.op)
    if isinstance(kind, StreamedForward):
        return code.forward(kind)
    if isinstance(kind, LoadedOp):
        return code.loading(kind)
    assert isinstance(kind, StreamedBackward), code.op
    return code.backward(kind)


def _index(slices: int) -> str:
    return "slice" if slices > 1 else "0u"


def _bytes_behind(workspace: str, offset: int) -> str:
    """Address of floats in a workspace."""
    return f"(float *){workspace} + {offset // 4}u" if offset else workspace


def _loop(name: str, times: int, body: list[list[str]]) -> list[list[str]]:
    """Groups of lines in a loop; without one if it has a single pass."""
    if times == 1:
        return body
    inner = [" " * _INDENT + line for line in _lines(body)]
    return [[f"for (uint32_t {name} = 0u; {name} < {times}u; {name}++) {{", *inner, "}"]]


def _lines(groups: list[list[str]]) -> Iterator[str]:
    for group in groups:
        for entry in group:
            yield from entry.split("\n")


def _text(groups: list[list[str]]) -> str:
    return f"\n{' ' * _INDENT}".join(_lines(groups))
