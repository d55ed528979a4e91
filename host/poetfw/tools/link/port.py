# SPDX-License-Identifier: Apache-2.0
"""Serial ports: a device file, a pseudo-terminal, or `socket://host:port`."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit

from poetfw.common.errors import (
    NoAnswerError,
    PoetfwError,
    PortBusyError,
    PortError,
    PortLostError,
    listed,
)
from poetfw.common.system import wait_for_input
from poetfw.tools.link.frames import MAX_LINE_BYTES

_SOCKET = "socket://"
_WRITE_TIMEOUT_S = 20.0
_READ_BYTES = 4096
_LONGEST_WAIT_S = 0.5  # until a port that another thread closed is noticed


class PortLine(Protocol):
    """Byte stream to and from a device."""

    def write(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            PortLostError: The connection is lost.
            NoAnswerError: The other end does not read.
        """

    def read(self, timeout_s: float) -> bytes:
        """Read available bytes; waits for some up to a timeout in seconds.

        Raises:
            PortLostError: The connection is lost.
        """

    def now_s(self) -> float:
        """Time in seconds on a monotonic clock."""


class Port:
    """An open serial port."""

    def __init__(self, serial: Any) -> None:
        self._serial = serial

    def write(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            PortLostError: The connection is lost.
            NoAnswerError: The other end does not read.
        """
        from serial import SerialException, SerialTimeoutException

        try:
            self._serial.write(data)
        except SerialTimeoutException as error:
            raise NoAnswerError(
                f"{self._serial.port}: the other end does not read what is sent",
                "reset the board, and try again",
            ) from error
        except (SerialException, OSError) as error:
            raise self._lost(error) from error

    def read(self, timeout_s: float) -> bytes:
        """Read available bytes; waits for some up to a timeout in seconds.

        Raises:
            PortLostError: The connection is lost.
        """
        from serial import SerialException

        wait_s = min(max(0.0, timeout_s), _LONGEST_WAIT_S)
        try:
            ready = wait_for_input(self._serial, wait_s)
            received: bytes = self._serial.read(_READ_BYTES) if ready else b""
            return received
        except (SerialException, OSError) as error:
            raise self._lost(error) from error

    def now_s(self) -> float:
        """Time in seconds on a monotonic clock."""
        return time.monotonic()

    def _lost(self, error: Exception) -> PortLostError:
        return PortLostError(
            f"{self._serial.port}: the connection is lost: {error}",
            "plug the board in again, and repeat the command: it goes on where it stopped",
        )


def console_lines(line: PortLine) -> Iterator[str]:
    """Yield the lines that a device prints, without end; a line that is too long comes in parts.

    Raises:
        PortLostError: The connection is lost.
    """
    rest = b""
    while True:
        received = line.read(1.0)
        *lines, rest = (rest + received).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        for text in lines:
            yield text.decode("ascii", errors="replace").rstrip("\r")


def usb_ports() -> list[str]:
    """Serial ports of USB devices."""
    from serial.tools import list_ports

    return sorted(port.device for port in list_ports.comports() if port.vid is not None)


def choose_port(name: str | None) -> str:
    """Port to use: the named one, else the only one on USB.

    Raises:
        PortError: No port is named, and there are several or none on USB.
    """
    if name is not None:
        return name
    ports = usb_ports()
    if len(ports) == 1:
        return ports[0]
    if ports:
        raise PortError(
            f"there are several serial ports: {listed(ports)}", "name the board's with --port"
        )
    raise PortError(
        "there is no serial port on USB", "plug the board in", "or name a port with --port"
    )


@contextlib.contextmanager
def open_port(name: str, baud: int) -> Iterator[Port]:
    """Open a port for exclusive use; it is closed at the end of the block.

    Raises:
        PortBusyError: Another program uses the port.
        PortError: The port does not exist, or the user has no permission.
    """
    import serial

    if "://" in name and not name.startswith(_SOCKET):
        raise PortError(
            f"{name!r:.200} is not a port that poetfw knows",
            f"name a device such as /dev/ttyACM0, or {_SOCKET}HOST:PORT",
        )
    is_socket = name.startswith(_SOCKET)
    if is_socket and not _names_socket(name):
        raise PortError(
            f"{name!r:.200} cannot be opened: it names no host, or no port from 1 to 65535",
            f"write {_SOCKET}HOST:PORT",
        )
    exclusive = None if is_socket else True
    try:
        opened = serial.serial_for_url(
            name, baudrate=baud, timeout=0, write_timeout=_WRITE_TIMEOUT_S, exclusive=exclusive
        )
    except (serial.SerialException, OSError, ValueError, OverflowError) as error:
        raise _refused(name, error) from error
    try:
        yield Port(opened)
    finally:
        opened.close()


def _names_socket(url: str) -> bool:
    """True if a URL has a host and a valid port."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port)
    except ValueError:  # no such port
        return False


def _refused(name: str, error: Exception) -> PoetfwError:
    number = getattr(error, "errno", None)
    if number in (errno.EAGAIN, errno.EBUSY):
        return PortBusyError(
            f"{name!r:.200} is busy: another program uses it",
            "end that one: a terminal, or another poetfw",
        )
    if number in (errno.EACCES, errno.EPERM):
        return PortError(
            f"you may not use {name!r:.200}", 'sudo usermod -aG dialout "$USER", and log in again'
        )
    others = usb_ports()
    reason = "there is no such device" if number == errno.ENOENT else str(error)
    return PortError(
        f"{name!r:.200} cannot be opened: {reason}",
        *([f"the ports on USB are: {listed(others)}"] if others else []),
        "check --port",
    )
