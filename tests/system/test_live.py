# SPDX-License-Identifier: Apache-2.0
"""`poetfw run --live`: what it shows, that it changes no bit, and how it leaves a terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import poetfw
from poetfw.api.firmware import Firmware
from poetfw.api.options import RUN, settings_of
from poetfw.cli import output
from poetfw.cli.live import (
    LiveDisplay,
    Sparkline,
    can_show,
    live_display,
    planned_shares,
    transfers_s,
)
from poetfw.common.transfer import Transfer
from poetfw.firmware import Traffic
from poetfw.memory import ONLY
from poetfw.runs.execution import open_build
from poetfw.runs.observer import StepDone
from poetfw.runs.running import report_steps
from poetfw.tools.console import parse_line

CONSOLE = """\
@boot plan=1a2b3c4d board=linux reset=watchdog
@train steps=4 batch=8 done=0
@transfers requests=3 read=1024 written=0
@step 1 loss=40000000 ticks=1000000
@transfers requests=5 read=2048 written=512
@commit 1 set=1 written=58
@transfers requests=9 read=2048 written=30720
@damaged training=17
@step 2 loss=3f800000 ticks=2000000
@transfers requests=11 read=3072 written=31232
@done ticks=3 tick_unit=ns high_water=60000 stack_high_water=700 read=1 written=2
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    folder = tmp_path_factory.mktemp("live") / "build"
    plan = poetfw.plan("mlp", board="linux", ram="64M", batch=8, work_limit=1)
    return plan.compile(folder)


def test_what_the_console_says_is_shown(built: Firmware) -> None:
    display = LiveDisplay()
    build = open_build(built.folder)
    display.begin(build, 4)
    request: Any = SimpleNamespace(steps=4)
    on_event = report_steps(request, display)
    for line in CONSOLE.splitlines():
        event = parse_line(line.encode())
        assert event is not None
        on_event(event)
    rows = dict(display.rows())
    assert rows["loss"] == "█▁  2.0000 → 1.0000"
    planned_s = built.figures.schedule.time_s
    assert rows["step"] == f"0.002 s, planned {planned_s:.4g} s ({0.002 / planned_s - 1:+.1%})"
    assert rows["storage"].startswith("2 requests, 3 blocks a step, planned ")
    assert " s at the board file's speed, " in rows["storage"]
    assert rows["storage"].endswith("% of the step")
    assert rows["arena"].startswith("60,000 B used, ")
    assert rows["stack"] == "700 B used"
    assert rows["last checkpoint"] == "step 1, 1 steps ago"
    assert rows["resets"] == "0 (starts: watchdog)"
    assert rows["overcome"] == "1, the last damaged: training 17"
    display.repeated(3)
    display.reset("power-on")
    rows = dict(display.rows())
    assert rows["link errors"] == "3 commands sent again"
    assert rows["resets"] == "1 (starts: watchdog, power-on)"


def test_counted_transfers_take_what_the_board_file_says() -> None:
    """One request each way is a page-in and a page-out."""
    page_in, page_out = Transfer(1e6, 0.001, 0.0), Transfer(5e5, 0.003, 0.0)
    assert transfers_s(Traffic(), page_in, page_out) == 0
    both = transfers_s(Traffic(2, 1024, 1024), page_in, page_out)
    assert both == pytest.approx(page_in.time_s(1024) + page_out.time_s(1024))
    assert transfers_s(Traffic(3, 1536, 0), page_in, page_out) == pytest.approx(
        3 * page_in.time_s(512)
    )


def test_shares_are_those_of_the_plan(built: Firmware) -> None:
    project = open_build(built.folder).evaluator
    assert planned_shares(project) == "core 100%, storage 0%"


def test_a_curve_has_the_same_width_whatever_its_length() -> None:
    for length in (1, 7, 48, 1000, 100_000):
        curve = Sparkline(length)
        for number in range(1, length + 1):
            curve.add(number, float(-number))
        text = curve.text()
        assert len(text) == min(length, 48)
        assert list(text) == sorted(text, reverse=True)
        assert (curve.first, curve.last) == (-1.0, float(-length))


def test_a_step_of_several_programs() -> None:
    display = LiveDisplay()
    project: Any = SimpleNamespace(
        board=SimpleNamespace(toolchain=SimpleNamespace(hosted=False), clock_hz=1e6)
    )
    memory = SimpleNamespace(peak_bytes=10, budget_bytes=20)
    display._build = SimpleNamespace(  # type: ignore[assignment]
        apart=True,
        projects={"a": project, "b": project},
        report=SimpleNamespace(
            schedule=SimpleNamespace(time_s=1.0), memories={"a": memory, "b": memory}
        ),
    )
    display.step(StepDone(1, 2, 0.5, {"a": 1_000_000, "b": 500_000}))
    display.moved(Traffic(1, 512, 512))
    display.memory("b", 8, 0)
    rows = dict(display.rows())
    assert rows["step of a"].startswith("1 s (")
    assert rows["step of b"].startswith("0.5 s (")
    assert rows["storage"] == "1 requests, 2 blocks a step"
    assert rows["arena of a"] == "10 B of 20 B planned"
    assert rows["arena of b"] == "8 B used, 10 B of 20 B planned"


def test_the_display_changes_no_bit(built: Firmware, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = built.run(steps=6)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, height=30)
    monkeypatch.setattr(output, "messages", console)
    settings, where, machine, files = settings_of(RUN, {"steps": 6})
    with live_display() as display:
        shown = built.train(settings, where, machine, files, display)
    assert shown.loss == silent.loss
    weights = silent.weights()
    assert all((values == weights[name]).all() for name, values in shown.weights().items())
    said = screen.getvalue()
    assert "step 6 of 6" in said
    assert f"{shown.loss[0]:.4f} → {shown.loss[-1]:.4f}" in said
    assert "step 6" in dict(display.rows())["last checkpoint"]
    assert display._memory[ONLY][0] == shown.figures.high_water_bytes


def test_where_there_is_no_terminal(built: Firmware, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_show(Console(file=io.StringIO()))
    monkeypatch.setenv("TERM", "dumb")
    assert not can_show(Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setenv("TERM", "xterm")
    assert can_show(Console(file=io.StringIO(), force_terminal=True))
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "poetfw.cli.main",
            "run",
            "--live",
            "--steps",
            "2",
            "--out",
            built.folder,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "2/2" in ran.stderr


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_the_terminal_as_it_was(built: Firmware) -> None:
    """A terminal of its own: the cursor comes back, and what ran has ended."""
    words = ["run", "--live", "--steps", "10000000", "--out", str(built.folder)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "poetfw.cli.main", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    ends_s = time.monotonic() + 100
    sent = False
    while time.monotonic() < ends_s:
        if select.select([ours], [], [], 1)[0]:
            try:
                said += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        if not sent and "→".encode() in said:
            process.send_signal(signal.SIGINT)
            sent = True
    code = process.wait(timeout=30)
    os.close(ours)
    text = said.decode()
    assert code == 130, text[-2000:]
    assert "Traceback" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert text.rstrip().endswith("interrupted")
    running = subprocess.run(
        ["pgrep", "-f", f"{built.folder}/.pio"], capture_output=True, text=True, check=False
    )
    assert running.stdout == ""
