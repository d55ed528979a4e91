# SPDX-License-Identifier: Apache-2.0
"""Check of each op of a traced training step against float64, on the device's own inputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import numpy as np

from poetfw.firmware.trace import Key, TracedOp, TraceTable
from poetfw.ir import Graph, Op
from poetfw.ops import Array, kind_of
from poetfw.report import AlteredTensor, OpChecks, OpError
from poetfw.training import value_of

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class OpChecker:
    """Checks ops in execution order and collects findings.

    An op's result must lie within the error bound of its operator. Between ops, tensors must not
    change: an op reads exactly the bytes last written, even if they were paged out meanwhile.
    Together this shows that the whole step is right except for rounding.
    """

    def __init__(self, table: TraceTable, constants: Mapping[str, Array]) -> None:
        """Start with no op checked; `constants` are the values in flash, by tensor."""
        self._table = table
        self._constants = constants
        self._digests: dict[str, bytes] = {}
        self._checked = 0
        self._worst: tuple[float, OpError] | None = None
        self._first_beyond: OpError | None = None
        self._first_altered: AlteredTensor | None = None

    @property
    def findings(self) -> OpChecks:
        """Findings so far."""
        worst = None if self._worst is None else self._worst[1]
        return OpChecks(self._checked, worst, self._first_beyond, self._first_altered)

    def begin_step(self, state: Mapping[str, Array] | None) -> None:
        """Begin a training step; if `state` is given, persistent tensors must have these values."""
        self._digests = {name: _digest(value) for name, value in (state or {}).items()}

    def end_step(self, training_step: int, state: Mapping[str, Array]) -> None:
        """End a training step; persistent tensors must have the values of `state`."""
        for name, value in state.items():
            self._check_unaltered(None, training_step, self._table.statements + 1, name, value)

    def check(
        self,
        training_step: int,
        ops: Sequence[TracedOp],
        values: Mapping[Key, Array],
        batch: Mapping[str, Array],
    ) -> None:
        """Check ops of a training step.

        Args:
            training_step: number of the step, from 1.
            ops: ops in execution order.
            values: values recorded before each op's statement and after the last.
            batch: the batch that the step loads, by tensor name.
        """
        graph = self._table.graph
        for traced in ops:
            op, number = traced.op, traced.statement
            read = [
                *(name for name in graph.reads(op) if name not in self._constants),
                *op.updates,
            ]
            wrote = (*([op.output] if op.output is not None else []), *op.updates)
            before = {name: values[number, name] for name in read}
            after = {name: values[number + 1, name] for name in wrote}
            for name, value in before.items():
                self._check_unaltered(op, training_step, number, name, value)
            for name, value in after.items():
                self._digests[name] = _digest(value)
            self._checked += 1
            known = {**self._constants, **before}
            for name, expected, bound in _expected(graph, op, known, batch):
                ratio, error, allowed = largest_error(after[name], expected, bound)
                found = OpError(
                    op=op.name,
                    kind=op.kind,
                    training_step=training_step,
                    plan_step=number,
                    tensor=name,
                    error=error if math.isfinite(error) else None,
                    bound=allowed,
                )
                if ratio > (self._worst[0] if self._worst is not None else 0):
                    self._worst = ratio, found
                if ratio > 1 and self._first_beyond is None:
                    self._first_beyond = found

    def _check_unaltered(
        self, op: Op | None, training_step: int, number: int, name: str, value: Array
    ) -> None:
        digest = _digest(value)
        if self._digests.setdefault(name, digest) != digest and self._first_altered is None:
            reader = None if op is None else op.name
            self._first_altered = AlteredTensor(reader, training_step, number, name)


def _expected(
    graph: Graph, op: Op, before: Mapping[str, Array], batch: Mapping[str, Array]
) -> list[tuple[str, Array, Array]]:
    """Expected outputs of an op, each with its tensor's name and the error bound per element."""
    if op.output is not None and op.output in batch:
        shape = graph.by_name[op.output].shape
        return [(op.output, batch[op.output].reshape(shape), np.zeros(shape))]
    inputs = [_exact(value_of(graph.by_name[name], before)) for name in op.inputs]
    updates = [_exact(before[name]) for name in op.updates]
    names = (*([op.output] if op.output is not None else []), *op.updates)
    kind = kind_of(op)
    with np.errstate(all="ignore"):  # a diverged run has infinities
        results = kind.results(op, inputs, updates)
        bounds = kind.error_bounds(op, inputs, updates)
    return list(zip(names, results, bounds, strict=True))


def largest_error(actual: Array, expected: Array, bound: Array) -> tuple[float, float, float]:
    """Find the element with the largest error / bound; returns this ratio, its error and its bound.

    An infinite result is right if float64 allows an overflow, and NaN if float64 gives NaN.
    """
    with np.errstate(all="ignore"):
        error = np.abs(actual - expected)
        overflows = np.isinf(actual) & (np.abs(expected) + bound > _FLOAT32_MAX)
        right = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        right |= overflows & (np.sign(actual) == np.sign(expected))
        error = np.where(right, 0.0, np.where(np.isnan(error), np.inf, error))
        allowed = np.where(np.isfinite(bound), bound, 0.0)
        ratio = np.where(error > 0, error / allowed, 0.0)
    worst = int(ratio.argmax())
    return float(ratio.flat[worst]), float(error.flat[worst]), float(allowed.flat[worst])


def _exact(value: Array) -> Array:
    return value.astype(np.float64) if value.dtype == np.float32 else value


def _digest(value: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(value).data, digest_size=16).digest()
