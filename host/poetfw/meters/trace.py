# SPDX-License-Identifier: Apache-2.0
"""Power traces and their file format."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError
from poetfw.common.output_file import replace_file

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class PowerTrace:
    """Samples of voltage and current in order of time.

    Attributes:
        times_s: [n] time of each sample in seconds, strictly increasing, from an arbitrary origin.
        volts: [n] voltage of each sample.
        amperes: [n] current of each sample; negative for reverse current or noise.
        marked: [n] True if the marker is set, that is, while a case runs.
        runs: runs of the case per marked interval; 0 if unknown.
        counted_s: duration of a run by the board's counter; 0 if that does not count real time.
        by_marker: True if a meter input recorded the board's marker; False if the clock of the
            commanding computer marked the samples.

    Raises:
        DataError: The arrays differ in length, or contain invalid values.
    """

    times_s: Floats
    volts: Floats
    amperes: Floats
    marked: Flags
    runs: int = 0
    counted_s: float = 0.0
    by_marker: bool = True

    def __post_init__(self) -> None:
        arrays = (self.times_s, self.volts, self.amperes)
        if len({array.shape for array in (*arrays, self.marked)}) != 1 or self.times_s.ndim != 1:
            raise DataError("a trace needs equally many times, volts, amperes and markers")
        if not all(np.isfinite(array).all() for array in arrays):
            raise DataError("a trace holds what is not a finite number")
        if not (np.diff(self.times_s) > 0).all():
            raise DataError("the times of a trace do not increase")
        if self.runs < 0:
            raise DataError(f"a trace has {self.runs} runs in an interval")
        if not (self.counted_s >= 0 and np.isfinite(self.counted_s)):
            raise DataError(f"a trace has runs of {self.counted_s} s")

    @property
    def watts(self) -> Floats:
        """Power of each sample in watts."""
        return self.volts * self.amperes

    def save(self, path: Path) -> None:
        """Write the trace to an NPZ file.

        Raises:
            OutputError: The file cannot be written.
        """
        import io

        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            times_s=self.times_s,
            volts=self.volts,
            amperes=self.amperes,
            marked=self.marked,
            runs=self.runs,
            counted_s=self.counted_s,
            by_marker=self.by_marker,
        )
        replace_file(path, buffer.getvalue())

    @staticmethod
    def load(path: Path) -> PowerTrace:
        """Read a trace from an NPZ file.

        Raises:
            DataError: The file cannot be read or is not a trace.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in ("times_s", "volts", "amperes", "marked")}
                runs = int(file["runs"]) if "runs" in file else 0
                counted_s = float(file["counted_s"]) if "counted_s" in file else 0.0
                by_marker = bool(file["by_marker"]) if "by_marker" in file else True
        except FileNotFoundError as error:
            raise DataError(f"there is no trace {path}: record it with a meter") from error
        except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} holds no trace of a meter: {error}") from error
        marked = arrays.pop("marked")
        if marked.dtype != np.bool_ or any(a.dtype != np.float64 for a in arrays.values()):
            raise DataError(f"{path} holds no trace of a meter: float64 and bool were expected")
        try:
            return PowerTrace(
                **arrays, marked=marked, runs=runs, counted_s=counted_s, by_marker=by_marker
            )
        except DataError as error:
            raise DataError(f"{path}: {error.message}") from error
