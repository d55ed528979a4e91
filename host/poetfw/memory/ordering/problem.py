# SPDX-License-Identifier: Apache-2.0
"""Op ordering problem: ops, the tensors between them, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from poetfw.common.errors import PlanError, ProblemError


@dataclass(frozen=True, slots=True)
class OrderOp:
    """Op of an ordering problem.

    Attributes:
        name: unique in its problem.
        inputs: names of the tensors it reads.
        outputs: names of the tensors it produces.
        workspace_bytes: bytes of its workspace while it runs.
        after: names of ops that must run earlier (control edges), besides producers of its inputs.
        in_place: input that its first output, of the same size, may overwrite if no other op reads
            the input later; None for no such input.
    """

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    workspace_bytes: int = 0
    after: tuple[str, ...] = ()
    in_place: str | None = None


@dataclass(frozen=True)
class OrderingProblem:
    """Ops in a legal order, which an answer may change.

    While an op runs, its inputs, outputs and workspace are live, except for an output that
    overwrites an input. A tensor is live from its producer to its last reader; without readers,
    only while its producer runs.

    Attributes:
        ops: in topological order, including control edges.
        sizes: bytes of each tensor, by name.
        resident_bytes: bytes live throughout (parameters, the caller's tensors).

    Raises:
        ProblemError: A name is used twice or unknown, an op comes too early, a size is negative,
            or the in-place input of an op does not fit.
    """

    ops: tuple[OrderOp, ...]
    sizes: Mapping[str, int]
    resident_bytes: int = 0

    def __post_init__(self) -> None:
        produced: set[str] = set()
        seen: set[str] = set()
        for op in self.ops:
            if op.name in seen:
                raise ProblemError(f"op {op.name!r} appears twice: names must be unique")
            for name in op.inputs:
                if name not in produced:
                    raise ProblemError(f"op {op.name!r} reads {name!r} before it is produced")
            for name in op.after:
                if name not in seen:
                    raise ProblemError(f"op {op.name!r} must follow {name!r}, which is not earlier")
            for name in op.outputs:
                if name in produced:
                    raise ProblemError(f"tensor {name!r} is produced twice")
                if self.sizes.get(name, -1) < 0:
                    raise ProblemError(f"tensor {name!r} has no size of 0 or more bytes")
                produced.add(name)
            if op.workspace_bytes < 0:
                raise ProblemError(f"op {op.name!r} has a workspace of less than 0 bytes")
            if op.in_place is not None:
                self._check_in_place(op, op.in_place)
            seen.add(op.name)

    def _check_in_place(self, op: OrderOp, taken: str) -> None:
        if taken not in op.inputs:
            raise ProblemError(f"op {op.name!r} may overwrite {taken!r}, which it does not read")
        if not op.outputs or self.sizes[op.outputs[0]] != self.sizes[taken]:
            raise ProblemError(
                f"op {op.name!r} may overwrite {taken!r}, but its first output is missing or of "
                "another size"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the ops, in the problem's order."""
        return tuple(op.name for op in self.ops)


class OrderingStatus(StrEnum):
    """Proof status of an order."""

    OPTIMAL = "optimal"
    """The peak equals the lower bound."""
    FEASIBLE = "feasible"
    """The order is legal; a better one may exist."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """Order of the ops.

    Attributes:
        order: names of the ops.
        peak_bytes: most live bytes while any op runs.
        lower_bound_bytes: lower bound on the peak of every order.
        status: proof status.
    """

    order: tuple[str, ...]
    peak_bytes: int
    lower_bound_bytes: int
    status: OrderingStatus

    @property
    def gap(self) -> float:
        """(peak - bound) / peak, 0 for an empty problem."""
        missing = self.peak_bytes - self.lower_bound_bytes
        return missing / self.peak_bytes if self.peak_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Lifetime of a buffer under an order: [lower, upper) in positions of ops.

    Attributes:
        tensor: the first tensor in the buffer; later ones may overwrite it in place.
        lower: position of the producer of `tensor`.
        upper: position after the last reader of the last tensor in the buffer.
    """

    tensor: str
    lower: int
    upper: int


def lifetimes(problem: OrderingProblem, order: Sequence[str] | None = None) -> tuple[Lifetime, ...]:
    """Lifetimes of all buffers under an order (the problem's own if None).

    Every tensor has its own buffer, except outputs that overwrite an input. Independent of the
    searches, whose answers it checks.

    Raises:
        PlanError: The order is illegal, or not a permutation of the problem's ops.
    """
    ops = {op.name: op for op in problem.ops}
    sequence = problem.names if order is None else tuple(order)
    if len(sequence) != len(ops) or set(sequence) != set(ops):
        raise PlanError("an order must name each op of the problem exactly once")
    position = {name: at for at, name in enumerate(sequence)}
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for at, name in enumerate(sequence):
        op = ops[name]
        for tensor in op.inputs:
            if tensor not in begins:
                raise PlanError(f"op {name!r} reads {tensor!r} before it is produced")
            ends[tensor] = at + 1
        for other in op.after:
            if position[other] > at:
                raise PlanError(f"op {name!r} must follow {other!r}")
        for tensor in op.outputs:
            begins[tensor] = at
            ends[tensor] = at + 1
    for at, name in reversed(tuple(enumerate(sequence))):
        op = ops[name]
        if op.in_place is not None and ends[op.in_place] == at + 1:
            del begins[op.outputs[0]]
            ends[op.in_place] = ends[op.outputs[0]]
    return tuple(Lifetime(tensor, lower, ends[tensor]) for tensor, lower in begins.items())


def peak_bytes(problem: OrderingProblem, order: Sequence[str] | None = None) -> int:
    """Most live bytes while any op runs, including `resident_bytes`.

    Raises:
        PlanError: The order is not legal.
    """
    changes = [0] * (len(problem.ops) + 1)
    for life in lifetimes(problem, order):
        changes[life.lower] += problem.sizes[life.tensor]
        changes[life.upper] -= problem.sizes[life.tensor]
    workspace = {op.name: op.workspace_bytes for op in problem.ops}
    live = peak = 0
    for name, change in zip(problem.names if order is None else order, changes, strict=False):
        live += change
        peak = max(peak, live + workspace[name])
    return problem.resident_bytes + peak


def without_duplicates(names: Iterable[str]) -> tuple[str, ...]:
    """Unique names in order of first appearance."""
    return tuple(dict.fromkeys(names))
