# SPDX-License-Identifier: Apache-2.0
"""Measurements are kept as they were added, by several processes at once, and nothing else is."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from poetfw.common.errors import CostsError
from poetfw.costs import (
    Case,
    Counter,
    Database,
    Measurement,
    Setup,
    read_measurements,
    to_csv,
    to_json,
)
from poetfw.costs.measurement import BESIDE, TAKEN
from poetfw.ir import Dtype

SETUP = Setup("nrf52840", "Cortex-M4F", 64_000_000, "", "gcc 12 -O2")
RELU = Case("relu", (((2, 3), Dtype.F32),))
SGD = Case(
    "sgd",
    (((4,), Dtype.F32),),
    (((4,), Dtype.F32), ((4,), Dtype.F32)),
    {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0},
)
POOL = Case(
    "max_pool2d",
    (((1, 2, 4, 4), Dtype.F32),),
    attributes={"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0)},
)
PAGE = Case("page_in", size_bytes=4096)
OWN = replace(RELU, numbers="0011223344556677")
LARGE = Case("relu", (((32, 32), Dtype.F32),))
CASES = (RELU, SGD, POOL, PAGE, OWN)
V1, V2 = "0123456789abcdef", "fedcba9876543210"


def row(case: Case = RELU, ticks: float = 640.0, **changes: Any) -> Measurement:
    made = Measurement(
        case, SETUP, V1, 10, Counter.CYCLES, ticks, 1.5, ticks / 64e6, 1e-6, 0.0,
        "2026-01-02T03:04:05Z",
    )  # fmt: skip
    return replace(made, **changes)


def test_what_is_added_is_known(tmp_path: Path) -> None:
    database = Database(tmp_path / "folder" / "costs.sqlite")
    assert database.known(SETUP, {RELU: V1}) == {}
    assert not database.path.exists()
    rows = [row(case) for case in CASES]
    database.add(rows)
    assert Database(database.path).known(SETUP, dict.fromkeys(CASES, V1)) == {
        one.case: one for one in rows
    }


def test_stale_rows_and_those_of_other_set_ups_are_not_known(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([row()])
    assert database.known(SETUP, {RELU: V2}) == {}
    assert database.known(SETUP, {SGD: V1}) == {}
    for changes in (
        {"board": "other"},
        {"core": "other"},
        {"clock_hz": 1},
        {"machine": "qemu"},
        {"compiler": "gcc 13"},
        {"meter": "ppk2"},
    ):
        assert database.known(replace(SETUP, **changes), {RELU: V1}) == {}


def test_the_newest_row_counts(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    newest = row(ticks=128.0, measured_at="2026-01-03T00:00:00Z")
    database.add([newest])
    database.add([row(ticks=64.0)])
    assert database.known(SETUP, {RELU: V1}) == {RELU: newest}
    assert len(database.all()) == 2


def test_what_is_there_already_is_not_added_again(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    for _ in range(3):
        database.add([row(), row(SGD)])
    assert len(database.all()) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ticks": float("nan"), "time_s": float("nan")}, "finite"),
        ({"ticks": -64.0, "time_s": -1e-6}, "0 or more was expected"),
        ({"ticks": 1e300, "time_s": 1e300}, r"9.22337e\+18 or less was expected"),
        ({"energy_j": -1.0}, "0 or more was expected"),
        ({"energy_j": float("inf")}, "finite"),
        ({"repetitions": 0}, "1 or more was expected"),
        ({"time_s": 1.0}, "640 cycles at 64,000,000 a second are 1e-05 s"),
        ({"kernel_version": "x"}, "pattern"),
        ({"measured_at": "yesterday"}, "a date and time was expected"),
        ({"measured_at": "2999-01-02T03:04:05Z"}, "measured_at is in the future: 2999"),
        ({"ticks": 9e15, "time_s": 9e15 / 64e6}, "takes more than 86,400"),
        ({"case": LARGE, "ticks": 0.0, "time_s": 0.0}, "a relu of 1,024 cannot take 0 ticks"),
        ({"case": PAGE, "ticks": 0.0, "time_s": 0.0}, "a page_in of 4,096 cannot take 0 ticks"),
        ({"case": Case("magic")}, "not an operator"),
        ({"case": Case("relu")}, "inputs"),
        ({"case": Case("relu", (((0, 3), Dtype.F32),))}, "1 or more was expected"),
        ({"case": Case("relu", (((2**15, 2**14), Dtype.F32),))}, "1,073,741,824 at most"),
        ({"case": Case("page_in")}, "size_bytes above 0"),
        ({"case": Case("relu", RELU.inputs, size_bytes=4)}, "size_bytes is that of"),
    ],
)
def test_what_nothing_can_have_measured_is_refused_and_nothing_is_kept(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    with pytest.raises(CostsError, match=said):
        database.add([row(SGD), row(**changes)])
    assert database.all() == ()


def test_what_takes_next_to_nothing_may_be_measured_as_that(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    differences = [Case(kind, size_bytes=4096) for kind in (*BESIDE, *TAKEN)]
    rows = [row(case, 0.0) for case in (RELU, *differences)]
    database.add(rows)
    assert database.all() == tuple(rows)


def test_a_row_of_a_clock_that_was_put_back_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = row(measured_at="2999-01-02T03:04:05Z")
    with monkeypatch.context() as patch:
        patch.setattr("poetfw.costs.exchange._CLOCKS_APART", timedelta(days=400_000))
        Database(tmp_path / "costs.sqlite").add([ahead])
    assert Database(tmp_path / "costs.sqlite").all() == (ahead,)


def test_rows_of_operands_that_are_too_large_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([row(), row(SGD)])
    monkeypatch.setattr("poetfw.costs.exchange.LARGEST_OPERAND_BYTES", 16)
    assert [one.case for one in database.all()] == [SGD]


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([row()])

    def broken() -> Any:
        yield row(SGD)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.add(broken())
    assert [one.case for one in database.all()] == [RELU]


def _touched(path: Path) -> None:
    path.touch()


def _held(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("CREATE TABLE measurements (text)")
for i in range(200):
    connection.execute("INSERT INTO measurements VALUES (?)", ("x" * 3000,))
os._exit(0)
"""


def _killed(path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=True)
    assert path.stat().st_size > 100_000


@pytest.mark.parametrize("leave", [_touched, _held, _killed])
def test_what_never_became_a_database_is_as_good_as_none(
    leave: Callable[[Path], sqlite3.Connection | None], tmp_path: Path
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    holder = leave(database.path)
    assert database.path.exists()
    assert database.all() == database.of_board("nrf52840") == ()
    assert database.known(SETUP, {RELU: V1}) == {}
    if holder is not None:
        holder.close()
    database.add([row()])
    assert database.all() == (row(),)


def test_no_rows_can_be_added(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([])
    assert database.all() == ()
    (tmp_path / "file").touch()
    with pytest.raises(CostsError, match=r"file/costs\.sqlite cannot be made: "):
        Database(tmp_path / "file" / "costs.sqlite").check_writable()
    with pytest.raises(CostsError, match=r"file/costs\.sqlite cannot be made: ") as refused:
        Database(tmp_path / "file" / "costs.sqlite").add([])
    assert "--db" in refused.value.try_next[0]


@pytest.mark.parametrize("act", [Database.all, lambda database: database.add([row(SGD)])])
def test_a_file_that_another_process_holds_is_waited_for_and_left_where_it_is(
    act: Callable[[Database], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poetfw.costs.database._BUSY_S", 0.1)
    database = Database(tmp_path / "costs.sqlite")
    database.add([row()])
    holder = _held(database.path)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("COMMIT")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(CostsError, match="in use by another process") as refused:
        act(database)
    holder.close()
    assert not any("move" in hint for hint in refused.value.try_next)
    act(database)


def test_a_database_on_a_full_disk_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says of a file that may not grow what it says of a disk that is full."""
    database = Database(tmp_path / "costs.sqlite")
    database.add([row()])
    connect = sqlite3.connect

    def full(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are, at least
        return connection

    monkeypatch.setattr("poetfw.costs.database.sqlite3.connect", full)
    many = [row(measured_at=f"2026-01-02T{i // 60:02}:{i % 60:02}:00Z") for i in range(500)]
    with pytest.raises(CostsError, match="its disk is full; what it held is kept") as refused:
        database.add(many)
    assert "make room" in refused.value.try_next[0]
    assert database.all() == (row(),)


def test_a_database_that_is_read_only_is_read_and_not_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([row()])
    connect = sqlite3.connect

    def read_only(path: Path, **options: Any) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", uri=True, **options)

    monkeypatch.setattr("poetfw.costs.database.sqlite3.connect", read_only)
    assert database.all() == (row(),)
    with pytest.raises(CostsError, match="it is read-only") as refused:
        database.add([row(SGD)])
    assert refused.value.try_next == ("name another file with --db",)
    missing = tmp_path / "none.sqlite"
    with pytest.raises(CostsError, match=r"none\.sqlite cannot be made: ") as refused:
        Database(missing).add([])
    assert str(tmp_path) in refused.value.try_next[0]
    assert "move" not in refused.value.try_next[0]


def _text(path: Path) -> None:
    path.write_text("not a database, but long enough to be taken for one" * 100)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE measurements (id INTEGER)")


def _newer(path: Path) -> None:
    Database(path).add([row()])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 3")


def _cut(path: Path) -> None:
    Database(path).add([row(measured_at=f"2026-01-02T03:{i // 60:02}:{i % 60:02}Z")
                        for i in range(100)])  # fmt: skip
    path.write_bytes(path.read_bytes()[:6000])


def _negative(path: Path) -> None:
    Database(path).add([row()])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE measurements SET energy_j = -1")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_text, "not a database"),
        (_foreign, "of another program"),
        (_newer, "schema version 3"),
        (_cut, "not a usable database"),
        (_negative, "that poetfw did not write"),
        (Path.mkdir, "cannot be opened: unable to open"),
    ],
)
def test_a_file_that_is_no_such_database_is_refused(
    spoil: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "costs.sqlite"
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    for act in (Database(path).all, lambda: Database(path).known(SETUP, {RELU: V1})):
        with pytest.raises(CostsError, match=said) as refused:
            act()
        assert str(path) in refused.value.message
    if spoil is not _negative:
        with pytest.raises(CostsError, match=said):
            Database(path).add([row(SGD)])
    assert not before or spoil is _negative or path.read_bytes() == before


def test_a_database_from_before_numbers_is_read_and_becomes_one_with_them(tmp_path: Path) -> None:
    """What was kept is known by the same key, and what is added says that it is newer."""
    assert RELU.key == "dfad0f513f0239a1"
    database = Database(tmp_path / "costs.sqlite")
    database.add([row()])
    with sqlite3.connect(database.path) as connection:
        connection.execute("PRAGMA user_version = 1")
        (kept,) = connection.execute("SELECT case_json FROM measurements").fetchone()
    assert "numbers" not in kept
    assert database.known(SETUP, {RELU: V1, OWN: V1}) == {RELU: row()}
    database.add([row(OWN, 700.0)])
    assert {one.case: one.ticks for one in database.all()} == {RELU: 640.0, OWN: 700.0}
    with sqlite3.connect(database.path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_document_from_before_numbers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(to_json([row()]).replace(b'"schema_version": 2', b'"schema_version": 1'))
    assert read_measurements(path) == (row(),)


def test_a_transfer_has_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(CostsError, match="a page_in has size_bytes above 0, and nothing else"):
        Database(tmp_path / "costs.sqlite").add([row(replace(PAGE, numbers=OWN.numbers))])


@pytest.mark.parametrize("other", [{"kind": "gone"}, {"variant": "general"}], ids=str)
def test_rows_of_an_operator_or_a_kernel_that_is_gone_are_stale(
    other: dict[str, str], tmp_path: Path
) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([row(), row(SGD)])
    gone = json.dumps(RELU.to_json() | other)
    with sqlite3.connect(database.path) as connection:
        connection.execute(
            "UPDATE measurements SET case_json = ? WHERE case_key = ?", (gone, RELU.key)
        )
    assert [one.case for one in database.all()] == [SGD]


WRITER = """
import sys
sys.path[:0] = {path!r}
from dataclasses import replace
from pathlib import Path
from unit.costs.test_cost_database import RELU, SETUP, row
from poetfw.costs import Database
for i in range(20):
    Database(Path(sys.argv[1])).add([row(setup=replace(SETUP, compiler=f"{{sys.argv[2]}} {{i}}"))])
"""


@pytest.mark.slow
def test_several_processes_may_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    program = WRITER.format(path=[str(Path(__file__).parents[2]), *sys.path])
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), f"writer{i}"]) for i in range(4)
    ]
    assert [writer.wait(timeout=100) for writer in writers] == [0] * 4
    assert len(Database(path).all()) == 80


@pytest.mark.parametrize(("write", "name"), [(to_csv, "rows.csv"), (to_json, "rows.json")])
def test_rows_come_back_from_a_file(
    write: Callable[[list[Measurement]], bytes], name: str, tmp_path: Path
) -> None:
    rows = [row(case) for case in CASES]
    rows += [row(setup=replace(SETUP, board='a "board", of many', machine="qemu"))]
    path = tmp_path / name
    path.write_bytes(write(rows))
    assert list(read_measurements(path)) == rows


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("640.0", "nan", r"rows.csv:3: ticks: .*finite"),
        ("640.0", "-1", r"rows.csv:3: ticks: 0 or more was expected, not '-1'"),
        ("640.0", "1e400", r"rows.csv:3: ticks: "),
        ("2026", "2999", r"rows.csv:3: measured_at is in the future"),
        ("640.0", "many", r"rows.csv:3: ticks: a number was expected"),
        ("cycles", "weeks", r"rows.csv:3: counter: .*'cycles', 'instructions' or 'ns'"),
        ("sgd", "magic", r"rows.csv:3: .*'magic' is not an operator of poetfw"),
        ('""momentum"":0.9', '""momentum"":NaN', r"rows.csv:3: "),
        ('""momentum"":0.9', '""momentum"":""x""', r"rows.csv:3: case.attributes.momentum"),
        ('""size_bytes"":0', '""size_bytes"":0,""numbers"":""a""', r"rows.csv:3: case.numbers"),
        ("64000000", "0", r"rows.csv:3: clock_hz: "),
        ("nrf52840", "a\x1bb", r"rows.csv:3: board: "),
        (",2026", ",,2026", r"rows.csv:3: 16 columns were expected"),
        ("time_s", "seconds", r"rows.csv:1: the .* were expected: time_s missing; 'seconds' too"),
        ("time_s", "ticks", r"rows.csv:1: .* were expected: time_s missing; 'ticks' too many"),
        (",time_s", "", r"rows.csv:1: .* were expected: time_s missing$"),
    ],
)
def test_a_table_that_nobody_vouches_for_is_refused(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    head, first, second = to_csv([row(), row(SGD)]).decode().splitlines()
    assert old in head + second
    lines = [head, first, second.replace(old, new, 1)]
    if old in head:
        lines = [head.replace(old, new), first, second]
    path.write_text("\n".join(lines))
    with pytest.raises(CostsError, match=said):
        read_measurements(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"ticks":640.0', '"ticks":NaN', "NaN is not a number"),
        ('"ticks":640.0', '"ticks":-1', r"measured\[0\].rows\[1\]: ticks: "),
        ('"ticks":640.0', '"ticks":[', r"rows.json:4: .*JSON was expected"),
        ('"ticks":640.0,', "", r"measured\[0\].rows\[1\]: ticks: it is missing"),
        ('"ticks":640.0,', '"ticks":640.0,"more":1,', r"rows\[1\]: more: "),
        ('"size_bytes":0', '"size_bytes":0,"variant":"by_1"', r"rows\[1\]: .* kernel 'by_1'"),
        ('"schema_version": 2', '"schema_version": 3', "schema_version"),
        ("2026-01-02T03:04:05Z", "2999-01-02T03:04:05Z", r"rows\[1\]: measured_at is in the fut"),
    ],
)
def test_a_document_that_nobody_vouches_for_is_refused(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.json"
    text = to_json([row(), row(SGD)]).decode()
    before, found, after = text.rpartition(old)
    assert found
    path.write_text(before + new + after)
    with pytest.raises(CostsError, match=said):
        read_measurements(path)


def test_asking_whether_a_file_can_be_written_makes_none(tmp_path: Path) -> None:
    database = Database(tmp_path / "folder" / "costs.sqlite")
    database.check_writable()
    assert not [*tmp_path.iterdir()]
    database.add([row()])
    database.check_writable()
    assert len(database.all()) == 1
    database.path.write_text("no database")
    with pytest.raises(CostsError):
        database.check_writable()


def test_a_table_may_come_from_a_spreadsheet(tmp_path: Path) -> None:
    """Which writes a byte order mark, ends lines in its own way, and lets columns be moved."""
    rows = [row(), row(SGD)]
    lines = [*csv.DictReader(io.StringIO(to_csv(rows).decode()))]
    with (tmp_path / "rows.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, sorted(lines[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(lines)
    assert list(read_measurements(tmp_path / "rows.csv")) == rows


def test_a_document_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("[]")
    with pytest.raises(CostsError, match=r"rows.json: the document: an object was expected, not"):
        read_measurements(path)


@pytest.mark.parametrize("name", ["rows.txt", "missing.csv"])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(CostsError, match=name):
        read_measurements(tmp_path / name)
