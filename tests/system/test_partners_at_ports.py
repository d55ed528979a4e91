# SPDX-License-Identifier: Apache-2.0
"""Programs that train together, on boards at ports: terminals, and a chip's model at a socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from emulator.test_serial_line import started
from poetfw.common.errors import DeviceError
from poetfw.firmware import RunRequest
from poetfw.runs.desks import by_desk, reach
from poetfw.runs.execution import BuiltProject, open_build
from poetfw.runs.observer import RunObserver
from poetfw.runs.running import run_build
from poetfw.settings import RunSettings
from poetfw.tools.link import PortLine
from system.commands import needs_twin, poetfw, succeed
from system.test_partners import (
    FILES,
    Noisy,
    built,
    check,
    program_of,
    two,
    values_of,
    write_plan,
)

__all__ = ["built", "two"]

FOREVER = ("--steps", "1000000")


@contextlib.contextmanager
def at_a_terminal(folder: Path, name: str, program: Path | None = None) -> Iterator[str]:
    """A device's program behind a pseudo-terminal, with its samples and weights; the port."""
    card = folder.parent / f"card-{name}"
    card.mkdir(exist_ok=True)
    shutil.copy(folder / name / "storage.img", card)
    with started("posix", program or program_of(folder, name), card, "listen") as port:
        yield port


def process_of(folder: Path, name: str) -> int:
    """The id of a device's program behind a terminal."""
    card = (folder.parent / f"card-{name}").resolve()
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if cwd.resolve() == card and (cwd.parent / "cmdline").read_bytes():
                return int(cwd.parent.name)
    raise AssertionError(f"nothing runs in {card}")


@contextlib.contextmanager
def begun(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A run that is training."""
    words = [sys.executable, "-m", "poetfw.cli.main", "run", "--out", str(folder), *FOREVER]
    with subprocess.Popen([*words, *options], stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr is not None
            while not run.stderr.readline().startswith("training"):
                assert run.poll() is None
            time.sleep(1)
            assert run.poll() is None
            yield run
        finally:
            run.kill()


def ended(run: subprocess.Popen[str], within_s: float) -> tuple[int, str]:
    """The exit code and what is said until then, which must be there within so long."""
    since = time.monotonic()
    assert run.stderr is not None
    said = run.stderr.read()
    code = run.wait()
    assert time.monotonic() - since < within_s
    return code, said


@pytest.mark.slow
def test_two_boards_and_a_board_with_a_twin(two: Path) -> None:
    """To the same bits; a second run begins with the initial weights again."""
    steps = ("--steps", "3")
    twins = succeed("run", "--out", two, *steps, cwd=two)
    wanted = values_of(two)
    with at_a_terminal(two, "linux-big") as big, at_a_terminal(two, "linux-small") as small:
        ports = {"linux-big": big, "linux-small": small}
        for chosen in (("linux-small",), ("linux-big", "linux-small")):
            at = [word for name in chosen for word in ("--port", f"{name}={ports[name]}")]
            run = succeed("run", "--out", two, *steps, *at, "--verify", cwd=two)
            assert run["verify"]["ok"]
            assert run["loss"] == twins["loss"]
            assert values_of(two) == wanted
            for name, one in run["memories"].items():
                there = ports[name] if name in chosen else None
                emulator = None if name in chosen else "native"
                assert (one["port"], one["emulator"], one["emulated"]) == (there, emulator, False)
    said = poetfw("run", "--out", two, *steps, cwd=two)
    assert said.code == 0
    assert "this computer" in said.stdout


@needs_twin
@pytest.mark.slow
def test_an_nrf52840_at_a_socket_and_a_computer_at_a_terminal(tmp_path: Path) -> None:
    """The program that is flashed, drivers included, on the model of its chip."""
    names = {"linux-big": "gateway", "linux-small": "sensor"}
    answer = write_plan(tmp_path / "answer.json", "mlp", 1, names)
    able = re.sub(r"(?m)^lacks = .*\n", "", (FILES / "gateway.toml").read_text())
    (tmp_path / "gateway.toml").write_text(able)
    devices = f"{tmp_path / 'gateway.toml'},{FILES / 'sensor.toml'}"
    options = ("--devices", devices, "--apart", "--model", "mlp", "--batch", "4")
    folder = tmp_path / "two"
    build = succeed("build", *options, "--replay", answer, "--out", folder, cwd=tmp_path)
    card = tmp_path / "card"
    card.mkdir()
    content = (folder / "sensor/storage.img").read_bytes()
    (card / "storage.img").write_bytes(content.ljust(4 << 20, b"\0"))
    chip = folder / "sensor/.pio/build/nrf52840-system/firmware.elf"
    with started("nrf52840", chip, card) as sensor, at_a_terminal(folder, "gateway") as gateway:
        at = ("--port", f"sensor={sensor}", "--port", f"gateway={gateway}")
        run = succeed("run", "--out", folder, "--steps", "2", *at, "--verify", cwd=tmp_path)
        check(build, run)
        assert run["memories"]["sensor"]["port"] == sensor
        assert run["memories"]["sensor"]["computed"]
        swapped = ("--port", f"sensor={gateway}", "--port", f"gateway={sensor}")
        refused = poetfw("run", "--out", folder, *swapped, cwd=tmp_path)
        assert refused.code == 4
        assert "is that of 'gateway'" in refused.stderr or "is that of 'sensor'" in refused.stderr
        assert "give each device its own --port" in refused.stderr
    away = poetfw("run", "--out", folder, *at, cwd=tmp_path)
    assert (away.code, "cannot be opened" in away.stderr) == (1, True)


# What goes wrong ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_board_that_is_pulled_out_in_mid_step(two: Path) -> None:
    """The other one is not waited for."""
    with at_a_terminal(two, "linux-big") as big, at_a_terminal(two, "linux-small") as small:
        with begun(two, "--port", f"linux-big={big}", "--port", f"linux-small={small}") as run:
            os.kill(process_of(two, "linux-small"), signal.SIGKILL)
            code, said = ended(run, 20)
        assert code == 4
        assert f"device 'linux-small': {small}: the connection is lost" in said
        again = poetfw("run", "--out", two, "--port", f"linux-big={big}", "--steps", "2", cwd=two)
        assert again.code == 0, again.stderr  # the one that is left can begin anew


@pytest.mark.slow
def test_a_board_that_is_silent_ends_the_run_after_what_was_said(two: Path) -> None:
    with at_a_terminal(two, "linux-small") as small:
        at = ("--port", f"linux-small={small}")
        with begun(two, *at, "--silence", "5") as run:
            os.kill(process_of(two, "linux-small"), signal.SIGSTOP)
            code, said = ended(run, 30)
    assert code == 4
    assert "device 'linux-small': the board does not answer: it said nothing for 5 s" in said
    assert "raise --silence if it just takes longer" in said


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_boards(two: Path, interruptible: None) -> None:
    with at_a_terminal(two, "linux-small") as small:
        with begun(two, "--port", f"linux-small={small}") as run:
            os.kill(process_of(two, "linux-small"), signal.SIGSTOP)
            time.sleep(1)
            run.send_signal(signal.SIGINT)
            code, _ = ended(run, 20)
    assert code == 130


@pytest.mark.slow
def test_what_is_at_a_port_and_should_not_be(two: Path, tmp_path: Path) -> None:
    def refused(*ports: str) -> tuple[int, str]:
        at = [word for port in ports for word in ("--port", port)]
        result = poetfw("run", "--out", two, "--steps", "2", *at, cwd=two)
        return result.code, result.stderr

    assert refused("linux-small=/dev/ttyNone") == (1, refused("linux-small=/dev/ttyNone")[1])
    assert (
        "'/dev/ttyNone' cannot be opened: there is no such device"
        in refused("linux-small=/dev/ttyNone")[1]
    )
    with at_a_terminal(two, "linux-big") as big:
        code, said = refused(f"linux-small={big}")
        assert code == 4
        assert f"device 'linux-small': the program that answers at {big} is that of" in said
        with open(big, "rb") as held:  # another program, which locks it as they do
            fcntl.flock(held, fcntl.LOCK_EX)
            code, said = refused(f"linux-big={big}")
            assert (code, f"{big!r} is busy" in said) == (4, True)
    other = tmp_path / "alone"
    succeed("build", "--board", "linux", "--model", "mlp", "--out", other, cwd=tmp_path)
    program = other / ".pio/build/linux/firmware.elf"
    with at_a_terminal(two, "linux-small", program) as port:
        code, said = refused(f"linux-small={port}")
        assert code == 4
        assert "device 'linux-small': the firmware on the board is of another build" in said
        assert f"poetfw flash --out {two / 'linux-small'} --port {port}" in said
    with at_a_terminal(two, "linux-small") as port:
        (two.parent / "card-linux-small/storage.img").write_bytes(bytes(1 << 20))
        code, said = refused(f"linux-small={port}")
        assert code == 4
        assert "device 'linux-small': the board's storage holds no image" in said
        assert f"poetfw flash --out {two / 'linux-small'} --port {port} --storage" in said


@contextlib.contextmanager
def served(answer: bytes | None) -> Iterator[str]:
    """A socket at which something says the same again and again, or hangs up; the port."""
    ends = threading.Event()

    def serve() -> None:
        taken, _ = server.accept()
        with taken, contextlib.suppress(OSError):
            while answer is not None and not ends.is_set():
                taken.sendall(answer)
                time.sleep(0.01)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        ends.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\xff\x00m-ready noise\n", "the line is too noisy"),
        (b"x" * 300, "the line is too noisy"),
        (None, "the connection is lost"),
    ],
)
def test_noise_at_a_port(two: Path, answer: bytes | None, said: str) -> None:
    with served(answer) as port:
        result = poetfw("run", "--out", two, "--port", f"linux-small={port}", cwd=two)
    assert result.code == 4
    assert "device 'linux-small': " in result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2e-4, 0.05])
def test_a_noisy_line_to_a_board(two: Path, rate: float) -> None:
    """Damaged bytes are sent again, and too many end the run."""
    lines = []

    @contextlib.contextmanager
    def noisy(project: BuiltProject, port: str | None, request: RunRequest) -> Iterator[PortLine]:
        with reach(project, port, request) as line:
            lines.append(Noisy(line, rate, seed=len(lines)))
            yield lines[-1]

    with at_a_terminal(two, "linux-small") as small:
        ports = {"linux-small": small}
        build = open_build(two, on_board=ports)
        launch = partial(by_desk, ports)
        over_noise = partial(launch, connect=noisy)
        settings = RunSettings(steps=2, timeout_s=40.0 if rate > 0.01 else 120.0)
        if rate > 0.01:
            with pytest.raises(DeviceError, match="device 'linux-"):
                run_build(build, settings, over_noise, RunObserver())
            return
        report = run_build(build, settings, over_noise, RunObserver())
        wanted = values_of(two)
        clean = run_build(build, settings, launch, RunObserver())
    assert sum(line.faults for line in lines) > 5
    assert report.loss == clean.loss
    assert values_of(two) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "other=x"), "with a device of the build: 'linux-big', 'linux-small'"),
        (("--on-board",), "on a twin or at --port DEVICE=PORT"),
        (("--host", "x@y"), "--host is for a build of one program"),
        (("--silence", "0"), "--silence"),
    ],
)
def test_ports_that_make_no_sense(built: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = poetfw("run", "--out", built, *arguments, cwd=built)
    assert refused.code == 2, refused.stderr
    assert said in " ".join(refused.stderr.split())
