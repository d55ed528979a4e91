# SPDX-License-Identifier: Apache-2.0
"""Joulescopes (JS110, JS220), through the package pyjoulescope_driver.

Current, voltage and general-purpose inputs are sampled on one clock. Input 0 is the marker: connect
it to the pin that the profiling firmware sets while a case runs.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from poetfw.common.errors import DeviceError
from poetfw.meters.trace import Floats, PowerTrace

_SAMPLES_PER_S = 100_000
_CURRENT, _VOLTAGE, _MARKER = _SIGNALS = ("s/i", "s/v", "s/gpi/0")
_BITS = 8
_QUIET_S = 0.2
"""Time in seconds for which samples still arrive after the stop command."""


class JoulescopeMeter:
    """A Joulescope in the board's supply line."""

    sees_marker = True
    least_s = 0.01  # a thousand samples

    def __init__(self, serial: str = "") -> None:
        """Open the Joulescope.

        Args:
            serial: serial number; "" if only one Joulescope is connected.

        Raises:
            DeviceError: The package is missing, or there is not exactly one such Joulescope.
        """
        try:
            from pyjoulescope_driver import Driver  # an extra
        except ImportError as error:
            raise DeviceError(
                "the Joulescope needs the package pyjoulescope_driver",
                "pip install 'poetfw[joulescope]'",
            ) from error
        self._driver: Any = Driver()
        try:
            paths = [
                path
                for path in self._driver.device_paths()
                if serial in ("", path.rpartition("/")[2])
            ]
            if len(paths) != 1:
                said = ", ".join(paths) or "none"
                raise DeviceError(
                    f"one Joulescope was expected, and there is {said}",
                    "plug one in, or name its serial number: joulescope:SERIAL",
                )
            (self._path,) = paths
            self._driver.open(self._path)
            self._driver.publish(f"{self._path}/s/i/range/mode", "auto")
            self._driver.publish(f"{self._path}/h/fs", _SAMPLES_PER_S)
        except (RuntimeError, TimeoutError, OSError) as error:
            self._driver.finalize()
            raise DeviceError(f"the Joulescope cannot be used: {error}") from error
        except DeviceError:
            self._driver.finalize()
            raise
        self.name = "joulescope"
        self._received: dict[str, list[dict[str, Any]]] = {}
        self._taken_by = self._take  # unsubscribing needs the same object as subscribing
        self._never = threading.Event()  # never set: used to sleep

    def start(self, label: str) -> None:
        """Start recording.

        Raises:
            DeviceError: The connection is lost.
        """
        self._received = {signal: [] for signal in _SIGNALS}
        for signal in _SIGNALS:
            self._tell("subscribe", f"{self._path}/{signal}/!data", "pub", self._taken_by)
        for signal in _SIGNALS:
            self._tell("publish", f"{self._path}/{signal}/ctrl", 1)

    def mark(self, on: bool) -> None:
        """Do nothing: the board sets the marker."""

    def stop(self) -> PowerTrace:
        """Stop recording; returns the trace.

        Raises:
            DeviceError: The connection is lost, or samples are missing.
        """
        self._never.wait(_QUIET_S)
        for signal in _SIGNALS:
            self._tell("publish", f"{self._path}/{signal}/ctrl", 0)
            self._tell("unsubscribe", f"{self._path}/{signal}/!data", self._taken_by)
        (i, amperes, per_s), (v, volts, _), (m, marked, _) = map(self._samples, _SIGNALS)
        begin = max(i, v, m)
        end = min(i + len(amperes), v + len(volts), m + len(marked))
        if end <= begin:
            raise DeviceError("the Joulescope sent no sample")
        return PowerTrace(
            times_s=np.arange(end - begin) / per_s,
            volts=volts[begin - v : end - v],
            amperes=amperes[begin - i : end - i],
            marked=marked[begin - m : end - m] != 0,
        )

    def close(self) -> None:
        """Release the Joulescope."""
        self._driver.close(self._path)
        self._driver.finalize()

    def _take(self, topic: str, value: dict[str, Any]) -> None:
        self._received[topic.removeprefix(f"{self._path}/").removesuffix("/!data")].append(value)

    def _tell(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self._driver, method)(*arguments)
        except (RuntimeError, TimeoutError, OSError) as error:
            raise DeviceError(f"the Joulescope stopped answering: {error}") from error

    def _samples(self, signal: str) -> tuple[int, Floats, float]:
        """Number of a signal's first sample, the samples, and their rate per second.

        Samples are numbered at the full rate, of which every `decimate_factor`-th one is sent.
        Inputs are packed, eight samples to a byte, the first in the lowest bit.

        Raises:
            DeviceError: Samples are missing.
        """
        first, following, parts, per_s = 0, None, [], float(_SAMPLES_PER_S)
        for message in self._received[signal]:
            data, factor = np.asarray(message["data"]), int(message["decimate_factor"])
            if signal == _MARKER:
                data = np.unpackbits(data.astype(np.uint8), bitorder="little")
            number = int(message["sample_id"]) // factor
            if following is None:
                first, per_s = number, float(message["sample_rate"]) / factor
            elif signal == _MARKER and 0 < following - number < _BITS:
                parts[-1] = parts[-1][: number - following]  # the last byte was not full
            elif number != following:
                raise DeviceError(
                    f"of the Joulescope's samples {number - following:,} did not come",
                    "let nothing else run beside the measurement",
                )
            following = number + len(data)
            parts.append(data.astype(np.float64))
        return first, np.concatenate(parts) if parts else np.empty(0), per_s
