# SPDX-License-Identifier: Apache-2.0
"""Measuring over a line: a quiet one, noisy ones, and devices that say what makes no sense."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from poetfw.common.errors import DeviceError, NoAnswerError, NoisyLineError, WrongBoardError
from poetfw.costs import TAKEN, TRANSFERS, Counter, Measurement
from poetfw.profiling import MemoryStore
from poetfw.profiling.session import MOST_TIMES, Refused, Timed, time_case
from poetfw.tools.link.frames import encode_command
from poetfw.tools.link.profiler import Ran
from unit.link.link_device import BLOCK, Noise, Simulated
from unit.profiling.sketch_device import (
    BOARD,
    CASES,
    NOTHING,
    SETUP,
    SketchDevice,
    compile_sketch_device,
    is_right,
    measure,
)

VERSIONS = dict.fromkeys(CASES, "0123456789abcdef")
NEED_STORAGE = ["page_out", "page_in", "load_x", "page_out_taken"]


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_sketch_device(tmp_path_factory.mktemp("sketch") / "sketch.so")


@pytest.fixture
def device(firmware: Path) -> SketchDevice:
    return SketchDevice(firmware)


def tell(device: SketchDevice, word: str, *numbers: int, sequence: int = 9) -> list[str]:
    """The values of an answer."""
    said = device.tell(encode_command(sequence, word, *numbers)).decode()
    assert said.endswith("]\r\nm-ready\r\n")
    return said.split("\r\n")[0].strip("]").split(" ")[:-1]


def test_each_case_is_measured(device: SketchDevice) -> None:
    rows = list(measure(Simulated(device)))
    assert [row.case for row in rows] == list(CASES)
    assert all(map(is_right, rows))
    by_case = {row.case: row for row in rows if isinstance(row, Measurement)}
    runs = 10_000
    for case, ticks in CASES.items():
        row = by_case[case]
        difference = case.kind in TAKEN
        once = ticks - (NOTHING if case.numbers else 0)  # the call is subtracted already
        times = min(8 if difference else MOST_TIMES, math.ceil(0.01 * BOARD.clock_hz / once))
        sets = 3 if case.numbers else 1
        times = math.ceil(times / sets) * sets
        assert row.repetitions == 2 * times  # two samples agree
        twice = difference or case.numbers  # the kernel alone, or nothing, too
        runs += (2 * sets + row.repetitions) * (2 if twice else 1)
        power_w = BOARD.power.active_w
        if case.kind in TRANSFERS:
            assert BOARD.storage is not None
            transfer = getattr(BOARD.storage, case.kind)
            power_w = transfer.cost_j(case.size_bytes) / transfer.time_s(case.size_bytes)
        assert row.energy_j == pytest.approx(row.time_s * power_w)
    prepared = 2 * (2 + 2)  # warm-up, look, two samples of two cases: each behind a page-out
    assert device.get("test_runs") == runs + prepared


def test_operands_hold_what_the_sketch_says(device: SketchDevice) -> None:
    """Fewer values than words: eight in a row stand for those around them."""
    tell(device, "run", 0, 1)
    first, second = list(range(8)), list(range(8, 16))
    assert device.operand(544, 48) == [*first * 3, *second * 3]
    assert device.operand(736, 3) == [16, 17, 18]
    assert all(-1 <= x < 1 for x in device.operand(512, 4))
    assert all(0.5 <= x < 1.5 for x in device.operand(528, 4))


def test_operands_are_fed_before_each_run(device: SketchDevice) -> None:
    """One set after the other, whatever a run before has changed; feeding is not the case's."""
    fed = list(CASES)[6].key
    tell(device, "run", 0, 1)  # overwrites nothing of it
    for sequence, (times, ticks) in enumerate(((1, 1000), (2, 2006), (3, 3036), (7, 7072)), 10):
        taken = ticks - 7 * times
        device.marks()
        answer = tell(device, "run", 6, times, sequence=sequence)
        assert answer[2:] == ["0", fed, str(taken), str(ticks + 7 * times)]
        ((begin, end),) = device.marks()  # one interval, for a meter
        assert end - begin == ticks + 7 * times
    assert device.operand(752, 1) == [0.0]  # as it was fed last
    device.set("test_refuses", 6)
    runs = device.get("test_runs")
    assert tell(device, "run", 6, 3, sequence=20)[2:] == ["-3"]
    assert device.get("test_runs") == runs + 1  # and no further
    device.set("test_refuses", 7)
    assert tell(device, "run", 6, 3, sequence=21)[2:] == ["-3"]


def test_a_command_that_comes_again_runs_nothing_again(device: SketchDevice) -> None:
    first = tell(device, "run", 1, 2)
    runs = device.get("test_runs")
    assert tell(device, "run", 1, 2) == first
    assert device.get("test_runs") == runs
    assert tell(device, "run", 1, 2, sequence=10)[2:] == first[2:]
    assert device.get("test_runs") == runs + 2


def test_commands_that_make_no_sense_are_refused(device: SketchDevice) -> None:
    assert tell(device, "case", 7) == ["m-[9", "case", "0", "0" * 16]
    assert tell(device, "case", 8) == ["m-[9", "case", "-4"]
    assert tell(device, "run", 8, 1) == ["m-[9", "run", "-4"]
    assert tell(device, "run", 0, 0) == ["m-[9", "run", "-4"]
    assert tell(device, "run", 0) == ["e-[9", "unknown"]
    assert tell(device, "jump") == ["e-[9", "unknown"]
    assert tell(device, "mark", 1) == ["m-[9", "mark", "0"]
    assert device.get("test_runs") == 0
    assert device.tell(b"9 run 0 1 00000000%").startswith(b"e-[0 damaged ")


def test_pages_are_found_by_their_size(device: SketchDevice) -> None:
    keys = {case.kind: case.key for case in CASES}
    out, into = ["0", keys["page_out"], "12900", "12900"], ["0", keys["page_in"], "6200", "6200"]
    assert tell(device, "page", 1, 2400, 3)[2:] == out
    assert tell(device, "page", 0, 2400, 2, sequence=10)[2:] == into
    assert tell(device, "page", 0, 2401, 2, sequence=11)[2:] == ["-4"]


def test_the_harness_of_mlperf_tiny_is_answered(device: SketchDevice) -> None:
    assert device.tell(b"name%") == b"m-name-dut-[poetfw]\r\nm-ready\r\n"
    assert device.tell(b"profile%") == b"m-profile-[poetfw sketch 5a3b1e00]\r\nm-ready\r\n"
    assert device.tell(b"results%") == b"m-results-[]\r\nm-ready\r\n"
    tell(device, "run", 1, 2)
    key = list(CASES)[1].key.encode()
    assert device.tell(b"results%") == b"m-results-[" + key + b",2,10000000]\r\nm-ready\r\n"
    assert device.tell(b"timestamp%") == b"m-lap-instructions-10000000\r\nm-ready\r\n"
    assert device.tell(b"result%").startswith(b"e-[0 damaged ")


def card(*partitions: int, blocks: int = 16) -> bytes:
    """The first block of a card with partitions of these types; the first begins at block 5."""
    rest = bytes([5, 0, 0, 0, blocks, 0, 0, 0])
    entries = b"".join(b"\0\xfe\xff\xff" + bytes([kind, 0, 0, 0]) + rest for kind in partitions)
    return bytes(446) + entries.ljust(64, b"\0") + b"\x55\xaa"


@pytest.mark.parametrize(
    ("first", "begins"),
    [
        (b"\0" * 512, 8),
        (b"\xff" * 512, 8),
        (card(0xDA), 24),
        (card(0x0C), None),
        (card(0xDA, 0x0C), None),
        (b"K" * 512, None),
        (b"FAT" + b"\0" * 509, None),
    ],
)
def test_only_blocks_that_nobody_needs_are_written(
    device: SketchDevice, first: bytes, begins: int | None
) -> None:
    before = first + b"K" * (BLOCK * 63)
    device.storage = before
    rows = list(measure(Simulated(device)))
    if begins is None:
        refused = [row for row in rows if isinstance(row, Refused)]
        assert [one.case.kind for one in refused] == NEED_STORAGE
        assert all("holds" in one.reason or "status" in one.reason for one in refused)
        assert device.storage[: len(before)] == before
        return
    assert all(map(is_right, rows))
    after = device.storage

    def block(content: bytes, i: int) -> bytes:
        return content[i * BLOCK :][:BLOCK]

    written = [i for i in range(64) if block(before, i) != block(after, i)]
    assert written == [begins, begins + 1, *range(begins + 10, begins + 15)]


def test_a_card_without_room_is_refused(device: SketchDevice) -> None:
    device.storage = card(0xDA, blocks=50) + bytes(63 * BLOCK)
    kinds = [row.case.kind for row in measure(Simulated(device)) if isinstance(row, Refused)]
    assert kinds == NEED_STORAGE


def test_a_case_that_fails_is_left_out(device: SketchDevice) -> None:
    device.set("test_refuses", 1)
    rows = list(measure(Simulated(device)))
    assert [i for i, row in enumerate(rows) if isinstance(row, Refused)] == [1]
    assert len(rows) == len(CASES)
    assert isinstance(rows[1], Refused)
    assert "status -3" in rows[1].reason
    runs = device.get("test_runs")
    tell(device, "run", 1, 5)
    assert device.get("test_runs") == runs + 1  # and no further
    device.set("test_refuses", 5)
    tell(device, "run", 5, 4, sequence=10)
    assert device.get("test_runs") == runs + 3  # its page-out and its kernel, not both together


# Noise -----------------------------------------------------------------------------------------


def session(firmware: Path, rate: float, seed: int) -> bool:
    """Measure over a noisy line, and what is missing once more; whether the first try ended."""
    store, ended = MemoryStore(), False
    line = Simulated(SketchDevice(firmware), Noise(rate, Random(seed)))
    with contextlib.suppress(NoisyLineError, NoAnswerError):  # exit code 4
        for row in measure(line):
            assert isinstance(row, Measurement)
            store.add([row])
        ended = True
    assert line.now_s() < 3600
    assert all(map(is_right, store.rows))
    assert (len(store.rows) == len(CASES)) or not ended
    return ended


@pytest.mark.parametrize("seed", range(8))
def test_a_noisy_line_costs_time_only(firmware: Path, seed: int) -> None:
    assert session(firmware, 1e-3, seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_line_too_noisy_is_right_or_given_up(firmware: Path, seed: int) -> None:
    session(firmware, 1e-2, seed)


@pytest.mark.slow
def test_a_thousand_noisy_sessions(firmware: Path) -> None:
    ended = [session(firmware, 1e-3, seed) for seed in range(100, 1100)]
    assert all(ended)
    much = [session(firmware, 1e-2, seed) for seed in range(2000, 2100)]
    print(f"{sum(much)} of {len(much)} at 1e-2")


def test_a_device_that_falls_silent_keeps_what_it_measured(device: SketchDevice) -> None:
    line = Simulated(device)
    line.dead_after = 13
    rows: list[Measurement | Refused] = []
    with pytest.raises(NoAnswerError):
        rows.extend(measure(line))
    assert 0 < len(rows) < len(CASES)
    assert all(map(is_right, rows))


# What makes no sense ---------------------------------------------------------------------------


class Liar(Simulated):
    """A device of which some answers are replaced, in frames that are whole."""

    def __init__(self, device: SketchDevice, word: str, lie: Callable[[list[str]], list[str]]):
        super().__init__(device)
        self._word, self._lie = word, lie

    def read(self, timeout_s: float) -> bytes:
        from zlib import crc32

        lines = []
        for line in super().read(timeout_s).split(b"\r\n"):
            parts = line.decode().removesuffix("]").split(" ")
            if len(parts) > 2 and parts[1] == self._word:
                text = " ".join([*parts[:2], *self._lie(parts[2:-1])])
                line = f"{text} {crc32(text.encode()):08x}]".encode()
            lines.append(line)
        return b"\r\n".join(lines)


@pytest.mark.parametrize(
    "ticks", ["-5", "nan", "inf", "1e3", "", "18446744073709551616", str(2**53 + 1), "0", "0x10"]
)
def test_ticks_that_are_none_are_refused(device: SketchDevice, ticks: str) -> None:
    with pytest.raises(DeviceError, match=r"is not valid|takes no time"):
        list(measure(Liar(device, "run", lambda values: [*values[:2], ticks, ticks])))


@pytest.mark.parametrize("ticks", ["-5", "inf", "", str(2**53 + 1)])
def test_a_mark_is_no_shorter_than_what_it_marks(device: SketchDevice, ticks: str) -> None:
    with pytest.raises(DeviceError, match="is not valid"):
        list(measure(Liar(device, "run", lambda values: [*values[:3], ticks])))
    with pytest.raises(DeviceError, match="is not valid"):
        list(measure(Liar(device, "run", lambda values: [*values[:3], str(int(values[2]) - 1)])))


@pytest.mark.parametrize("key", ["0" * 16, "x" * 16, "0123", ""])
def test_another_case_than_was_asked_for_is_refused(device: SketchDevice, key: str) -> None:
    with pytest.raises(DeviceError):
        list(measure(Liar(device, "run", lambda values: [values[0], key, *values[2:]])))
    with pytest.raises(DeviceError):
        list(measure(Liar(device, "case", lambda values: [values[0], key])))


@pytest.mark.parametrize(
    ("position", "text"),
    [(0, "1"), (1, "5a3b1e01"), (1, "5a3b1e0"), (2, "%s"), (3, "hours"), (4, "9"), (4, "-1")],
)
def test_another_firmware_is_refused(device: SketchDevice, position: int, text: str) -> None:
    def lie(values: list[str]) -> list[str]:
        return [*values[:position], text, *values[position + 1 :]]

    with pytest.raises(DeviceError):
        list(measure(Liar(device, "hello", lie)))
    with pytest.raises(WrongBoardError):
        list(measure(Liar(device, "hello", lambda values: values[:3])))


def test_an_emulators_counts_are_no_boards(device: SketchDevice) -> None:
    with pytest.raises(WrongBoardError, match="emulator"):
        list(measure(Simulated(device), setup=replace(SETUP, machine="")))


@pytest.mark.parametrize(
    ("counter", "samples", "timed"),
    [
        (Counter.CYCLES, (14, 12, 12, 17, 215), Timed(12.0, 15.0, 2.0, 5)),
        (Counter.INSTRUCTIONS, (12, 14, 12, 12), Timed(10.0, 13.0, 0.0, 4)),
    ],
)
def test_the_median_of_all_samples_and_their_spread(
    counter: Counter, samples: tuple[int, ...], timed: Timed
) -> None:
    """Warm-up and the first look are no samples; where two counts agree, there are no more."""
    said = iter((900, 100, *samples))

    class Said:
        def run(self, index: int, key: str, times: int) -> Ran:
            assert (index, key, times) == (3, "k", 1)
            ticks = next(said)
            return Ran(ticks, ticks + 1)

    profiler: Any = Said()
    assert time_case(profiler, 3, "k", counter, 100.0, 2.0) == timed


def test_a_difference_may_be_nothing_and_calls_make_none() -> None:
    said, asked = iter((16, 0, 0, 16, 8, 8, 24)), list[int]()

    class Said:
        def run(self, index: int, key: str, times: int) -> Ran:
            asked.append(times)
            return Ran(next(said), 80)

    profiler: Any = Said()
    timed = time_case(profiler, 3, "k", Counter.CYCLES, 1e6, 0.0, difference=True)
    assert timed == Timed(1.0, 10.0, 1.0, 40)
    assert asked == [1, 1, *[8] * 5]


def test_each_set_of_numbers_is_run_as_often_as_the_others() -> None:
    asked = list[int]()

    class Said:
        def run(self, index: int, key: str, times: int) -> Ran:
            asked.append(times)
            return Ran(100 * times, 150 * times)

    profiler: Any = Said()
    for sets, hz, times in ((8, 1e4, 8), (8, 1e5, 16), (6, 1e5, 12), (1, 1e5, 10)):
        asked.clear()
        timed = time_case(profiler, 3, "k", Counter.CYCLES, hz, 0.0, sets=sets)
        assert timed == Timed(100.0, 150.0, 0.0, 5 * times)
        assert asked == [sets, sets, *[times] * 5]


def test_a_kernel_that_ends_no_later_with_a_transfer_loses_nothing(device: SketchDevice) -> None:
    key = list(CASES)[5].key
    assert tell(device, "run", 5, 3)[2:] == ["0", key, str(3 * 617), str(3 * 9017)]
    device.set("test_kernel_ticks", 9018)
    assert tell(device, "run", 5, 3, sequence=10)[2:] == ["0", key, "0", str(3 * 9017)]


def test_a_kernel_is_as_long_as_half_a_transfer(device: SketchDevice) -> None:
    tell(device, "run", 2, 1)  # finds where to write
    device.marks()
    assert device.passes() == 16 * 4300 // 2 + 1
    # The kernel is the same each time only where ticks begin with what is timed.
    assert [end - begin for begin, end in device.marks()] == [4300, 0]


def test_rows_of_other_versions_and_setups_are_not_known(device: SketchDevice) -> None:
    store = MemoryStore()
    store.add(row for row in measure(Simulated(device)) if isinstance(row, Measurement))
    assert store.known(SETUP, VERSIONS).keys() == CASES.keys()
    stale = dict.fromkeys(CASES, "f" * 16)
    assert not store.known(SETUP, stale)
    assert not store.known(replace(SETUP, clock_hz=1), VERSIONS)
