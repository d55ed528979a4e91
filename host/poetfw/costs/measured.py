# SPDX-License-Identifier: Apache-2.0
"""Costs for plans: measured, otherwise fitted, otherwise analytic.

Rows of a single set-up are used, apart from the meter: those of the board itself before an
emulator's, then the latest. Transfers and loads are never an emulator's, whose storage is not the
board's. A row with a metered energy replaces one without, unless the meter measured an emulator's
computer. Without a metered row, energy is the measured time at the analytic model's power. Where
the time of an op depends on its operands' values, a row with the op's own values counts first, then
the mean of the rows with any values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from poetfw.boards import Arithmetic, Board, BoardStorage
from poetfw.common.errors import CostsError
from poetfw.common.transfer import Transfer, page_bytes
from poetfw.costs.alone import reads_storage
from poetfw.costs.analytic import analytic_costs
from poetfw.costs.database import Database
from poetfw.costs.features import case_tiles
from poetfw.costs.fitted import FittedModel, fit_beside, fit_transfer
from poetfw.costs.measurement import NO_METER, TAKEN, Case, Measurement, Setup, case_of, own_case_of
from poetfw.costs.table import CostTable, OpCost, Source, sum_of
from poetfw.ir import Graph, Op
from poetfw.ops import kind_of
from poetfw.ops.tile_tables import TileChoice, no_tiles

Versions = Callable[[Case, Arithmetic, bool, TileChoice], str]
"""Function that returns the current version of a case's kernel, by rounding of sums of products and
by whether floating-point arithmetic is done by functions."""


@dataclass(frozen=True)
class MeasuredCosts:
    """A `CostProvider`. The database is read once per board: every table is of the same rows.

    Attributes:
        database: database of the measurements.
        version_of: current versions of kernels, by which rows are stale.
        required: True if a board without measurements is an error, and not analytic.
    """

    database: Database
    version_of: Versions
    required: bool = False
    _boards: dict[str, Measured] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, graph: Graph, board: Board) -> CostTable:
        """Costs of all ops of a graph on a board.

        Raises:
            CostsError: The database cannot be read, or lacks required measurements of the board.
        """
        if board.label not in self._boards:
            rows = self.database.of_board(board.label)
            self._boards[board.label] = usable(rows, board, self.version_of)
        measured = self._boards[board.label]
        if not measured.rows:
            if self.required:
                raise CostsError(
                    f"{self.database.path} has no measurement of {board.label} with today's "
                    "kernels",
                    "measure with `poetfw profile`",
                    "or take --costs analytic",
                )
            return analytic_costs(graph, board)
        return measured.table(graph, board)


def usable(rows: Sequence[Measurement], board: Board, version_of: Versions) -> Measured:
    """Select the rows of a board for plans: one per case, without stale ones.

    Args:
        rows: measurements of the board, oldest first.
        board: the board; rows of another clock or core are left out.
        version_of: current versions of kernels, by which rows are stale.
    """
    soft_float = board.firmware is not None and board.firmware.toolchain.soft_float
    tiles = case_tiles(board)
    groups: dict[Setup, list[Measurement]] = {}
    stale: list[Case] = []
    for row in rows:
        if (row.setup.core, row.setup.clock_hz) != (board.processor, board.clock_hz):
            continue
        if row.kernel_version != version_of(row.case, board.compute.arithmetic, soft_float, tiles):
            stale.append(row.case.of_any_numbers)
            continue
        groups.setdefault(replace(row.setup, meter=NO_METER), []).append(row)
    if not groups:
        return Measured(None, {}, len(stale), frozenset(stale))
    setup = max(
        groups,
        key=lambda one: (not one.machine, groups[one][-1].measured_at, one.machine, one.compiler),
    )
    chosen: dict[Case, Measurement] = {}
    for row in groups[setup]:
        before = chosen.get(row.case)
        if before is None or _metered(row) or not _metered(before):
            chosen[row.case] = row
    return Measured(
        setup,
        chosen,
        len(stale),
        frozenset(stale).difference(case.of_any_numbers for case in chosen),
        tiles,
    )


def is_of_board(row: Measurement) -> bool:
    """True if a measurement is valid for the board, unlike those of an emulator's storage."""
    return not (row.setup.machine and reads_storage(row.case))


def _mean(case: Case, rows: Sequence[Measurement]) -> Measurement:
    """Mean of measurements; of the metered ones only, if there are any."""
    counted = [*filter(_metered, rows)] or rows
    ticks, spread_ticks, time_s, energy_j = (
        fmean(getattr(row, name) for row in counted)
        for name in ("ticks", "spread_ticks", "time_s", "energy_j")
    )
    return replace(
        counted[0],
        case=case,
        ticks=ticks,
        spread_ticks=spread_ticks,
        time_s=time_s,
        energy_j=energy_j,
    )


def _metered(row: Measurement) -> bool:
    """True if a meter measured the board itself, not the computer of an emulator."""
    return row.setup.meter != NO_METER and not row.setup.machine


@dataclass(frozen=True)
class Measured:
    """All measurements of a board.

    Attributes:
        setup: set-up of the measurements, apart from the meter; None without any.
        rows: measurement of each case.
        stale: number of rows that are left out as their kernels have changed.
        stale_cases: cases, with any numbers, that only stale rows have.
        tiles: those that the cases of convolutions run there.
    """

    setup: Setup | None
    rows: Mapping[Case, Measurement]
    stale: int
    stale_cases: frozenset[Case] = frozenset()
    tiles: TileChoice = no_tiles

    @property
    def basis(self) -> str:
        """Description of the measurements' conditions."""
        if self.setup is None:
            return ""
        counters = sorted({row.counter.value for row in self.rows.values()})
        where = f"{self.setup.machine or 'the board'}, counted in {' and '.join(counters)}"
        meters = sorted({row.setup.meter for row in self.rows.values() if _metered(row)})
        by = f", energy by {', '.join(meters)}" if meters else ""
        return f"{where}{by}"

    @cached_property
    def of_any_numbers(self) -> Mapping[Case, Measurement]:
        """Mean over the rows of each case that differ only in their numbers."""
        alike: dict[Case, list[Measurement]] = {}
        for row in self.rows.values():
            alike.setdefault(row.case.of_any_numbers, []).append(row)
        return {case: _mean(case, rows) for case, rows in alike.items()}

    def row_of(self, case: Case) -> Measurement | None:
        """Measurement of a case, otherwise of the case with any numbers; None without one."""
        return self.rows.get(case) or self.of_any_numbers.get(case.of_any_numbers)

    @cached_property
    def time(self) -> FittedModel:
        """Fitted model of time."""
        return FittedModel([*self.of_any_numbers.values()], lambda row: row.time_s, self.tiles)

    @cached_property
    def energy(self) -> FittedModel:
        """Model of energy, fitted to metered rows."""
        rows = filter(_metered, self.of_any_numbers.values())
        return FittedModel([*rows], lambda row: row.energy_j, self.tiles)

    def table(self, graph: Graph, board: Board) -> CostTable:
        """Costs of all ops of a graph on a board."""
        page_in = page_out = None
        if board.storage is not None:
            page_in = self.transfer("page_in", board.storage)
            page_out = self.transfer("page_out", board.storage)
            # A load that was not measured reads the storage as a page-in does.
            reads = page_in or board.storage.page_in
            board = replace(board, storage=replace(board.storage, page_in=reads))
        analytic = analytic_costs(graph, board)
        cases = {op.name: own_case_of(op, graph) for op in graph.ops}
        costs = {
            op.name: self._cost(op, graph, cases[op.name], analytic.ops[op.name], board)
            for op in graph.ops
        }
        stale = sum(case.of_any_numbers in self.stale_cases for case in cases.values())
        left_out = f"; those of {stale} ops are stale, and left out" if stale else ""
        return CostTable(board.name, costs, page_in, page_out, self.basis + left_out)

    def _cost(self, op: Op, graph: Graph, case: Case, analytic: OpCost, board: Board) -> OpCost:
        """Measured cost of an op, otherwise the sum of its parts' costs, if any."""
        parts = kind_of(op).parts(op, graph)
        if parts is None or self.row_of(case) is not None:
            return self.cost(case, analytic)
        costs, found = analytic_costs(parts.graph, board).ops, []
        for each in parts.graph.ops:
            cost = self.cost(case_of(each, parts.graph), costs[each.name])
            found += parts.times.get(each.name, 1) * [cost]
        return sum_of(found)

    def cost(self, case: Case, analytic: OpCost) -> OpCost:
        """Cost of a case: measured, otherwise fitted, otherwise `analytic`."""
        power_w = analytic.energy_j / analytic.time_s if analytic.time_s else 0.0
        row = self.row_of(case)
        if self.setup is not None and self.setup.machine and reads_storage(case):
            return replace(analytic, source=Source.BOARD_FILE)
        if row is not None:
            energy_j = row.energy_j if _metered(row) else row.time_s * power_w
            return OpCost(row.time_s, energy_j, Source.MEASURED)
        time_s = self.time.predict(case)
        if time_s is None:
            return analytic
        fitted_j = self.energy.predict(case)
        return OpCost(time_s, time_s * power_w if fitted_j is None else fitted_j, Source.FITTED)

    def transfer(self, kind: str, storage: BoardStorage) -> Transfer | None:
        """Costs of a transfer; None if none was measured on the board itself.

        An emulator's storage, a file or a model of a chip, does not count.

        Args:
            kind: one of `TRANSFERS`.
            storage: costs in the board's file.
        """
        believed: Transfer = getattr(storage, kind)

        def rows_of(kind: str) -> list[tuple[int, Measurement]]:
            return [
                (page_bytes(case.size_bytes, storage.block_bytes), row)
                for case, row in sorted(self.rows.items(), key=lambda item: item[0].size_bytes)
                if case.kind == kind and (row.time_s > 0 or kind in TAKEN) and is_of_board(row)
            ]

        rows = rows_of(kind)
        if not rows:
            return None
        metered = [(size, row) for size, row in rows if _metered(row) and row.energy_j > 0]
        measured = []
        for size, row in metered or rows:
            power_w = believed.cost_j(size) / believed.time_s(size)
            energy_j = row.energy_j if metered else row.time_s * power_w
            measured.append((size, row.time_s, energy_j))
        beside, taken = (
            [(size, row.time_s) for size, row in rows_of(f"{kind}_{what}")]
            for what in ("beside", "taken")
        )
        return replace(fit_transfer(measured, believed), beside=fit_beside(beside, taken))
