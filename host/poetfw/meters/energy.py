# SPDX-License-Identifier: Apache-2.0
"""Energy of marked intervals in a power trace, above idle power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poetfw.common.errors import DataError
from poetfw.meters.trace import Floats, PowerTrace

_FAR = 5.0
"""Distance from the median at which an interval is rejected, in median absolute deviations scaled
to standard deviations (Leys et al., Journal of Experimental Social Psychology 49, 2013)."""
_SCALE = 1.4826
_ALIKE = 0.01
"""Energies within this share of the median are never rejected as outliers."""


@dataclass(frozen=True)
class MeasuredEnergy:
    """Energy of one run of a case.

    Attributes:
        energy_j: median energy over the intervals.
        spread_j: median absolute deviation of the energies.
        time_s: median duration.
        intervals: number of intervals used.
        rejected: number of outliers left out, such as spikes of other activity.
        idle_w: idle power that was subtracted.
    """

    energy_j: float
    spread_j: float
    time_s: float
    intervals: int
    rejected: int
    idle_w: float


def idle_power(trace: PowerTrace) -> float:
    """Median power in watts while the marker is not set.

    Raises:
        DataError: The marker is always set.
    """
    unmarked = trace.watts[~trace.marked]
    if not unmarked.size:
        raise DataError("the trace has no sample without a marker: the idle power is not known")
    return float(np.median(unmarked))


def measured_energy(trace: PowerTrace, idle_w: float | None = None) -> MeasuredEnergy:
    """Energy of one run above idle power, from a case's marked intervals in a trace.

    Energy is the integral of volts times amperes by the trapezoidal rule. The marker changes
    between two samples: intervals begin and end midway.

    Args:
        trace: trace of one case that ran several times.
        idle_w: idle power of the board; None to take it from the unmarked samples.

    Raises:
        DataError: The trace contains no complete marked interval.
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
    """Begin and end in seconds of each marked interval that lies completely in the trace."""
    changes = np.flatnonzero(trace.marked[1:] != trace.marked[:-1])
    midway = (trace.times_s[changes] + trace.times_s[changes + 1]) / 2
    if trace.marked.size and trace.marked[0]:
        midway = midway[1:]
    return [(float(a), float(b)) for a, b in zip(midway[::2], midway[1::2], strict=False)]


class _integral:
    """Integral, from the first sample on, of a function that is linear between samples."""

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
