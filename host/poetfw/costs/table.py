# SPDX-License-Identifier: Apache-2.0
"""Costs of every op of a graph on a board."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from poetfw.boards import Board
from poetfw.common.errors import ProblemError
from poetfw.common.transfer import OverlapCosts, Transfer
from poetfw.ir import Graph

SCHEMA_VERSION = 3


class Source(StrEnum):
    """Origin of a cost, the best first."""

    MEASURED = "measured"
    FITTED = "fitted"
    ANALYTIC = "analytic"
    BOARD_FILE = "board file"
    """Analytic cost of loading a batch, used if an emulator measured the other ops."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """Costs of one execution of an op.

    Attributes:
        time_s: seconds.
        energy_j: joules.
        source: where the figures come from.
    """

    time_s: float
    energy_j: float
    source: Source = Source.ANALYTIC


def sum_of(costs: Sequence[OpCost]) -> OpCost:
    """Sum of costs, with the weakest of their sources; without any, only transfers cost."""
    sources = [cost.source for cost in costs] or [Source.ANALYTIC]
    return OpCost(
        sum(cost.time_s for cost in costs),
        sum(cost.energy_j for cost in costs),
        max(sources, key=[*Source].index),
    )


@dataclass(frozen=True, slots=True)
class CostTable:
    """Costs of all ops of a graph on a board.

    Attributes:
        board: name of the board.
        ops: costs by op name.
        page_in: costs of transfers from storage; None for those in the board's file.
        page_out: costs of transfers to storage, likewise.
        basis: description of the measurements' conditions; empty without measurements.
    """

    board: str
    ops: Mapping[str, OpCost]
    page_in: Transfer | None = None
    page_out: Transfer | None = None
    basis: str = ""

    def __post_init__(self) -> None:
        for name, cost in self.ops.items():
            for value in (cost.time_s, cost.energy_j):
                if not (math.isfinite(value) and value >= 0):
                    raise ProblemError(
                        f"the cost of op {name!r} must be finite and 0 or more, not {value}"
                    )
        object.__setattr__(self, "ops", MappingProxyType(dict(self.ops)))

    @property
    def sources(self) -> dict[str, int]:
        """Number of ops by the source of their costs; shown wherever a cost is shown."""
        counted = Counter(cost.source for cost in self.ops.values())
        return {source.value: counted[source] for source in Source}

    @property
    def summary(self) -> str:
        """Description of the costs' sources."""
        sources = self.sources
        if sources[Source.ANALYTIC] == len(self.ops) and not (self.page_in or self.page_out):
            return Source.ANALYTIC.value
        ops = ", ".join(
            f"{count} {'by the ' if source == Source.BOARD_FILE else ''}{source}"
            for source, count in sources.items()
            if count
        )
        paging = "paging measured" if self.page_in or self.page_out else "paging by the board file"
        loads = sources[Source.BOARD_FILE]
        if sources[Source.MEASURED] + loads == len(self.ops):
            ops = "every op is measured" + (
                f", but for loads: {loads} by the board file" if loads else ""
            )
        return f"{ops}; {paging} ({self.basis})"

    def to_json(self) -> dict[str, Any]:
        """Table as plain JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "board": self.board,
            "basis": self.basis,
            "sources": self.sources,
            "page_in": _transfer_to_json(self.page_in),
            "page_out": _transfer_to_json(self.page_out),
            "ops": {name: asdict(cost) for name, cost in self.ops.items()},
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> CostTable:
        """Read a table from the values of `to_json`.

        Raises:
            ProblemError: The document is not such a table.
        """
        try:
            if document["schema_version"] != SCHEMA_VERSION:
                raise ProblemError(
                    f"cost table has schema version {document['schema_version']!r}; "
                    f"this poetfw reads version {SCHEMA_VERSION}"
                )
            return CostTable(
                board=str(document["board"]),
                ops={
                    str(name): OpCost(
                        float(cost["time_s"]), float(cost["energy_j"]), Source(cost["source"])
                    )
                    for name, cost in document["ops"].items()
                },
                page_in=_transfer(document["page_in"]),
                page_out=_transfer(document["page_out"]),
                basis=str(document["basis"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProblemError(f"the cost table's JSON is malformed: {error!r}") from error


def _transfer_to_json(transfer: Transfer | None) -> dict[str, Any] | None:
    """A bandwidth is None where bytes take no time: JSON has no infinity."""
    if transfer is None:
        return None
    document: dict[str, Any] = asdict(transfer)
    for rates in filter(None, (document, document["beside"])):
        if math.isinf(rates["bandwidth_bytes_per_s"]):
            rates["bandwidth_bytes_per_s"] = None
    return document


def _transfer(document: Mapping[str, Any] | None) -> Transfer | None:
    if document is None:
        return None
    beside = document["beside"]
    figures = _figures({name: value for name, value in document.items() if name != "beside"})
    return Transfer(**figures, beside=None if beside is None else OverlapCosts(**_figures(beside)))


def _figures(document: Mapping[str, Any]) -> dict[str, float]:
    if document["bandwidth_bytes_per_s"] is None:
        document = {**document, "bandwidth_bytes_per_s": math.inf}
    figures = {str(name): float(value) for name, value in document.items()}
    if not all(value >= 0 for value in figures.values()):
        raise ValueError("a transfer has a negative cost")
    return figures


CostProvider = Callable[[Graph, Board], CostTable]
"""Provider of the costs of a graph's ops on a board."""
