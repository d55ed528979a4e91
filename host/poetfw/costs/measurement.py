# SPDX-License-Identifier: Apache-2.0
"""Measurements on a board: which case, under which conditions, and the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from poetfw.ir import Attribute, Dtype, Graph, Op

Shape = tuple[int, ...]

TRANSFERS = ("page_in", "page_out")
"""Kinds of cases that are transfers, each waited for."""
BESIDE = ("page_in_beside", "page_out_beside")
"""Extra time of a page-in or page-out that runs beside a kernel: the difference between two such
transfers in a row and one."""
TAKEN = ("page_in_taken", "page_out_taken")
"""Core time that a transfer takes from a kernel that runs longer than the transfer does."""
MOVES = (*TRANSFERS, *BESIDE, *TAKEN)
"""Kinds of cases that are transfers, not ops."""
NO_METER = "none"
"""The meter of rows whose energy is calculated."""


def direction_of(kind: str) -> str:
    """The direction, one of `TRANSFERS`, of a kind in `MOVES`."""
    return next(direction for direction in TRANSFERS if kind.startswith(direction))


@dataclass(frozen=True)
class Case:
    """A unit of measurement that costs the same wherever it occurs: an operator with its shapes.

    A case is one op of a training graph without its names, or one transfer of `size_bytes` between
    RAM and storage (kinds `MOVES`). An op whose cost depends on its operands' values has a case of
    its own.

    Attributes:
        kind: the op's kind, as `Op.kind` has it.
        inputs: shape and type of each input.
        updates: shape and type of each tensor that is updated in place.
        attributes: the op's attributes.
        size_bytes: of a transfer; 0 for an op.
        numbers: identity (16 hexadecimal digits) of the op and the network whose values it is run
            with; "" for any values.
    """

    kind: str
    inputs: tuple[tuple[Shape, Dtype], ...] = ()
    updates: tuple[tuple[Shape, Dtype], ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    size_bytes: int = 0
    numbers: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __hash__(self) -> int:
        return hash(self.key)  # a mapping has no hash

    def to_json(self) -> dict[str, Any]:
        """The case as plain JSON values; equal cases give equal values."""
        numbers = {"numbers": self.numbers} if self.numbers else {}
        return {
            "kind": self.kind,
            "inputs": [[list(shape), dtype.value] for shape, dtype in self.inputs],
            "updates": [[list(shape), dtype.value] for shape, dtype in self.updates],
            "attributes": {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in sorted(self.attributes.items())
            },
            "size_bytes": self.size_bytes,
            **numbers,
        }

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits that no other case has: a digest of its JSON."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def of_any_numbers(self) -> Case:
        """The same case with any operand values."""
        return replace(self, numbers="") if self.numbers else self


def case_of(op: Op, graph: Graph) -> Case:
    """The case of an op of a graph, with any operand values."""
    operands = [graph.by_name[name] for name in op.inputs]
    updates = [graph.by_name[name] for name in op.updates]
    return Case(
        kind=op.kind,
        inputs=tuple((tensor.shape, tensor.dtype) for tensor in operands),
        updates=tuple((tensor.shape, tensor.dtype) for tensor in updates),
        attributes=op.attributes,
    )


def own_case_of(op: Op, graph: Graph) -> Case:
    """The case of this very op, with its own operand values.

    The op is known by its name and its network: training with another optimizer, from other
    weights or on other data does not make it another one.
    """
    name = f"{graph.network}\0{op.name}".encode()
    return replace(case_of(op, graph), numbers=hashlib.sha256(name).hexdigest()[:16])


class Counter(StrEnum):
    """The unit of counted time; an emulator counts instructions, not cycles."""

    CYCLES = "cycles"
    INSTRUCTIONS = "instructions"
    NANOSECONDS = "ns"


@dataclass(frozen=True, slots=True)
class Setup:
    """The conditions of a measurement. Rows of different set-ups are never mixed.

    Attributes:
        board: the board's name, as its users type it.
        core: the processor core, and how many threads share an op where it is not one.
        clock_hz: the core's clock.
        machine: the emulator that stood in for the board; "" for the board itself.
        compiler: the compiler's name and version, with the flags that change code.
        meter: what measured energy; "none" for the board file's power times the measured time.
    """

    board: str
    core: str
    clock_hz: int
    machine: str
    compiler: str
    meter: str = NO_METER


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of measuring one case.

    Attributes:
        case: what ran.
        setup: under which conditions.
        kernel_version: digest of the C sources that it was compiled from; where that differs from
            today's, the row is stale.
        repetitions: how often it was timed.
        counter: what `ticks` counts.
        ticks: median of one run of the case.
        spread_ticks: median absolute deviation.
        time_s: `ticks` in seconds, at `setup.clock_hz` where ticks are cycles or instructions.
        energy_j: joules of one run.
        energy_spread_j: median absolute deviation; 0 where no meter measured.
        measured_at: when, in UTC, as ISO 8601 to the second.
    """

    case: Case
    setup: Setup
    kernel_version: str
    repetitions: int
    counter: Counter
    ticks: float
    spread_ticks: float
    time_s: float
    energy_j: float
    energy_spread_j: float
    measured_at: str
