# SPDX-License-Identifier: Apache-2.0
"""Ports: which one is meant, and what is said of one that is not there, busy, or pulled out."""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import time
import tty
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from poetfw.common.errors import PortBusyError, PortError, PortLostError
from poetfw.tools.link import DeviceLink, choose_port, console_lines, open_port
from poetfw.tools.link.link import Patience


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal: the board's end of it, and the name of ours."""
    board, ours = pty.openpty()
    tty.setraw(ours)
    yield board, os.ttyname(ours)
    os.close(ours)
    os.close(board)


def plug_in(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    ports = [SimpleNamespace(device=name, vid=0x1366) for name in names]
    ports.append(SimpleNamespace(device="/dev/ttyS0", vid=None))
    monkeypatch.setattr(list_ports, "comports", lambda: ports)


def test_the_only_port_on_usb_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "/dev/ttyACM0")
    assert choose_port(None) == "/dev/ttyACM0"
    assert choose_port("/dev/ttyS0") == "/dev/ttyS0"


def test_there_is_no_guessing_among_several(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "/dev/ttyACM1", "/dev/ttyACM0")
    with pytest.raises(PortError, match="several serial ports: /dev/ttyACM0, /dev/ttyACM1"):
        choose_port(None)
    plug_in(monkeypatch)
    with pytest.raises(PortError, match="there is no serial port on USB"):
        choose_port(None)


@pytest.mark.parametrize(
    "name",
    ["spy:///dev/ttyACM0?file=log", "alt:///dev/tty?class=X", "loop://", "hwgrep://x", "://"],
)
def test_other_urls_are_refused(name: str) -> None:
    with pytest.raises(PortError, match="not a port that poetfw knows"), open_port(name, 115200):
        pass


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/dev/ttyNone", "there is no such device"),
        ("/dev/null", "cannot be opened"),
        ("/", "cannot be opened"),
        ("socket://", "cannot be opened: it names no host, or no port from 1 to 65535"),
        ("socket://127.0.0.1", "cannot be opened: it names no host, or no port"),
        ("socket://127.0.0.1:99999999", "cannot be opened: it names no host, or no port"),
        ("socket://127.0.0.1:http", "cannot be opened: it names no host, or no port"),
        ("a\0b", "cannot be opened"),
    ],
)
def test_what_is_no_port_is_told(name: str, said: str) -> None:
    with pytest.raises(PortError, match=said), open_port(name, 115200):
        pass


def test_a_socket_nobody_listens_on() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(PortError, match="refused"), open_port(f"socket://127.0.0.1:{port}", 1):
            pass


def test_a_port_is_ours_alone(terminal: tuple[int, str]) -> None:
    board, name = terminal
    with open_port(name, 1_000_000) as line:
        with pytest.raises(PortBusyError, match="is busy"), open_port(name, 115200):
            pass
        line.write(b"name%")
        assert os.read(board, 100) == b"name%"
        os.write(board, bytes(range(256)))
        received = b""
        while len(received) < 256:
            received += line.read(1.0)
        assert received == bytes(range(256))
        assert line.read(0.01) == b""
    with open_port(name, 115200):
        pass


def test_a_port_that_is_pulled_out_is_told() -> None:
    board, ours = pty.openpty()
    with open_port(os.ttyname(ours), 115200) as line:
        os.close(board)
        with pytest.raises(PortLostError, match="the connection is lost"):
            line.read(1.0)
        with pytest.raises(PortLostError, match="the connection is lost"):
            line.write(b"x")
    os.close(ours)


def test_a_port_that_another_thread_closes_is_no_longer_waited_for(
    terminal: tuple[int, str],
) -> None:
    _, name = terminal
    with open_port(name, 115200) as line, ThreadPoolExecutor(1) as pool:
        patience = Patience(wait_s=30.0, growth=1.0, total_s=30.0, attempts=1)
        ended = pool.submit(DeviceLink(line).ask, "card", patience=patience)
        with contextlib.suppress(TimeoutError):
            ended.exception(timeout=0.2)
        assert not ended.done()
        line._serial.close()
        begun = time.monotonic()
        assert isinstance(ended.exception(), PortLostError)
        assert time.monotonic() - begun < 5


def test_a_console_is_shown_line_by_line(terminal: tuple[int, str]) -> None:
    board, name = terminal
    with open_port(name, 115200) as line:
        os.write(board, b"@boot\r\n\xffx\n" + b"y" * 1500 + b"z")
        lines = list(islice(console_lines(line), 3))
    assert lines[:2] == ["@boot", "�x"]
    assert len(lines[2]) > 1024
