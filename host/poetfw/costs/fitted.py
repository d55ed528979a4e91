# SPDX-License-Identifier: Apache-2.0
"""Predicted costs of unmeasured ops, by a model fitted to the measured ones.

The time of a kernel is a sum over what its loops do (`features.py`), each with a price that is 0 or
more. Prices are those of least squares under that bound (NNLS: Lawson and Hanson, Solving Least
Squares Problems, 1974, chapter 23), of relative errors: a row counts alike whether it took a
microsecond or a second. Each C function has prices of its own where enough of its cases were
measured, else those of the other functions in its file. How well a fit predicts is tried on rows
that it has not seen, which for a file are those of a whole function; a fit that predicts badly is
not used. Energy is fitted likewise where a meter measured it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poetfw.common.transfer import OverlapCosts, Transfer
from poetfw.costs.features import Featured, Features, featured
from poetfw.costs.measurement import MOVES, Case, Measurement
from poetfw.ops.tile_tables import TileChoice, no_tiles

ENOUGH_ROWS = 8
"""Number of measured cases that a fit needs."""
ENOUGH_FUNCTIONS = 3
"""Number of functions in a C file that a fit for its other functions needs."""
LARGEST_ERROR = 0.3
"""A fit whose cross-validated median error is larger predicts nothing."""
_FOLDS = 5

Figure = Callable[[Measurement], float]


@dataclass(frozen=True)
class Fit:
    """Prices of the features, with the error of their predictions.

    Attributes:
        name: name of the C function or, if too few of its cases were measured, of the C file.
        prices: seconds or joules by feature, above 0.
        rows: number of measured cases.
        median_error: median relative error in cross-validation.
        largest_error: largest relative error in cross-validation.
    """

    name: str
    prices: Mapping[str, float]
    rows: int
    median_error: float
    largest_error: float

    def predict(self, features: Features) -> float:
        """Predict the time of a case with these features."""
        return sum(price * features.get(name, 0.0) for name, price in self.prices.items())


def fit(rows: Sequence[tuple[Features, float]], name: str = "", parts: Sequence[str] = ()) -> Fit:
    """Fit prices to measured times or energies.

    Args:
        rows: features of each row, and its time or energy, above 0.
        name: name of the fit.
        parts: fold of each row for cross-validation; by default five folds, row by row in turn.
    """
    names = sorted({name for features, _ in rows for name, value in features.items() if value})
    matrix = np.array(
        [[features.get(name, 0.0) / took for name in names] for features, took in rows]
    )
    errors = np.empty(len(rows))
    fold = np.arange(len(rows)) % min(_FOLDS, len(rows))
    if parts:
        fold = np.unique(parts, return_inverse=True)[1]
    for number in range(fold.max() + 1):
        held = fold == number
        prices = _prices(matrix[~held]) if not held.all() else np.zeros(len(names))
        errors[held] = np.abs(matrix[held] @ prices - 1)
    prices = _prices(matrix)
    return Fit(
        name=name,
        prices={feature: float(p) for feature, p in zip(names, prices, strict=True) if p > 0},
        rows=len(rows),
        median_error=float(np.median(errors)),
        largest_error=float(errors.max()),
    )


def _prices(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nonnegative x that minimises |matrix x - 1|, independent of the columns' units.

    Of columns that are multiples of each other, only the first may be positive: otherwise rounding
    would decide which one the solver takes.
    """
    from scipy.optimize import nnls  # slow to import, and seldom needed

    scale = matrix.max(axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    first = np.sort(np.unique(scaled.round(9), axis=1, return_index=True)[1])
    found, _ = nnls(scaled[:, first], np.ones(len(matrix)), maxiter=100 * matrix.shape[1])
    prices = np.zeros(matrix.shape[1])
    prices[first] = found / scale[first]
    return prices


@dataclass(frozen=True)
class FittedModel:
    """Fits to measurements, each calculated on first use.

    Attributes:
        measurements: measurements of one set-up, at most one per case.
        figure: function that returns the fitted figure of a measurement.
        tiles: tiles that the measured cases ran.
    """

    measurements: Sequence[Measurement]
    figure: Figure
    tiles: TileChoice = no_tiles
    _fits: dict[tuple[str, str], Fit | None] = field(default_factory=dict, repr=False)

    def predict(self, case: Case) -> float | None:
        """Predict the time of a case; None if too few similar cases were measured."""
        known = featured(case, self.tiles)
        found = self.fit_of(known)
        return None if found is None else found.predict(known.features)

    def fit_of(self, known: Featured) -> Fit | None:
        """Fit for a case; None if no fit is good enough."""
        for level in ("function", "family"):
            key = level, getattr(known, level)
            if key not in self._fits:
                self._fits[key] = self._fit(level, getattr(known, level))
            found = self._fits[key]
            if found is not None:
                return found if found.median_error <= LARGEST_ERROR else None
        return None

    def _fit(self, level: str, name: str) -> Fit | None:
        found = [pair for pair in self._featured if getattr(pair[0], level) == name]
        functions = [known.function for known, _ in found]
        if len(found) < ENOUGH_ROWS:
            return None
        rows = [(known.features, took) for known, took in found]
        if level == "function":
            return fit(rows, name)
        return fit(rows, name, functions) if len(set(functions)) >= ENOUGH_FUNCTIONS else None

    @cached_property
    def _featured(self) -> Sequence[tuple[Featured, float]]:
        rows = sorted(self.measurements, key=lambda row: row.case.key)
        return [
            (featured(row.case, self.tiles), self.figure(row))
            for row in rows
            if row.case.kind not in MOVES and self.figure(row) > 0
        ]


def fit_transfer(rows: Sequence[tuple[int, float, float]], believed: Transfer) -> Transfer:
    """Fit the costs of moving bytes to measured transfers.

    Args:
        rows: bytes, seconds and joules of each transfer, all above 0.
        believed: assumed costs; if all rows have the same size, they are scaled to their median.
    """
    times = [(size, time_s) for size, time_s, _ in rows]
    energies = [(size, energy_j) for size, _, energy_j in rows]
    if len({size for size, _ in times}) == 1:
        size = times[0][0]
        slower = float(np.median([time for _, time in times])) / believed.time_s(size)
        dearer = float(np.median([energy for _, energy in energies])) / believed.cost_j(size)
        return Transfer(
            bandwidth_bytes_per_s=believed.bandwidth_bytes_per_s / slower,
            latency_s=believed.latency_s * slower,
            energy_j_per_byte=believed.energy_j_per_byte * dearer,
            energy_j=believed.energy_j * dearer,
        )
    latency_s, s_per_byte = _line(times)
    energy_j, j_per_byte = _line(energies)
    return Transfer(
        bandwidth_bytes_per_s=1 / s_per_byte if s_per_byte else np.inf,
        latency_s=latency_s,
        energy_j_per_byte=j_per_byte,
        energy_j=energy_j,
    )


def fit_beside(
    storage: Sequence[tuple[int, float]], core: Sequence[tuple[int, float]]
) -> OverlapCosts | None:
    """Fit transfers beside computing; None where less than two sizes were measured of each.

    Args:
        storage: bytes, and seconds that the storage is busy with them.
        core: bytes, and seconds that the core is.
    """
    storage = [row for row in storage if row[1] > 0]
    if min(len(dict(storage)), len(dict(core))) < 2:
        return None
    latency_s, s_per_byte = _line(storage)
    return OverlapCosts(1 / s_per_byte if s_per_byte else np.inf, latency_s, *_line(core))


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Intercept and slope per byte of a line; both 0 if all values are 0."""
    points = [point for point in points if point[1] > 0]
    if not points:
        return 0.0, 0.0
    prices = fit([({"fixed": 1.0, "bytes": size}, took) for size, took in points]).prices
    return prices.get("fixed", 0.0), prices.get("bytes", 0.0)
