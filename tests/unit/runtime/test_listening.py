# SPDX-License-Identifier: Apache-2.0
"""When the firmware listens, and who is then in charge."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c, sample_image
from poetfw.tools.link.frames import encode_command
from unit.runtime.conftest import BLOCK_DEVICE

WINDOW, STEPS = 1000, 3
FOR_EVER = 2**64 - 1
ASLEEP = 76
"""How a run ends whose board sleeps, and is told nothing more."""
HELLO = encode_command(5, "hello")
STEP = re.compile("@step (.)")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folders = [SAMPLE / "src/generated", TEMPLATES / "runtime", TEMPLATES / "storage"]
    left_out = ("poet_memory.c", "sd.c", "sd_storage.c")
    sources = [f for d in folders for f in sorted(d.glob("*.c")) if f.name not in left_out]
    here = Path(__file__).with_name("listening.c")
    return compile_c(
        tmp_path_factory.mktemp("listening") / "listening.so",
        [here, BLOCK_DEVICE, *sources],
        [*folders, TEMPLATES / "hal"],
        *("-shared", "-fPIC"),
    )


class Board:
    """The sample project, to which something will be said."""

    def __init__(self, library: Path, window: int = WINDOW) -> None:
        with NamedTemporaryFile(suffix=".so") as copy:
            copy.write(library.read_bytes())
            copy.flush()
            self._library = ctypes.CDLL(copy.name)
        self._library.test_device_reset()
        image = bytes(sample_image(steps=STEPS))
        device = (ctypes.c_uint8 * len(image)).in_dll(self._library, "test_device")
        ctypes.memmove(device, image, len(image))
        ctypes.c_uint64.in_dll(self._library, "test_listen_ticks").value = window
        self._said: list[bytes] = []

    def say(self, tick: int, text: bytes) -> Board:
        self._said.append(text)
        self._library.test_say(ctypes.c_uint64(tick), ctypes.c_char_p(text))
        return self

    def run(self) -> tuple[int, str]:
        code = self._library.test_run()
        console = (ctypes.c_char * 8192).in_dll(self._library, "test_console").value
        return code, console.decode().replace("\r", "")

    @property
    def ticks(self) -> int:
        """The time."""
        read = self._library.poet_hal_ticks
        read.restype = ctypes.c_uint64
        return int(read())


def steps(console: str) -> list[str]:
    return STEP.findall(console)


def test_a_firmware_that_never_listens_trains_and_ends(library: Path) -> None:
    board = Board(library, 0)
    code, console = board.run()
    assert code == 0
    assert steps(console) == ["1", "2", "3"]
    assert board.ticks < 100


def test_nobody_says_anything(library: Path) -> None:
    code, console = Board(library).run()
    _, silent = Board(library, 0).run()
    assert code == ASLEEP
    assert console == silent  # the ticks of each step, too


def test_before_a_training_it_waits_for_a_while(library: Path) -> None:
    board = Board(library).say(WINDOW * 9 // 10, b"xyz")
    _, console = board.run()
    assert steps(console) == ["1", "2", "3"]
    assert WINDOW <= board.ticks < WINDOW + 100  # whatever came in, it was no command


def test_a_name_makes_it_wait_once_more(library: Path) -> None:
    board = Board(library).say(WINDOW // 2, b"name%")
    _, console = board.run()
    assert console.index("m-name-dut-[poetfw]") < console.index("@train")
    assert steps(console) == ["1", "2", "3"]
    assert WINDOW * 3 // 2 <= board.ticks < WINDOW * 3 // 2 + 100


def test_a_frame_takes_over(library: Path) -> None:
    board = Board(library).say(WINDOW // 2, HELLO).say(50 * WINDOW, b"name%")
    code, console = board.run()
    assert code == ASLEEP
    assert "@train" not in console
    assert console.index("hello 3 5a3b1e00 sample") < console.index("m-name-dut")


def test_a_damaged_frame_does_not(library: Path) -> None:
    _, console = Board(library).say(WINDOW // 2, HELLO.replace(b"5", b"6")).run()
    assert "damaged" in console
    assert steps(console) == ["1", "2", "3"]


def test_between_two_steps_it_listens_where_something_has_come(library: Path) -> None:
    """The first command is lost in part; the same again, within a while, is heard."""
    during = WINDOW + 6
    board = Board(library).say(during, b"llo%").say(during + WINDOW // 2, HELLO)
    code, console = board.run()
    assert code == ASLEEP
    assert 0 < len(steps(console)) < STEPS
    assert "hello 3 5a3b1e00 sample" in console
    assert "@done" not in console


def test_noise_between_two_steps_only_delays(library: Path) -> None:
    board = Board(library).say(WINDOW + 6, b"\xff")
    _, console = board.run()
    assert steps(console) == ["1", "2", "3"]
    assert 2 * WINDOW <= board.ticks < 2 * WINDOW + 100


def test_when_it_is_done_it_listens_for_ever(library: Path) -> None:
    code, console = Board(library).say(500 * WINDOW, HELLO).run()
    assert code == ASLEEP
    assert console.index("@done") < console.index("hello 3 5a3b1e00 sample")


def test_where_it_is_told_to_it_does_nothing_else(library: Path) -> None:
    code, console = Board(library, FOR_EVER).say(5000, b"name%").run()
    assert code == ASLEEP
    assert "@train" not in console
    assert "m-name-dut" in console
