# SPDX-License-Identifier: Apache-2.0
"""Code of a streamed op: a loop that loads a slice of the weight and calls the op's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from poetfw.firmware.c_text import wrap_call
from poetfw.ir import Graph, Op, Tensor
from poetfw.ops import Kernel, StreamedBackward, StreamedForward, TileLayout, kind_of
from poetfw.ops.streamed import LoadedOp, backward_bytes, by_sample, forward_bytes

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
        op, tiling = self.op, kind.tiling(self.op, self.graph)
        x, w, *biases = (self.graph.by_name[name] for name in op.inputs)
        y = self.graph.by_name[op.output or ""]
        each = by_sample(tiling.rows, x)
        places = {
            x.name: self._part(x, each),
            w.name: self.workspace,
            y.name: self._part(y, each, tiling.rows, tiling.tile_outputs),
            **{b.name: self._part(b, False, tiling.rows, tiling.tile_outputs) for b in biases},
        }
        (run,) = kind.slice_ops(op, self.graph).ops
        call = self._call(run, kind.slice_ops(op, self.graph), places, forward_bytes(tiling))
        body = [
            self._try(
                "poet_stream_row", [self.stream(w.name), _index(tiling.rows), places[w.name]]
            ),
            *_loop("sample", x.shape[0] if each else 1, [call]),
        ]
        return _text(_loop("slice", tiling.rows, body))

    def backward(self, kind: StreamedBackward) -> str:
        """The statement of a backward op."""
        op, tiling = self.op, kind.tiling(self.op, self.graph)
        tensors = self.graph.by_name
        _, x, dy, *pace = (tensors[name] for name in op.inputs)
        each = by_sample(tiling.columns, x)
        columns_bytes, gathered_bytes = backward_bytes(tiling, len(op.updates), x)
        index = _index(tiling.columns)
        columns = {
            name: _bytes_behind(self.workspace, number * tiling.column_bytes)
            for number, name in enumerate(op.updates)
        }
        runs = kind.slice_ops(op, self.graph)
        part = self._part(x, False, tiling.columns, tiling.tile_inputs)
        gathered = _bytes_behind(self.workspace, columns_bytes) if each else part
        places = {
            **{tensor.name: self.identifier(tensor.name) for tensor in (dy, *pace)},
            f"{dy.name}.sample": self._part(dy, each),
            **columns,
            x.name: gathered,
        }
        if op.output is not None:
            output = tensors[op.output]
            places[op.output] = self._part(output, each, tiling.columns, tiling.tile_inputs)
        *back, apply = (
            self._call(run, runs, places, columns_bytes + gathered_bytes) for run in runs.ops
        )
        body = [
            self._try("poet_stream_column", [self.stream(name), index, columns[name]])
            for name in op.updates
        ]
        body += _loop("sample", x.shape[0] if each else 1, back) if back else []
        if each:
            sizes = (x.shape[0], x.size_bytes // x.shape[0], gathered_bytes_of(x, tiling))
            source = [gathered, part, *(f"{size}u" for size in sizes)]
            body.append([wrap_call("poet_stream_gather", source, 0, _WIDTH) + ";"])
        body.append(apply)
        body += [
            self._try("poet_stream_put", [self.stream(name), index, columns[name]])
            for name in reversed(op.updates)
        ]
        return _text(_loop("slice", tiling.columns, body))

    def loading(self, kind: LoadedOp) -> str:
        """The statement of an op that loads a tensor as a whole."""
        op, runs = self.op, kind.slice_ops(self.op, self.graph)
        (loaded,) = kind.streamed(op)
        operands = (*op.inputs, *op.updates, *([op.output] if op.output is not None else []))
        places = {
            name: self.workspace if name == loaded else self.identifier(name) for name in operands
        }
        (run,) = runs.ops
        behind = kind.tiling(op, self.graph).stored_bytes
        whole = [self.stream(loaded), "0u", self.workspace]
        body = [self._try("poet_stream_column", whole), self._call(run, runs, places, behind)]
        if loaded in op.updates:
            body.append(self._try("poet_stream_put", whole))
        return _text(body)

    def _part(self, tensor: Tensor, each: bool, slices: int = 1, channels: int = 0) -> str:
        """Address of the current sample of a tensor, and of the current slice's channels."""
        terms = [self.identifier(tensor.name)]
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


def gathered_bytes_of(x: Tensor, tiling: TileLayout) -> int:
    """Bytes of a slice of one sample."""
    return x.size_bytes // x.shape[0] // tiling.columns


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
