# SPDX-License-Identifier: Apache-2.0
"""What every op of a graph costs on a board."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from poetfw.boards import Board
from poetfw.errors import ProblemError
from poetfw.ir import Graph

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class OpCost:
    """What running one op once takes.

    Attributes:
        time_s: seconds.
        energy_j: joules.
    """

    time_s: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class CostTable:
    """The cost of every op, by the op's name.

    Attributes:
        board: the board's name.
        analytic: whether the costs were calculated; False where they were measured. Whoever shows
            a figure that comes from this table says which.
        ops: the costs.
    """

    board: str
    analytic: bool
    ops: Mapping[str, OpCost]

    def __post_init__(self) -> None:
        for name, cost in self.ops.items():
            for value in (cost.time_s, cost.energy_j):
                if not (math.isfinite(value) and value >= 0):
                    raise ProblemError(
                        f"the cost of op {name!r} must be finite and 0 or more, not {value}"
                    )
        object.__setattr__(self, "ops", MappingProxyType(dict(self.ops)))

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "board": self.board,
            "analytic": self.analytic,
            "ops": {
                name: {"time_s": cost.time_s, "energy_j": cost.energy_j}
                for name, cost in self.ops.items()
            },
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> CostTable:
        """The table that `to_json` wrote.

        Raises:
            ProblemError: the document is not such a table.
        """
        try:
            if document["schema_version"] != SCHEMA_VERSION:
                raise ProblemError(
                    f"cost table has schema version {document['schema_version']!r}; "
                    f"this poetfw reads version {SCHEMA_VERSION}"
                )
            return CostTable(
                board=str(document["board"]),
                analytic=bool(document["analytic"]),
                ops={
                    str(name): OpCost(float(cost["time_s"]), float(cost["energy_j"]))
                    for name, cost in document["ops"].items()
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProblemError(f"the cost table's JSON is malformed: {error!r}") from error


CostProvider = Callable[[Graph, Board], CostTable]
"""Whatever says what every op of a graph costs on a board."""
