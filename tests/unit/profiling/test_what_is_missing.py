# SPDX-License-Identifier: Apache-2.0
"""Which cases a profile measures, what it keeps of them, and when it puts a sketch on a board."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import CostsError, DeviceError, OutputError, WrongBoardError
from poetfw.costs import Case, Database, Measurement, Setup
from poetfw.firmware.sketch import arena_bytes_of
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.profiling import MemoryStore, ProfileReport, ProfileSettings, cases_of, measuring
from poetfw.profiling.session import Refused, setup_of
from unit.costs.test_cost_database import row

BOARD = load_board("nrf52840")
BUILD = BuildSettings("nrf52840", model="mlp", batch=2)
CASES = cases_of(derive_program(BUILD, load_model(BUILD)).training, BOARD)
AT_ONCE = 20


class Bench:
    """A board whose sketches have so many cases each, and which may fail.

    Attributes:
        fails_after: so many more cases; never where it is None.
        without_flash: cases whose code has no room in the flash.
        sketches: how many cases each sketch had that was run.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.fails_after: int | None = None
        self.without_flash: set[Case] = set()
        self.sketches: list[int] = []
        self.told: list[tuple[int, int, str]] = []
        self.store = MemoryStore()
        self.settings = ProfileSettings(BUILD, "qemu", None, folder)
        for name, stand_in in (
            ("operands_of", lambda *_: {}),
            ("_arena_room", lambda *_: 200_000),
            ("_built", self._built),
            ("_device", self._device),
            ("measure_sketch", self._measure),
        ):
            monkeypatch.setattr(measuring, name, stand_in)

    def _built(self, cases: Sequence[Case], *_: Any) -> Iterator[tuple[Any, Path | None]]:
        rest = [case for case in cases if case not in self.without_flash]
        for at in range(0, len(rest), AT_ONCE):
            yield SimpleNamespace(cases=tuple(rest[at : at + AT_ONCE])), Path("elf")
        for case in cases:
            if case in self.without_flash:
                yield SimpleNamespace(cases=(case,)), None

    @contextmanager
    def _device(self, sketch: Any, *_: Any) -> Iterator[object]:
        self.sketches.append(len(sketch.cases))
        yield object()

    def _measure(
        self, _: object, sketch: Any, setup: Setup, *others: Any
    ) -> Iterator[Measurement | Refused]:
        version_of: Callable[[Case], str] = others[1]
        for case in sketch.cases:
            if self.fails_after == 0:
                raise DeviceError("the board is silent")
            if self.fails_after is not None:
                self.fails_after -= 1
            found = replace(row(case), setup=setup_of(case, setup))
            yield replace(found, kernel_version=version_of(case))

    def profile(self) -> ProfileReport:
        self.told.clear()
        return measuring.profile(self.settings, self.store, lambda *said: self.told.append(said))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(monkeypatch, tmp_path)


def test_what_was_measured_before_a_board_failed_is_kept_and_the_rest_measured(
    bench: Bench,
) -> None:
    bench.fails_after = AT_ONCE + 5
    with pytest.raises(DeviceError, match="silent"):
        bench.profile()
    assert [one.case for one in bench.store.rows] == list(CASES[: AT_ONCE + 5])
    bench.fails_after = None
    found = bench.profile()
    assert found.fresh == len(CASES) - AT_ONCE - 5
    assert [one.case for one in found.measured] == list(CASES)  # in the network's order
    assert (0, found.fresh, "building the sketch") in bench.told
    assert bench.told[-1] == (found.fresh, found.fresh, "measuring")
    bench.sketches.clear()
    assert bench.profile().fresh == 0
    assert (bench.sketches, bench.told) == ([], [])


def test_only_rows_of_this_setup_and_version_are_known(bench: Bench) -> None:
    bench.profile()
    first, second, *rest = bench.store.rows
    other = replace(first.setup, clock_hz=1)
    bench.store.rows = [
        replace(first, kernel_version="0" * 16),
        replace(second, setup=other),
        *rest,
    ]
    found = bench.profile()
    assert found.fresh == 2
    assert bench.sketches[-1] == 2


def test_cases_without_room_are_refused_with_what_they_take(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is compiled what no arena could hold; then what this one cannot."""
    sizes = {case: arena_bytes_of(case, 1 << 30) for case in CASES}
    most = sorted(sizes.values())[len(sizes) // 2]
    monkeypatch.setattr(measuring, "_arena_room", lambda *_: most)
    long = min(CASES, key=lambda case: sizes[case])
    bench.without_flash = {long}
    found = bench.profile()
    large = [case for case in CASES if arena_bytes_of(case, most) > most]
    assert large
    assert {one.case: one.reason for one in found.left_out} == {
        long: "its code does not fit the flash",
        **{
            case: f"its operands take {arena_bytes_of(case, most):,} bytes, and there "
            f"are {most:,} beside the program's own"
            for case in large
        },
    }
    assert not any(one.failed for one in found.left_out)
    assert found.fresh == len(CASES) - len(found.left_out) == len(bench.store.rows)
    assert bench.told[-1][:2] == (len(CASES), len(CASES))
    bench.store.rows.clear()
    monkeypatch.setattr(measuring, "_most_room", lambda _: 0)
    monkeypatch.setattr(measuring, "operands_of", None)  # neither run nor built for nothing
    found = bench.profile()
    assert [one.case for one in found.left_out] == list(CASES)
    assert all(one.reason.endswith("and there are 0 at most") for one in found.left_out)
    assert not found.measured


def test_what_cannot_be_kept_or_written_is_said_before_the_work(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def worked(*_: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(measuring, "operands_of", worked)
    (tmp_path / "file").touch()
    store = Database(tmp_path / "file" / "costs.sqlite")
    elsewhere = replace(bench.settings, out=tmp_path / "sketch")
    with pytest.raises(CostsError, match="cannot be made"):
        measuring.profile(elsewhere, store, lambda *_: None)
    with pytest.raises(OutputError, match="no project of poetfw"):
        bench.profile()
    (tmp_path / "file").unlink()
    with pytest.raises(AssertionError, match="begun"):
        bench.profile()


@pytest.mark.parametrize(
    ("port", "runs", "flashed"),
    [("socket://h:1", False, 0), ("/dev/tty", True, 0), ("/dev/tty", False, 1)],
)
def test_a_board_that_runs_the_sketch_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, port: str, runs: bool, flashed: int
) -> None:
    """What answers at a socket is never flashed."""
    uploads: list[Any] = []

    def check(*_: Any) -> None:
        if not runs:
            raise WrongBoardError("another sketch", "")

    monkeypatch.setattr(measuring, "open_port", lambda *_: nullcontext(object()))
    monkeypatch.setattr(measuring, "DeviceLink", lambda line: line)
    monkeypatch.setattr(measuring, "Profiler", lambda link: link)
    monkeypatch.setattr(measuring, "check_sketch", check)
    monkeypatch.setattr(measuring, "upload_firmware", lambda *told: uploads.append(told))
    settings = ProfileSettings(BUILD, None, port, tmp_path)
    said: list[str] = []
    setup: Any = None
    sketch: Any = None
    with measuring._device(sketch, Path("elf"), BOARD, setup, settings, "env", said.append):
        assert uploads == [(tmp_path, "env", port)] * flashed
    assert said[0] == "asking the board what it runs"
    assert (said[1:] == ["putting the sketch on the board"]) == bool(flashed)
