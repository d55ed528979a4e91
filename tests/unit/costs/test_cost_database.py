# SPDX-License-Identifier: Apache-2.0
"""Measurements are kept as they were added, by several processes at once, and nothing else is."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
from poetfw.errors import CostsError
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
        ({"ticks": -64.0, "time_s": -1e-6}, "greater than or equal to 0"),
        ({"ticks": 1e300, "time_s": 1e300}, "less than or equal to"),
        ({"energy_j": -1.0}, "greater than or equal to 0"),
        ({"energy_j": float("inf")}, "finite"),
        ({"repetitions": 0}, "greater than or equal to 1"),
        ({"time_s": 1.0}, "640 cycles at 64,000,000 a second are 1e-05 s"),
        ({"kernel_version": "x"}, "pattern"),
        ({"measured_at": "yesterday"}, "datetime"),
        ({"case": Case("magic")}, "no operator"),
        ({"case": Case("relu")}, "inputs"),
        ({"case": Case("relu", (((0, 3), Dtype.F32),))}, "greater than or equal to 1"),
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
        (Path.mkdir, "unable to open"),
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


def test_rows_of_an_operator_that_is_gone_are_stale(tmp_path: Path) -> None:
    database = Database(tmp_path / "costs.sqlite")
    database.add([row(), row(SGD)])
    gone = json.dumps(RELU.to_json() | {"kind": "gone"})
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
        ("640.0", "-1", r"rows.csv:3: ticks: .*greater than or equal to 0, not '-1'"),
        ("640.0", "1e400", r"rows.csv:3: ticks: "),
        ("640.0", "many", r"rows.csv:3: ticks: .*valid number"),
        ("cycles", "weeks", r"rows.csv:3: counter: .*'cycles', 'instructions' or 'ns'"),
        ("sgd", "magic", r"rows.csv:3: .*'magic' is no operator of poetfw"),
        ('""momentum"":0.9', '""momentum"":NaN', r"rows.csv:3: "),
        ('""momentum"":0.9', '""momentum"":""x""', r"rows.csv:3: case.attributes.momentum"),
        ('""size_bytes"":0', '""size_bytes"":0,""numbers"":""a""', r"rows.csv:3: case.numbers"),
        ("64000000", "0", r"rows.csv:3: clock_hz: "),
        ("nrf52840", "a\x1bb", r"rows.csv:3: board: "),
        (",2026", ",,2026", r"rows.csv:3: 16 columns were expected"),
        ("time_s", "seconds", r"rows.csv:1: the columns board, .* were expected"),
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
        ('"ticks":640.0', '"ticks":NaN', "NaN is no number"),
        ('"ticks":640.0', '"ticks":-1', r"measured\[0\].rows\[1\]: ticks: "),
        ('"ticks":640.0', '"ticks":[', r"rows.json:4: .*JSON was expected"),
        ('"ticks":640.0,', "", r"measured\[0\].rows\[1\]: ticks: Field required"),
        ('"ticks":640.0,', '"ticks":640.0,"more":1,', r"rows\[1\]: more: "),
        ('"schema_version": 2', '"schema_version": 3', "schema_version"),
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


def test_a_document_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text("[]")
    with pytest.raises(CostsError, match=r"rows.json: the document: an object was expected, not"):
        read_measurements(path)


@pytest.mark.parametrize("name", ["rows.txt", "missing.csv"])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(CostsError, match=name):
        read_measurements(tmp_path / name)
