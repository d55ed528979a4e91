# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM end every phase at once, and leave neither children nor halves behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from invalid.case import Sandbox, only_document
from invalid.makers import firmware
from poetfw.common.interrupts import uninterrupted

HARD = "build --board linux --model resnet8 --ram 9000000"
EASY = "build --board linux --model mlp --batch 8 --ram 1000000"
ENDS_WITHIN_S = 20.0
"""On a machine with much else to do."""

pytestmark = pytest.mark.usefixtures("interruptible")


@contextmanager
def poetfw(sandbox: Sandbox, command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "poetfw.cli.main", *command.split()],
        cwd=sandbox.work,
        env={**os.environ, "TMPDIR": str(sandbox.root / "tmp"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupt(
    sandbox: Sandbox, command: str, said: str, delay_s: float = 0.3, number: int = signal.SIGINT
) -> None:
    """Send a signal some time after a command has said something; check how it ends."""
    with poetfw(sandbox, f"{command} --json") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if said in line:
                break
        else:
            pytest.fail(f"never said {said!r}")
        time.sleep(delay_s)
        assert process.poll() is None, "it ended before it was interrupted"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr, stderr
    assert only_document(stdout)["error"]["exit_code"] == 130
    assert sandbox.processes_left() == []
    assert list((sandbox.root / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_static_data_is_measured(sandbox: Sandbox, number: int) -> None:
    interrupt(sandbox, "build --board linux --model mlp", "static data", 0.1, number)
    assert list(sandbox.work.iterdir()) == []


def test_while_solving(sandbox: Sandbox) -> None:
    interrupt(sandbox, HARD, "solving", delay_s=1)
    assert list(sandbox.work.iterdir()) == []


@pytest.mark.parametrize("bank", ["", "fast"])
def test_while_placing_what_is_known_is_kept(sandbox: Sandbox, bank: str) -> None:
    rng = random.Random(1)
    rows = ["id,lower,upper,size,alignment,bank"]
    for i in range(300):
        begin, size = rng.randrange(100), rng.randint(1, 9_999)
        rows.append(f"b{i},{begin},{begin + 20},{size},{rng.choice([700, 1100, 1300])},{bank}")
    (sandbox.work / "buffers.csv").write_text("\n".join(rows))
    command = "place buffers.csv --bank fast=0:100000 --out placed.csv --json"
    with poetfw(sandbox, command) as process:
        assert process.stderr is not None
        assert "placing" in process.stderr.readline()
        time.sleep(1.5)
        assert process.poll() is None, "it ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 130, stderr
    placed = only_document(stdout)
    assert placed["status"] == "interrupted"
    assert all(b["offset"] is not None for b in placed["buffers"])
    assert (sandbox.work / "placed.csv").read_text().count("\n") == 301


@pytest.mark.parametrize("delay_s", [0.0, pytest.param(0.7, marks=pytest.mark.slow)])
def test_while_compiling(
    sandbox: Sandbox, delay_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt(sandbox, EASY, "compiling", delay_s)
    assert [path.name for path in (sandbox.work / "build").iterdir()] == ["linux"]
    refused = sandbox.run("run --board linux", capsys)
    assert refused.code == 1
    assert "was generated but not compiled" in refused.stderr
    assert sandbox.run(EASY, capsys).code == 0
    assert sandbox.run("run --board linux --steps 2", capsys).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_running(sandbox: Sandbox, built: Path, number: int) -> None:
    before = sandbox.tree()
    firmware("sleep 60 & sleep 60")(sandbox.work)
    during = sandbox.tree()
    interrupt(sandbox, "run --board linux", "training", number=number)
    assert sandbox.tree() == during != before


@pytest.mark.parametrize("said", ["building the traced run", "recording the ops"])
def test_while_verifying(sandbox: Sandbox, built: Path, said: str) -> None:
    interrupt(sandbox, "run --board linux --steps 40 --verify", said, delay_s=0)
    folder = sandbox.work / "build/linux/run/traced"
    assert not (folder / "run/storage.img").exists()
    assert not folder.exists() or (folder / "poetfw.json").is_file()


def test_what_was_started_to_ignore_ctrl_c_does_so_but_can_be_ended(sandbox: Sandbox) -> None:
    """As a shell without job control starts what ends in `&`: Ctrl-C is meant for others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with poetfw(sandbox, f"{HARD} --json") as process:
        assert process.stderr is not None
        assert any("solving" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.terminate()
        stdout, stderr = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 130, stderr
    assert only_document(stdout)["error"]["exit_code"] == 130


def test_a_block_may_end_before_the_interrupt_does() -> None:
    ended = False

    def block() -> None:
        nonlocal ended
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            ended = True

    with pytest.raises(KeyboardInterrupt):
        block()
    assert ended


def test_other_threads_are_never_interrupted() -> None:
    done = []

    def work() -> None:
        with uninterrupted():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
