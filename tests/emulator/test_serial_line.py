# SPDX-License-Identifier: Apache-2.0
"""A board's storage and training over the serial line of an emulator, and of a program here."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import struct
import subprocess
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.firmware_tools import CORTEX_M0PLUS, compile_sample, needs_qemu, qemu, run_program
from emulator.test_netduinoplus2 import compile_twin
from poetfw.boards import load_board
from poetfw.runs import on_board
from poetfw.runs.observer import RunObserver
from poetfw.settings import RunSettings
from poetfw.tools import emulator_of
from poetfw.tools.link import Desk, DeviceLink, open_port
from unit.link.link_device import BLOCK, run_at_desk, sample_image, sample_project

STEPS = 2
CARD_BYTES = 1 << 20
FLASH_BYTES = 8 << 20
CHIPS = {"nrf52840": "nrf52840", "nrf52840_qspi": "nrf52840:qspi"}
SMALL = {"ram_bytes": 32768, "flash_bytes": 262144, "stack_bytes": 2048}


@contextmanager
def started(hal: str, elf: Path, folder: Path, *words: str) -> Iterator[str]:
    """The firmware with its console at a port."""
    if hal == "posix":
        board, ours = pty.openpty()
        tty.setraw(ours)
        command = [str(elf), "storage.img", *words]
        process = subprocess.Popen(command, cwd=folder, stdin=board, stdout=board)
        os.close(board)
        port = os.ttyname(ours)
    else:
        ours = os.open(os.devnull, os.O_RDONLY)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = free.getsockname()[1]
        command = machine(hal, elf)
        if hal in CHIPS:
            command.append(str(number))
        else:
            listen_at(command, number, words)
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
        while True:  # until it is there; a hang ends with the test's time
            with socket.socket() as probe:
                if process.poll() is not None or probe.connect_ex(("127.0.0.1", number)) == 0:
                    break
        port = f"socket://127.0.0.1:{number}"
    try:
        yield port
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(ours)


def listen_at(command: list[str], port: int, words: Sequence[str]) -> None:
    """Have QEMU's machine have its console at a port, and the firmware told some words."""
    command[command.index("stdio")] = f"tcp:127.0.0.1:{port},server=on,wait=off"
    arguments = "".join(f",arg={word}" for word in ("firmware", *words))
    command[command.index("enable=on,target=native")] += arguments


def machine(hal: str, elf: Path) -> list[str]:
    if hal == "posix":
        return [str(elf)]
    if hal in CHIPS:
        chip = load_board(CHIPS[hal]).twin("unicorn").machine
        return emulator_of(chip).command(chip, elf)
    if hal in ("mps2", "netduinoplus2"):
        return qemu({"mps2": "mps2-an386"}.get(hal, hal), elf, "-icount", "shift=0")
    card = ("-drive", "if=sd,format=raw,file=storage.img")
    return qemu("lm3s6965evb", elf, "-cpu", "cortex-m0", "-icount", "shift=0", *card)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("firmware")


def compile_for(hal: str, folder: Path) -> Path:
    elf = folder / f"{hal}.elf"
    if elf.exists():
        return elf
    if hal == "lm3s6965":
        return compile_sample(elf, hal, machine=CORTEX_M0PLUS, **SMALL)
    if hal == "netduinoplus2":
        return compile_twin(elf)
    return compile_sample(elf, hal)


@pytest.mark.parametrize(
    "hal",
    [
        "posix",
        pytest.param("lm3s6965", marks=[pytest.mark.slow, pytest.mark.emulator, needs_qemu]),
        pytest.param("nrf52840", marks=[pytest.mark.slow, pytest.mark.emulator, needs_qemu]),
        pytest.param("nrf52840_qspi", marks=[pytest.mark.slow, pytest.mark.emulator, needs_qemu]),
        pytest.param("mps2", marks=[pytest.mark.slow, pytest.mark.emulator, needs_qemu]),
        pytest.param("netduinoplus2", marks=[pytest.mark.slow, pytest.mark.emulator, needs_qemu]),
    ],
)
def test_an_empty_card_is_filled_trained_on_and_read(
    hal: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = sample_image(monkeypatch, steps=STEPS, flags=2)
    project = sample_project(tmp_path, image)
    elf = compile_for(hal, folder)
    direct, desk_folder = tmp_path / "direct", tmp_path / "desk"
    for place, content in ((direct, image), (desk_folder, b"")):
        place.mkdir()
        if hal == "nrf52840_qspi":
            content = content.ljust(FLASH_BYTES, b"\xff")
        (place / "storage.img").write_bytes(content.ljust(CARD_BYTES, b"\0"))
    code, lines = run_program(machine(hal, elf), direct)
    assert code == 0, lines

    with started(hal, elf, desk_folder, "listen") as port:
        for _ in range(2):  # each time with a port of its own
            with open_port(port, 115200) as line:
                upload = on_board.flash_storage(
                    project, Desk(DeviceLink(line)), False, lambda *progress: None
                )
        assert upload.sent == 0
        with open_port(port, 115200) as line:
            link = DeviceLink(line)
            desk = Desk(link)
            report = run_at_desk(project, RunSettings(STEPS), desk, port, RunObserver())
            on_board.pull(project, desk, tmp_path / "pulled", lambda *progress: None)

    losses = re.findall(r"@step \d+ loss=([0-9a-f]{8})", "\n".join(lines))
    assert [struct.pack(">f", loss).hex() for loss in report.loss] == losses
    stored = (direct / "storage.img").read_bytes()
    assert (desk_folder / "storage.img").read_bytes() == stored
    assert (tmp_path / "pulled").read_bytes() == stored[: len(image)]
    done = dict(re.findall(r"(\w+)=(\S+)", lines[-1]))
    assert report.high_water_bytes == int(done["high_water"])
    if link.failures == 0:  # on a computer that is slow, what is asked for again is done again
        assert report.storage_bytes_read == int(done["read"])
        assert report.storage_bytes_written == int(done["written"])
        assert (report.storage_erases or 0) == int(done.get("erases", 0))
    assert report.emulated == (hal in ("lm3s6965", "mps2", "netduinoplus2"))
    if report.emulated:
        assert report.instructions == pytest.approx(int(done["ticks"]), rel=0.01)
        assert 0 < report.stack_high_water_bytes < 2048
    assert (
        Path(report.trained).read_bytes()[-8 * BLOCK :][:4] == stored[len(image) - 8 * BLOCK :][:4]
    )


def test_a_program_ends_with_its_input(folder: Path, tmp_path: Path) -> None:
    """Listening for ever is for boards."""
    elf = compile_for("posix", folder)
    (tmp_path / "storage.img").write_bytes(bytes(CARD_BYTES))
    process = subprocess.run(
        [elf, "storage.img", "listen"],
        cwd=tmp_path,
        input=b"name%",
        capture_output=True,
        timeout=60,
    )
    assert process.returncode == 0
    assert process.stdout.endswith(b"m-name-dut-[poetfw]\r\nm-ready\r\n")
