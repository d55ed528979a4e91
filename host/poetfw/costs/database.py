# SPDX-License-Identifier: Apache-2.0
"""Measured costs in an SQLite file that several processes can use at once.

Rows are only appended; the newest row of a case counts. A row is stale if the C sources of its
kernel have changed since; stale rows remain in the file, but are not used.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from tempfile import TemporaryFile

from poetfw.common.errors import CostsError
from poetfw.common.resources import user_data_dir
from poetfw.costs.exchange import UnknownCaseError, checked, row_from, said
from poetfw.costs.measurement import Case, Measurement, Setup

SCHEMA_VERSION = 2
_READ_VERSIONS = (1, SCHEMA_VERSION)
"""Readable versions. Cases of version 1 have no numbers; adding a row converts it to version 2."""
_APPLICATION_ID = 0x706F6574
"""SQLite application id of these files: "poet" in ASCII."""
_BUSY_S = 5.0
"""Seconds to wait for another process; one that locks the file for longer is stopped or hangs."""

_SETUP = tuple(field.name for field in fields(Setup))
_FIGURES = tuple(field.name for field in fields(Measurement) if field.name not in ("case", "setup"))
_COLUMNS = ", ".join((*_SETUP, "case_json", *_FIGURES))
_SCHEMA = """
CREATE TABLE measurements (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    core TEXT NOT NULL,
    clock_hz INTEGER NOT NULL,
    machine TEXT NOT NULL,
    compiler TEXT NOT NULL,
    meter TEXT NOT NULL,
    case_key TEXT NOT NULL,
    case_json TEXT NOT NULL,
    kernel_version TEXT NOT NULL,
    repetitions INTEGER NOT NULL,
    counter TEXT NOT NULL,
    ticks REAL NOT NULL,
    spread_ticks REAL NOT NULL,
    time_s REAL NOT NULL,
    energy_j REAL NOT NULL,
    energy_spread_j REAL NOT NULL,
    measured_at TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_at_a_time ON measurements
    (board, core, clock_hz, machine, compiler, meter, case_key, kernel_version, measured_at);
"""


@dataclass(frozen=True)
class Database:
    """Measurements in a file, which is created by the first addition.

    Attributes:
        path: path of the file, whose folder is also created if missing.
    """

    path: Path

    @staticmethod
    def default_path() -> Path:
        """Default location of a user's measurements."""
        return user_data_dir() / "costs.sqlite"

    def require(self) -> None:
        """Check that the file exists, since the user named it for reading.

        Raises:
            CostsError: The file does not exist.
        """
        if not self.path.exists():
            raise CostsError(
                f"there is no database of costs {self.path}",
                "check --db, or POETFW_DB",
                "make one: `poetfw profile --db`, or `poetfw costs --import FILE --db`",
            )

    def known(
        self, setup: Setup, kernel_versions: Mapping[Case, str]
    ) -> Mapping[Case, Measurement]:
        """Measurements of cases under a set-up, with the current versions of their kernels.

        Args:
            setup: the set-up; rows of others are left out.
            kernel_versions: current version of each case's kernel.

        Raises:
            CostsError: The file is not such a database, or cannot be read.
        """
        condition = " AND ".join(f"{name} = ?" for name in _SETUP)
        wanted = {case: case for case in kernel_versions}
        return {
            wanted[row.case]: row
            for row in self._rows(f"WHERE {condition}", astuple(setup))
            if kernel_versions.get(row.case) == row.kernel_version
        }

    def of_board(self, board: str) -> tuple[Measurement, ...]:
        """All rows of a board, oldest first.

        Raises:
            CostsError: The file is not such a database, or cannot be read.
        """
        return tuple(self._rows("WHERE board = ?", (board,)))

    def all(self) -> tuple[Measurement, ...]:
        """All rows, oldest first.

        Raises:
            CostsError: The file is not such a database, or cannot be read.
        """
        return tuple(self._rows("", ()))

    def check_writable(self) -> None:
        """Check that measurements can be added, without creating a file.

        Raises:
            CostsError: The file is not such a database, or cannot be made or written.
        """
        if self.path.exists():
            self.add(())
            return
        folder = next(parent for parent in self.path.absolute().parents if parent.exists())
        try:
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise self._unmade(error) from error

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Add measurements: all of them or, after an error or interrupt, none.

        Rows that the file already has are not added again.

        Raises:
            CostsError: A measurement is out of range, or the file is not such a database, or cannot
                be written.
        """
        rows = []
        for measurement in measurements:
            try:
                one = checked(measurement)
            except ValueError as error:
                raise CostsError(
                    f"a measurement of {measurement.case.kind!r:.80} is not kept: {said(error)}"
                ) from error
            case = json.dumps(one.case.to_json(), sort_keys=True, separators=(",", ":"))
            figures = [getattr(one, name) for name in _FIGURES]
            rows.append((*astuple(one.setup), case, *figures, one.case.key))
        places = ", ".join("?" for _ in (*_SETUP, "case", *_FIGURES, "key"))
        with self._transaction() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO measurements ({_COLUMNS}, case_key) VALUES ({places})",
                rows,
            )

    def _rows(self, condition: str, values: tuple[object, ...]) -> Iterator[Measurement]:
        if not self.path.exists():
            return
        with self._connection() as connection:
            connection.execute("BEGIN")  # all that is read is of one moment
            if _is_empty(connection):
                return
            self._check(connection)
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM measurements {condition} ORDER BY measured_at, id", values
            ).fetchall()
        for row in found:
            setup = dict(zip(_SETUP, row, strict=False))
            case, *figures = row[len(_SETUP) :]
            try:
                yield row_from(setup, case, dict(zip(_FIGURES, figures, strict=True)))
            except UnknownCaseError:
                continue  # of an operator that is no more: as stale as a row can be
            except ValueError as error:
                raise CostsError(
                    f"{self.path} holds a row that poetfw did not write: {said(error)}",
                    *self._next(),
                ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unmade(error) from error
        with self._connection() as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                if _is_empty(connection):
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                self._check(connection)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(
                sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
            ) as connection:
                yield connection
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _unmade(self, error: OSError) -> CostsError:
        return CostsError(
            f"{self.path} cannot be made: {error.strerror}", "name another file with --db"
        )

    def _failed(self, error: sqlite3.Error) -> CostsError:
        """Message for an error of SQLite."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without its details
        other = "name another file with --db"
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return CostsError(
                f"{self.path} is in use by another process, which did not release it within "
                f"{_BUSY_S:.0f} s",
                f"wait for that process, or end it, and try again; `fuser {self.path}` says which",
            )
        if code == sqlite3.SQLITE_FULL:
            return CostsError(
                f"{self.path} cannot be written: its disk is full; what it held is kept",
                f"make room there and try again, or {other}",
            )
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return CostsError(f"{self.path} cannot be written: it is read-only", other)
        if code == sqlite3.SQLITE_CANTOPEN:
            there = self.path.exists()
            return CostsError(
                f"{self.path} cannot be {'opened' if there else 'made'}: {error}",
                f"check that {self.path if there else self.path.parent} may be read and written, "
                f"or {other}",
            )
        if code == sqlite3.SQLITE_IOERR:
            return CostsError(
                f"{self.path} cannot be read or written: {error}",
                f"check its disk and try again, or {other}",
            )
        return CostsError(f"{self.path} is not a usable database of costs: {error}", *self._next())

    def _check(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            raise CostsError(
                f"{self.path} is a database of another program, not one of costs", *self._next()
            )
        if version not in _READ_VERSIONS:
            raise CostsError(
                f"{self.path} has schema version {version}; this poetfw reads versions up to "
                f"{SCHEMA_VERSION}",
                *self._next(),
            )

    def _next(self) -> tuple[str, ...]:
        return (f"move {self.path} away, or name another file with --db",)


def _is_empty(connection: sqlite3.Connection) -> bool:
    """True if the file is not a database yet and counts as missing.

    SQLite leaves such a file behind when its creation is interrupted.
    """
    asked = ("SELECT count(*) FROM sqlite_schema", "PRAGMA application_id", "PRAGMA user_version")
    return not any(connection.execute(what).fetchone()[0] for what in asked)
