# SPDX-License-Identifier: Apache-2.0
"""Nordic Power Profiler Kit II, through the package ppk2-api.

It takes 100,000 samples per second, each with the state of its logic inputs. Input D0 is the
marker: connect it to the pin that the profiling firmware sets while a case runs.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from poetfw.common.errors import ConfigError, DeviceError
from poetfw.meters.trace import PowerTrace

SAMPLES_PER_S = 100_000
LEAST_MILLIVOLTS, MOST_MILLIVOLTS = 800, 5000
_WORD = np.dtype("<u4")
_COUNTER_SHIFT, _COUNTER = 18, 63
"""Field of a sample with a sample counter (Nordic's pc-nrfconnect-ppk,
src/device/serialDevice.ts)."""
_MARKER = 1
_READ_S = 2e-3
_QUIET_READS = 25
"""Number of empty reads in a row after which all samples have arrived."""


class Ppk2Meter:
    """A PPK2 that measures the board's supply current, or that supplies the board."""

    name = "ppk2"
    sees_marker = True
    least_s = 0.01  # a thousand samples

    def __init__(self, port: str, millivolts: int, supply: bool = False) -> None:
        """Open the PPK2 and read its calibration.

        Args:
            port: serial port of the PPK2.
            millivolts: supply voltage of the board, which the PPK2 provides or is told.
            supply: True if the PPK2 supplies the board; False if it only measures.

        Raises:
            ConfigError: The supply voltage is outside a PPK2's range.
            DeviceError: The package is missing, or the device at the port is not a PPK2.
        """
        if not LEAST_MILLIVOLTS <= millivolts <= MOST_MILLIVOLTS:
            raise ConfigError(
                f"a PPK2 takes {LEAST_MILLIVOLTS} to {MOST_MILLIVOLTS} mV, not {millivolts}"
            )
        try:
            from ppk2_api.ppk2_api import PPK2_API  # an extra
        except ImportError as error:
            raise DeviceError(
                "the PPK2 needs the package ppk2-api", "pip install 'poetfw[meters]'"
            ) from error
        try:
            self._ppk2: Any = PPK2_API(port, timeout=1, write_timeout=1, exclusive=True)
        except (OSError, ValueError) as error:
            raise DeviceError(f"the PPK2's port {port} cannot be opened: {error}") from error
        self._ppk2.stop_measuring()
        self._ppk2.ser.reset_input_buffer()
        if not self._ppk2.get_modifiers():
            raise DeviceError(f"what is at {port} does not answer as a PPK2 does")
        (self._ppk2.use_source_meter if supply else self._ppk2.use_ampere_meter)()
        self._ppk2.set_source_voltage(millivolts)
        self._ppk2.toggle_DUT_power("ON")
        self._volts = millivolts / 1000
        self._chunks: list[bytes] = []
        self._failed: Exception | None = None
        self._end = threading.Event()
        self._never = threading.Event()  # never set: used to sleep
        self._thread: threading.Thread | None = None

    def start(self, label: str) -> None:
        """Start recording."""
        self._chunks, self._failed = [], None
        self._end.clear()
        self._ppk2.ser.reset_input_buffer()
        self._ppk2.start_measuring()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def mark(self, on: bool) -> None:
        """Do nothing: the board sets the marker."""

    def stop(self) -> PowerTrace:
        """Stop recording; returns the trace.

        Raises:
            DeviceError: The connection is lost, or samples are missing.
        """
        if self._thread is None:
            raise DeviceError("the PPK2 is stopped, but was never started")
        self._ppk2.stop_measuring()
        self._end.set()
        self._thread.join()
        self._thread = None
        if self._failed is not None:
            raise DeviceError(f"the PPK2 stopped answering: {self._failed}")
        data = b"".join(self._chunks)
        whole = len(data) // _WORD.itemsize * _WORD.itemsize
        if not whole:
            raise DeviceError("the PPK2 sent no sample")
        counted = np.frombuffer(data[:whole], _WORD).astype(np.int64) >> _COUNTER_SHIFT & _COUNTER
        lost = int(((np.diff(counted) - 1) % (_COUNTER + 1)).sum())
        if lost:
            raise DeviceError(
                f"the PPK2 sent {lost:,} samples that this computer did not take in time",
                "let nothing else run beside the measurement",
            )
        microamperes, bits = self._ppk2.get_samples(data[:whole])
        return PowerTrace(
            times_s=np.arange(len(bits)) / SAMPLES_PER_S,
            volts=np.full(len(bits), self._volts),
            amperes=np.asarray(microamperes, dtype=np.float64) * 1e-6,
            marked=(np.asarray(bits) & _MARKER) != 0,
        )

    def close(self) -> None:
        """Release the port. The board's supply stays on."""
        self._ppk2.ser.close()

    def _read(self) -> None:
        quiet = 0
        while quiet < _QUIET_READS:
            ended = self._end.is_set()
            self._never.wait(_READ_S)
            try:
                chunk = self._ppk2.get_data()
            except OSError as error:
                self._failed = error
                return
            self._chunks.append(chunk)
            # Samples still arrive for a while after the stop command.
            quiet = quiet + 1 if ended and not chunk else 0
