# SPDX-License-Identifier: Apache-2.0
"""A board on the desk, as a user has it: commands, a port, and a real firmware at its other end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emulator.test_serial_line import started
from sshd import NAME, computer, needs_ssh
from system.commands import needs_twin, poetfw, succeed

pytestmark = pytest.mark.slow

STEPS = ("--steps", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("linux")
    succeed("build", "--board", "linux", "--model", "mlp", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def here(folder: Path) -> Any:
    """The same run without a line; its image is kept."""
    report = succeed("run", "--board", "linux", *STEPS, "--verify", cwd=folder)
    shutil.copy(folder / report["trained"], folder / "here.img")
    return report


@pytest.fixture
def elf(folder: Path) -> Path:
    return folder / "build/linux/.pio/build/linux/firmware.elf"


def same_run(report: Any, other: Any) -> None:
    for key in ("loss", "accuracy", "steps", "high_water_bytes", "storage_bytes_read"):
        assert report[key] == other[key], key
    assert report["storage_bytes_written"] == other["storage_bytes_written"]
    assert report["verify"]["ok"]
    assert report["verify"]["bit_identical_to_unscheduled"] is True
    assert report["verify"]["bit_identical_to_traced"] is True
    assert report["emulator"] is None
    assert report["emulated"] is False


def test_from_an_empty_card_to_trained_weights(
    folder: Path, here: Any, elf: Path, tmp_path: Path
) -> None:
    image = (folder / "build/linux/storage.img").read_bytes()
    card = tmp_path / "storage.img"
    card.write_bytes(bytes(len(image) + 4096))
    with started("posix", elf, tmp_path, "listen") as port:
        early = poetfw("run", "--on-board", "--port", port, cwd=folder)
        assert early.code == 4
        assert "holds no image" in early.stderr
        sent = succeed("flash", "--storage", "--port", port, cwd=folder)
        assert sent["blocks"] == len(image) // 512 >= sent["sent"] > 1000
        assert card.read_bytes()[: len(image)] == image
        assert succeed("flash", "--storage", "--port", port, cwd=folder)["sent"] == 0
        report = succeed("run", "--on-board", "--port", port, *STEPS, "--verify", cwd=folder)
        same_run(report, here)
        assert report["port"] == port
        pulled = tmp_path / "pulled.img"
        succeed("pull", "--port", port, "-o", pulled, cwd=folder)
        assert pulled.read_bytes() == card.read_bytes()[: len(image)]


def test_an_upload_that_ctrl_c_ends_is_resumed(
    folder: Path, elf: Path, tmp_path: Path, interruptible: None
) -> None:
    image = (folder / "build/linux/storage.img").read_bytes()
    card = tmp_path / "storage.img"
    card.write_bytes(bytes(len(image)))
    with started("posix", elf, tmp_path, "listen") as port:
        command = [sys.executable, "-m", "poetfw.cli.main", "flash", "--storage", "--port", port]
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("sending") and "  0/" not in line:
                break
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait() == 130
        run = poetfw("run", "--on-board", "--port", port, "--json", cwd=folder)
        assert run.code == 4
        assert "was not finished" in json.loads(run.stdout)["error"]["message"]
        rest = succeed("flash", "--storage", "--port", port, cwd=folder)
        assert 0 < rest["sent"] < 1800
    assert card.read_bytes() == image


def test_what_is_wrong_has_its_exit_code(folder: Path, elf: Path, tmp_path: Path) -> None:
    def refused(*arguments: str) -> tuple[int, str]:
        result = poetfw(*arguments, "--json", cwd=folder)
        return result.code, json.loads(result.stdout)["error"]["message"]

    (tmp_path / "storage.img").write_bytes(b"a file system".ljust(1 << 21, b"\1"))
    with started("posix", elf, tmp_path, "listen") as port:
        code, said = refused("flash", "--storage", "--port", port)
        assert (code, "what is not poetfw's" in said) == (4, True)
        assert (tmp_path / "storage.img").read_bytes().startswith(b"a file system")
        forced = succeed("flash", "--storage", "--force", "--port", port, cwd=folder)
        image = (folder / "build/linux/storage.img").read_bytes()
        card = (tmp_path / "storage.img").read_bytes()
        left = [
            at for at in range(0, len(image), 512) if card[at : at + 512] != image[at : at + 512]
        ]
        assert forced["blocks"] - forced["sent"] == len(left) < 8, "a gap before what is aligned"
        assert all(image[at : at + 512] == bytes(512) for at in left), "the gap holds nothing"
        with open(port, "rb") as held:  # another program, which locks it as they do
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX)
            code, said = refused("flash", "--storage", "--port", port)
            assert (code, "is busy" in said) == (4, True)
    code, said = refused("flash", "--storage", "--port", "/dev/ttyNone")
    assert (code, "no such device" in said) == (1, True)
    code, said = refused("run", "--on-board", "--host", "-oProxyCommand=x")
    assert (code, "is not a host" in said) == (1, True)
    for wrong in (
        ("run", "--port", "x"),
        ("run", "--on-board", "--port", "x", "--host", "y"),
        ("run", "--on-board", "--emulator", "qemu"),
        ("flash", "--host", "x", "--storage"),
        ("flash", "--force"),
    ):
        assert poetfw(*wrong, cwd=folder).code == 2, wrong


@needs_ssh
def test_a_computer_elsewhere(folder: Path, here: Any, tmp_path: Path) -> None:
    with computer(tmp_path) as there:
        path = {"PATH": f"{there.path}:{os.environ['PATH']}"}
        remote = ("--board", "linux", "--host", NAME)
        early = poetfw("run", "--on-board", *remote, cwd=folder, **path)
        assert early.code == 4
        assert "is not this build's program" in early.stderr
        flashed = succeed("flash", *remote, cwd=folder, **path)
        assert flashed["folder"] == "poetfw/linux"
        files = {file.name for file in (there.home / "poetfw/linux").iterdir()}
        assert files == {"firmware.elf", "storage.img"}
        report = succeed("run", "--on-board", *remote, *STEPS, "--verify", cwd=folder, **path)
        same_run(report, here)
        assert report["port"] == NAME
        trained = (folder / report["trained"]).read_bytes()
        assert trained == (folder / "here.img").read_bytes()
        left = (there.home / "poetfw/linux/storage.img").read_bytes()
        assert left[9 * 512 :] == trained[9 * 512 :]

        resumed = ("run", "--on-board", *remote, "--steps", "5", "--resume")
        report = succeed(*resumed, cwd=folder, **path)
        whole = succeed("run", "--board", "linux", "--steps", "5", cwd=folder)
        assert (report["resumed_from"], report["loss"]) == (3, whole["loss"][3:])
        succeed("build", "--board", "linux", "--model", "mlp", "--seed", "7", cwd=folder)
        refused = poetfw(*resumed, cwd=folder, **path)
        assert (refused.code, "was of another build" in refused.stderr) == (1, True)


@pytest.mark.emulator
@needs_twin
def test_the_mkr1000_over_its_emulators_serial_line(tmp_path: Path) -> None:
    """A card that holds all but two blocks of the image: what is there is not sent."""
    succeed("build", "--board", "mkr1000", cwd=tmp_path)
    direct = succeed("run", "--board", "mkr1000", "--steps", "2", cwd=tmp_path)
    project = tmp_path / "build/mkr1000"
    image = (project / "storage.img").read_bytes()
    trained = (project / "run/storage.img").read_bytes()
    card = tmp_path / "storage.img"
    changed = bytearray(image.ljust(1 << 20, b"\0"))
    changed[30 * 512] ^= 1
    changed[40 * 512] ^= 1
    card.write_bytes(changed)
    twin = project / ".pio/build/mkr1000-twin/firmware.elf"
    with started("lm3s6965", twin, tmp_path, "listen") as port:
        at = ("--board", "mkr1000", "--port", port)
        assert succeed("flash", "--storage", *at, cwd=tmp_path)["sent"] == 2
        assert card.read_bytes()[: len(image)] == image
        report = succeed("run", "--on-board", *at, "--steps", "2", "--verify", cwd=tmp_path)
        pulled = tmp_path / "pulled.img"
        succeed("pull", *at, "-o", pulled, cwd=tmp_path)
    assert report["loss"] == direct["loss"]
    assert report["accuracy"] == direct["accuracy"]
    assert report["verify"]["ok"]
    assert report["verify"]["bit_identical_to_unscheduled"] is True
    assert 0 < report["stack_high_water_bytes"] < 2048
    slots = len(image) - 31 * 512
    assert pulled.read_bytes()[slots:][:4096] == trained[slots:][:4096]
