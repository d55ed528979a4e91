# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import poetfw
from poetfw.boards import Machine, list_boards, load_board
from poetfw.common.errors import BoardError, ToolError
from poetfw.tools.emulators import EMULATORS, emulator_of

QEMU = load_board("nrf52840").twin().machine
NATIVE = load_board("linux").twin().machine
USER = load_board("rpi4").twin().machine
UNICORN = load_board("nrf52840").twin("unicorn").machine
CARD = replace(QEMU, machine="lm3s6965evb", cpu="cortex-m0", options=("sd-card",))


def test_what_the_twin_of_nrf52840_is_started_with() -> None:
    assert emulator_of(QEMU).command(QEMU, Path("/a/firmware.elf")) == [
        *("qemu-system-arm", "-M", "mps2-an386"),
        *("-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-icount", "shift=0", "-semihosting-config", "enable=on,target=native"),
        *("-kernel", "/a/firmware.elf"),
    ]


def test_a_machine_with_another_processor_and_a_card() -> None:
    assert emulator_of(CARD).command(CARD, Path("/a/firmware.elf")) == [
        *("qemu-system-arm", "-M", "lm3s6965evb", "-cpu", "cortex-m0"),
        *("-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-drive", "if=sd,format=raw,file=storage.img"),
        *("-kernel", "/a/firmware.elf"),
    ]


def test_a_processor_under_this_computers_system() -> None:
    assert emulator_of(USER).command(USER, Path("/a/firmware.elf")) == [
        *("qemu-aarch64", "-cpu", "cortex-a72", "/a/firmware.elf"),
    ]
    tx2 = load_board("tx2").twin().machine
    assert "cortex-a57" in emulator_of(tx2).command(tx2, Path("/a/firmware.elf"))


def test_a_chips_model_is_a_process_that_takes_no_module_from_where_it_runs() -> None:
    module = "poetfw.tools.emulators.unicorn"
    assert emulator_of(UNICORN).command(UNICORN, Path("/a/firmware.elf")) == [
        *(sys.executable, "-P", "-m", module, "nrf52840", "/a/firmware.elf"),
    ]


def test_this_computer_runs_the_program_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("firmware.elf")
    emulator = emulator_of(NATIVE)
    assert emulator.command(NATIVE, tmp_path / "link") == [str(tmp_path / "firmware.elf")]
    emulator.require()


def test_who_emulates() -> None:
    assert emulator_of(QEMU).emulates
    assert emulator_of(USER).emulates
    assert not emulator_of(NATIVE).emulates


@pytest.mark.parametrize(
    ("image_bytes", "room_bytes", "card_bytes"),
    [
        (512, 0, 2**20),
        (2**20, 0, 2**20),
        (2**20, 1, 2**21),
        (2**20 + 512, 0, 2**21),
        (3 * 2**20, 2**28, 2**29),
    ],
)
def test_a_card_in_qemu_is_a_power_of_two(
    tmp_path: Path, image_bytes: int, room_bytes: int, card_bytes: int
) -> None:
    image = tmp_path / "storage.img"
    image.write_bytes(b"\1" * image_bytes)
    emulator_of(CARD).prepare(CARD, image, room_bytes)
    assert image.stat().st_size == card_bytes
    with image.open("rb") as file:
        assert file.read(image_bytes) == b"\1" * image_bytes
        assert not any(file.read(2**20))


@pytest.mark.parametrize(
    ("image_bytes", "room_bytes", "units"), [(1, 0, 1), (2**19, 0, 1), (2**19, 1, 2), (1, 2**21, 5)]
)
def test_a_chips_card_is_a_whole_number_of_units(
    tmp_path: Path, image_bytes: int, room_bytes: int, units: int
) -> None:
    image = tmp_path / "storage.img"
    image.write_bytes(b"\1" * image_bytes)
    emulator_of(UNICORN).prepare(UNICORN, image, room_bytes)
    assert image.read_bytes() == (b"\1" * image_bytes).ljust(units * 2**19, b"\0")


@pytest.mark.parametrize("machine", [QEMU, USER, NATIVE])
def test_a_file_stays_as_it_is(tmp_path: Path, machine: Machine) -> None:
    image = tmp_path / "storage.img"
    image.write_bytes(b"\1" * 1000)
    emulator_of(machine).prepare(machine, image, 2**20)
    assert image.read_bytes() == b"\1" * 1000


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (replace(QEMU, emulator="sh"), "poetfw knows no emulator 'sh'"),
        (replace(QEMU, options=("-monitor",)), "'qemu-system-arm' has no option '-monitor'"),
        (replace(QEMU, machine=None), "'qemu-system-arm' must be told which machine"),
        (replace(QEMU, machine="mps9"), "'qemu-system-arm' knows no 'mps9' for its option -M"),
        (replace(USER, cpu="cortex-a570"), "'qemu-aarch64' knows no 'cortex-a570'"),
        (replace(USER, options=("semihosting",)), "'qemu-aarch64' has no option 'semihosting'"),
        (replace(USER, machine="virt"), "'qemu-aarch64' takes no machine, only a cpu"),
        (replace(USER, cpu=None), "'qemu-aarch64' must be told which cpu"),
        (replace(NATIVE, options=("semihosting",)), "'native' has no option 'semihosting'"),
        (replace(UNICORN, machine="nrf52832"), "'unicorn' has no machine 'nrf52832'"),
        (replace(UNICORN, cpu="cortex-m0"), "'nrf52840' with the cpu 'cortex-m0'"),
        (replace(NATIVE, machine="virt"), "'native' takes neither machine nor cpu"),
        (replace(NATIVE, cpu="max"), "'native' takes neither machine nor cpu"),
    ],
)
def test_what_an_emulator_does_not_know(machine: Machine, message: str) -> None:
    with pytest.raises(BoardError, match=message):
        emulator_of(machine)


def test_an_emulator_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="qemu-system-arm is not installed") as error:
        emulator_of(QEMU).require()
    assert "sudo apt-get install qemu-system-arm" in error.value.try_next[0]


def test_a_python_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator_of(UNICORN).require()
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with pytest.raises(ToolError, match="unicorn is not installed") as error:
        emulator_of(UNICORN).require()
    assert "pip install 'poetfw[unicorn]'" in error.value.try_next[0]


def test_every_board_names_emulators_that_there_are() -> None:
    for board in list_boards():
        for twin in board.twins:
            assert emulator_of(twin.machine).name in EMULATORS
            assert emulator_of(twin.reference).name in EMULATORS


NEW = """
from pathlib import Path

from poetfw.boards import Machine
from poetfw.tools.emulators.base import Emulator, register


class Echo(Emulator):
    name = "echo"
    package = "coreutils"

    def command(self, machine: Machine, elf: Path) -> list[str]:
        return ["echo", str(elf)]


register(Echo())
"""


def test_one_file_makes_an_emulator(tmp_path: Path) -> None:
    package = tmp_path / "poetfw"
    source = Path(poetfw.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "tools/emulators/echo.py").write_text(NEW)
    show = "from poetfw.tools.emulators import EMULATORS; print(*sorted(EMULATORS))"
    result = subprocess.run(
        [sys.executable, "-c", show],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == sorted([*EMULATORS, "echo"])
