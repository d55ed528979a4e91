# SPDX-License-Identifier: Apache-2.0
"""Joined ops: several ops that run together on each piece, as one node.

A tensor between them exists as a piece only: it is neither stored nor loaded, and takes no RAM
beyond the workspace. An operand that several of them read is loaded once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from poetfw.common.errors import ModelError
from poetfw.ir import Dtype, Op, Role, Tensor
from poetfw.ops.base import (
    KINDS,
    Array,
    Bounds,
    OpWork,
    Shape,
    infer_output,
    kind_of,
)
from poetfw.ops.nests import Loads, Order, Pieces, results_of
from poetfw.ops.streamed import StreamedKind


class JoinedKind(StreamedKind):
    """Ops that run together, those of `Op.joined` in order.

    Inputs are those tensors that they read and none of them computes, the output is the one that
    others read, and updates are all that they update.
    """

    name = "joined"

    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on tensors in RAM, in order."""
        found: list[Op] = []
        for part in op.joined:
            kind = kind_of(part)
            found += kind.plain(part) if isinstance(kind, StreamedKind) else (part,)
        return tuple(found)

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """Those of all of its ops, of which one at most loads a weight slice by slice."""
        whole = {**tensors, **self.inner(op, tensors)}
        kinds = ((part, kind_of(part)) for part in op.joined)
        found = [kind.loads(part, whole) for part, kind in kinds if isinstance(kind, StreamedKind)]
        weights = [loads.weight for loads in found if loads.weight is not None]
        if len(weights) > 1:
            raise ModelError(f"op {op.name!r} loads two weights slice by slice")
        vectors = {name: layout for loads in found for name, layout in loads.vectors.items()}
        tables = {name: layout for loads in found for name, layout in loads.tables.items()}
        return Loads(vectors, weights[0] if weights else None, tables)

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """One."""
        return Pieces("", (), order=Order.TOGETHER)

    def inner(self, op: Op, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors between its ops."""
        known = dict(tensors)
        for part in op.joined:
            output = infer_output(part, [known[name] for name in part.inputs], Role.ACTIVATION)
            if output is not None:
                known.setdefault(output.name, output)
        return {name: tensor for name, tensor in known.items() if name not in tensors}

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        known = dict(zip(op.inputs, inputs, strict=True))
        found = None
        for part in op.joined:
            output = infer_output(part, [known[name] for name in part.inputs], Role.ACTIVATION)
            if output is not None:
                known[output.name] = output
                found = (output.shape, output.dtype) if output.name == op.output else found
        return found

    def never_negative(self, op: Op) -> tuple[str, ...]:
        found = (name for part in op.joined for name in kind_of(part).never_negative(part))
        return tuple(dict.fromkeys(name for name in found if name in op.inputs))

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        known = _values(op, inputs, updates)
        for part in op.joined:
            output = _computed(part, known)
            if output is not None:
                known[part.output or ""] = output
        return None if op.output is None else known[op.output]

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # Of each op, that of its kernel for the inputs that the device may have, and what its
        # results change by if these are off.
        known = _values(op, inputs, [value.copy() for value in updates])
        errors: dict[str, Array] = {}
        for part in op.joined:
            kind, off = kind_of(part), [errors.get(name) for name in part.inputs]
            values = [known[name] for name in part.inputs]
            states = [known[name] for name in part.updates]
            if all(each is None for each in off):
                bounds = kind.error_bounds(part, values, states)
            else:
                given = [
                    np.zeros_like(value) if error is None else error
                    for value, error in zip(values, off, strict=True)
                ]
                larger = [v + np.copysign(e, v) for v, e in zip(values, given, strict=True)]
                bounds = tuple(
                    own + change
                    for own, change in zip(
                        kind.error_bounds(part, larger, states),
                        kind.carried(part, values, given, states),
                        strict=True,
                    )
                )
            errors |= dict(zip(results_of(part), bounds, strict=True))
            output = _computed(part, known)
            if output is not None:
                known[part.output or ""] = output
        return tuple(errors[name] for name in results_of(op))

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        known = dict(zip(op.inputs, inputs, strict=True))
        known |= self.inner(op, known)
        works = [
            kind_of(part).work(
                part,
                [known[name] for name in part.inputs],
                None if part.output is None else known[part.output],
            )
            for part in op.joined
        ]
        return OpWork(sum(each.macs for each in works), sum(each.bytes_moved for each in works))


class JoinedUpdate(JoinedKind):
    """The same, where one of the ops updates persistent tensors."""

    name = "joined_update"
    recomputable = False
    applies = True


def _values(op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> dict[str, Array]:
    """Values of an op's operands by name; what it reads and updates is one array."""
    return dict(zip((*op.inputs, *op.updates), (*inputs, *updates), strict=True))


def _computed(part: Op, known: Mapping[str, Array]) -> Array | None:
    updates = [known[name] for name in part.updates]
    return kind_of(part).compute(part, [known[name] for name in part.inputs], updates)


def join(ops: Sequence[Op], read_later: Collection[str]) -> Op | None:
    """The op that runs some ops together; None if it would have two outputs.

    Args:
        ops: the ops in an executable order, some of which may be joined ones.
        read_later: names of the tensors that other ops read.
    """
    parts = [part for op in ops for part in op.parts]
    written = [part.output for part in parts if part.output is not None]
    outputs = [name for name in written if name in read_later]
    if len(outputs) > 1:
        return None
    output = outputs[0] if outputs else None
    updates = tuple(dict.fromkeys(name for part in parts for name in part.updates))
    inputs = dict.fromkeys(name for part in parts for name in part.inputs if name not in written)
    kind = JoinedUpdate if updates else JoinedKind
    last = next((part for part in parts if part.output == output), parts[-1])
    joined = Op(last.name, kind.name, tuple(inputs), output, {}, updates, last.backward)
    return replace(joined, joined=tuple(parts))


def register_joined() -> None:
    """Register the operators of joined ops."""
    KINDS.update((kind.name, kind()) for kind in (JoinedKind, JoinedUpdate))
