# SPDX-License-Identifier: Apache-2.0
"""From a trace to joules: what each marked interval took above idling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poetfw.common.errors import DataError
from poetfw.meters.trace import Floats, PowerTrace

_FAR = 5.0
"""Median absolute deviations, scaled to be standard deviations of a normal distribution, at which
an interval is rejected (Leys et al., Journal of Experimental Social Psychology 49, 2013)."""
_SCALE = 1.4826
_ALIKE = 0.01
"""Share of the median within which no energy is rejected as an outlier."""


@dataclass(frozen=True)
class MeasuredEnergy:
    """Joules of one run of a case.

    Attributes:
        energy_j: the median of the intervals.
        spread_j: their median absolute deviation.
        time_s: the median of their durations.
        intervals: how many counted.
        rejected: how many did not, being too far from the others: spikes of something else.
        idle_w: the power that was subtracted.
    """

    energy_j: float
    spread_j: float
    time_s: float
    intervals: int
    rejected: int
    idle_w: float


def idle_power(trace: PowerTrace) -> float:
    """The median power while no marker was set, in watts.

    Raises:
        DataError: the marker was always set.
    """
    unmarked = trace.watts[~trace.marked]
    if not unmarked.size:
        raise DataError("the trace has no sample without a marker: the idle power is not known")
    return float(np.median(unmarked))


def measured_energy(trace: PowerTrace, idle_w: float | None = None) -> MeasuredEnergy:
    """The energy of a case's marked intervals in a trace above idling, for one run.

    The energy of an interval is the integral of volts times amperes by the trapezoidal rule. A
    marker is known to have changed between two samples: the interval begins and ends midway.

    Args:
        trace: of one case that was run several times.
        idle_w: power of the board while it does nothing; None for what the trace has between.

    Raises:
        DataError: nothing is marked from its beginning to its end.
    """
    baseline_w = idle_power(trace) if idle_w is None else idle_w
    intervals = _intervals(trace)
    if not intervals:
        raise DataError("the trace has no interval that is marked from its beginning to its end")
    times = np.array([end - begin for begin, end in intervals])
    above = _integral(trace.times_s, trace.watts - baseline_w)
    energies = np.array([above(end) - above(begin) for begin, end in intervals])
    kept = _near(energies)
    runs = max(trace.runs, 1)
    energy_j = float(np.median(energies[kept]))
    return MeasuredEnergy(
        energy_j=energy_j / runs,
        spread_j=float(np.median(np.abs(energies[kept] - energy_j))) / runs,
        time_s=float(np.median(times[kept])) / runs,
        intervals=int(kept.sum()),
        rejected=int((~kept).sum()),
        idle_w=baseline_w,
    )


def _intervals(trace: PowerTrace) -> list[tuple[float, float]]:
    """Begin and end in seconds of each interval whose begin and end the trace has."""
    changes = np.flatnonzero(trace.marked[1:] != trace.marked[:-1])
    midway = (trace.times_s[changes] + trace.times_s[changes + 1]) / 2
    if trace.marked.size and trace.marked[0]:
        midway = midway[1:]
    return [(float(a), float(b)) for a, b in zip(midway[::2], midway[1::2], strict=False)]


class _integral:
    """The integral of a function that is linear between samples, from the first one on."""

    def __init__(self, times_s: Floats, values: Floats) -> None:
        areas = np.diff(times_s) * (values[1:] + values[:-1]) / 2
        self._times_s, self._values = times_s, values
        self._until = np.concatenate(([0.0], np.cumsum(areas)))

    def __call__(self, time_s: float) -> float:
        i = int(np.clip(np.searchsorted(self._times_s, time_s) - 1, 0, len(self._until) - 2))
        begin = self._times_s[i]
        share = (time_s - begin) / (self._times_s[i + 1] - begin)
        value = self._values[i] + share * (self._values[i + 1] - self._values[i])
        return float(self._until[i] + (time_s - begin) * (self._values[i] + value) / 2)


def _near(energies: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mask of the energies that are not outliers."""
    middle = np.median(energies)
    distance = np.abs(energies - middle)
    return np.asarray(distance <= max(_FAR * _SCALE * np.median(distance), _ALIKE * abs(middle)))
