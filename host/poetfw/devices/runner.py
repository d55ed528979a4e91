"""Running a firmware: on a board's twin in an emulator, or natively on this computer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poetfw.boards import Board
from poetfw.devices.console import Event, parse_line
from poetfw.devices.process import TimedOut, started
from poetfw.errors import DeviceError, ToolError

SILENCE_S = 120.0
"""A device that says nothing for so long hangs: one training step takes seconds."""


@dataclass(frozen=True)
class RunLog:
    """What a run reported.

    Attributes:
        losses: mean loss of each training step, as the f32 the device calculated.
        step_ticks: ticks each training step took.
        metrics: metric of each evaluation batch.
        ticks: ticks of the whole training.
        tick_unit: what a tick is: instructions, cycles or ns.
        high_water_bytes: bytes of the arena up to the highest that was ever written.
        stack_high_water_bytes: bytes of stack that were used.
        storage_bytes_read, storage_bytes_written: what went through the storage.
    """

    losses: tuple[float, ...]
    step_ticks: tuple[int, ...]
    metrics: tuple[float, ...]
    ticks: int
    tick_unit: str
    high_water_bytes: int
    stack_high_water_bytes: int
    storage_bytes_read: int
    storage_bytes_written: int


def emulator_command(board: Board, elf: Path) -> list[str]:
    """The command that runs an ELF: the twin's emulator, or the ELF itself on this computer.

    Raises:
        ToolError: the emulator is not installed.
    """
    if board.twin is None:
        return [str(elf.resolve())]
    program = "qemu-system-arm"
    if shutil.which(program) is None:
        raise ToolError(
            f"{program} is not installed: the twin of {board.name} cannot run",
            "on Debian or Ubuntu: sudo apt-get install qemu-system-arm",
            "or use --board linux, which needs no emulator",
        )
    return [
        program,
        *("-M", board.twin.machine),
        *("-icount", "shift=0"),
        *("-display", "none"),
        *("-monitor", "none"),
        *("-serial", "stdio"),
        *("-semihosting-config", "enable=on,target=native"),
        *("-kernel", str(elf.resolve())),
    ]


def run_firmware(
    command: list[str],
    folder: Path,
    timeout_s: float,
    on_event: Callable[[Event], None] = lambda event: None,
) -> RunLog:
    """Run a firmware to its end in the folder that holds its storage image.

    Args:
        command: what `emulator_command` made.
        folder: the working folder; the firmware opens `storage.img` in it.
        timeout_s: seconds the run may take.
        on_event: called for each line of the protocol as it comes.

    Raises:
        DeviceError: the firmware hangs, faults, reports an error, or leaves its report unfinished.
    """
    events: list[Event] = []
    with started(command, folder) as process:
        try:
            for line in process.lines(timeout_s, SILENCE_S):
                event = parse_line(line)
                if event is not None:
                    events.append(event)
                    on_event(event)
            code = process.wait(SILENCE_S)
        except TimedOut:
            raise _hang(events, timeout_s) from None
    return _read_log(events, code)


def _hang(events: list[Event], timeout_s: float) -> DeviceError:
    last = f"@{events[-1].word} {dict(events[-1].values)}" if events else "nothing at all"
    return DeviceError(
        f"the firmware hangs: it did not end within {timeout_s:.0f} s, or said nothing for "
        f"{SILENCE_S:.0f} s; the last it said was {last}",
        "raise --timeout if the run is just long",
        "build again: `poetfw build`",
    )


def _read_log(events: list[Event], code: int) -> RunLog:
    by_word: dict[str, list[Event]] = {}
    for event in events:
        by_word.setdefault(event.word, []).append(event)
    for word in ("fault", "error"):
        if word in by_word:
            values = " ".join(f"{k}={v}" for k, v in by_word[word][0].values.items())
            raise DeviceError(
                f"the firmware stopped with an {word}: {values} (exit code {code})"
                if word == "error"
                else f"the processor faulted: {values} (exit code {code})",
                "build again: `poetfw build` writes firmware and storage image together",
            )
    if code != 0 or "done" not in by_word:
        raise DeviceError(
            f"the firmware ended with exit code {code} before its report was complete",
            "build again: `poetfw build`",
        )
    done = by_word["done"][0]
    steps = by_word.get("step", [])
    return RunLog(
        losses=tuple(event.finite("loss") for event in steps),
        step_ticks=tuple(event.integer("ticks") for event in steps),
        metrics=tuple(event.finite("metric") for event in by_word.get("eval", [])),
        ticks=done.integer("ticks"),
        tick_unit=done.values.get("tick_unit", "ticks"),
        high_water_bytes=done.integer("high_water"),
        stack_high_water_bytes=done.integer("stack_high_water"),
        storage_bytes_read=done.integer("read"),
        storage_bytes_written=done.integer("written"),
    )
