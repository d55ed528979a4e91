# SPDX-License-Identifier: Apache-2.0
"""Import and export of measurements as JSON and CSV; imported files are untrusted.

In JSON, rows are grouped by their set-up, a row a line. In CSV, every row is complete; its case is
a JSON object in one column.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter as Counted
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from poetfw.common.errors import CostsError, ModelError, listed
from poetfw.common.reading import expected, parse_json, read_bytes
from poetfw.costs.alone import alone
from poetfw.costs.measurement import BESIDE, MOVES, TAKEN, Case, Counter, Measurement, Setup
from poetfw.ir import Dtype
from poetfw.ops import KINDS

SCHEMA_VERSION = 2
"""Before 2, no case had numbers."""

_SETUP = tuple(field.name for field in fields(Setup))
_FIGURES = tuple(field.name for field in fields(Measurement) if field.name not in ("case", "setup"))
_COLUMNS = (*_SETUP, "case", *_FIGURES)
LARGEST_OPERAND_BYTES = 1 << 30
"""Largest number of elements accepted: far more than any tensor on these boards."""
_ROUNDING = 1e-6
_MOST_S = 86_400.0
"""Seconds, a day: no run of a case takes that long."""
_NOT_FREE = 1024
"""Number of elements, or bytes of a transfer, that no core handles within one tick."""
_CLOCKS_APART = timedelta(days=1)
"""By how much another computer's clock may be ahead."""
_NANOSECONDS_PER_S = 1e9

_Text = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Name = Annotated[_Text, StringConstraints(min_length=1)]
_Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_Ticks = Annotated[float, Field(ge=0, le=2.0**63, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=2**48)]
_Extent = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Operand = tuple[Annotated[list[_Extent], Field(max_length=8)], Dtype]
_Integer = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class UnknownCaseError(ValueError):
    """No operator of this version has the case."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Case(_Strict):
    kind: _Name
    inputs: Annotated[list[_Operand], Field(max_length=1000)]
    updates: Annotated[list[_Operand], Field(max_length=1000)]
    attributes: dict[_Name, _Integer | _Number | list[_Integer] | list[_Number]]
    size_bytes: Annotated[int, Field(ge=0, le=2**48)]
    numbers: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16})?$")] = ""
    variant: _Text = ""
    """One of several kernels, of which older versions of poetfw measured each."""

    def case(self) -> Case:
        """The case, which some operator has.

        Raises:
            ValueError: It is malformed; an `UnknownCaseError` where no operator has it.
        """
        if self.variant:
            raise UnknownCaseError(
                f"{self.kind!r:.80} no longer has a kernel {self.variant!r:.80} beside its own"
            )
        case = Case(
            kind=self.kind,
            inputs=tuple((tuple(shape), dtype) for shape, dtype in self.inputs),
            updates=tuple((tuple(shape), dtype) for shape, dtype in self.updates),
            attributes={
                key: tuple(value) if isinstance(value, list) else value
                for key, value in self.attributes.items()
            },
            size_bytes=self.size_bytes,
            numbers=self.numbers,
        )
        if case.kind in MOVES:
            of_op = case.inputs or case.updates or case.attributes or case.numbers
            if of_op or not case.size_bytes:
                raise ValueError(f"a {case.kind} has size_bytes above 0, and nothing else")
            return case
        if case.size_bytes:
            raise ValueError(f"size_bytes is that of {' or '.join(MOVES)}, not of an op")
        if case.kind not in KINDS:
            raise UnknownCaseError(f"{case.kind!r:.80} is not an operator of poetfw")
        try:
            _, graph = alone(case)
        except ModelError as error:
            raise UnknownCaseError(error.message) from error
        except (KeyError, ValueError, IndexError, AssertionError) as error:
            raise UnknownCaseError(f"no {case.kind!r} is like this: {error!r}") from error
        largest = max(graph.tensors, key=lambda tensor: tensor.size_bytes)
        if largest.size_bytes > LARGEST_OPERAND_BYTES:
            raise UnknownCaseError(
                f"a {case.kind!r} has an operand of {largest.size_bytes:,} bytes, of shape "
                f"{list(largest.shape)}: they have {LARGEST_OPERAND_BYTES:,} at most"
            )
        return case


class _Setup(_Strict):
    board: _Name
    core: _Name
    clock_hz: Annotated[int, Field(ge=1, le=10**12)]
    machine: _Text
    compiler: _Name
    meter: _Name


class _Row(_Strict):
    case: _Case
    kernel_version: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    repetitions: _Count
    counter: Counter
    ticks: _Ticks
    spread_ticks: _Ticks
    time_s: _Amount
    energy_j: _Amount
    energy_spread_j: _Amount
    measured_at: AwareDatetime

    def measurement(self, setup: Setup) -> Measurement:
        """The row under the set-up that it was measured with.

        Raises:
            ValueError: No operator has its case, or its time is not that of its ticks.
        """
        hz = _NANOSECONDS_PER_S if self.counter is Counter.NANOSECONDS else setup.clock_hz
        if not math.isclose(self.time_s, self.ticks / hz, rel_tol=_ROUNDING, abs_tol=1e-12):
            raise ValueError(
                f"time_s is {self.time_s!r}, but {self.ticks:g} {self.counter} at {hz:,.0f} a "
                f"second are {self.ticks / hz!r} s"
            )
        figures = {name: getattr(self, name) for name in _FIGURES}
        figures["measured_at"] = self.measured_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return Measurement(case=self.case.case(), setup=setup, **figures)


class _Group(_Strict):
    setup: _Setup
    rows: list[Any]


class _Document(_Strict):
    schema_version: Literal[1, 2]
    measured: list[_Group]


_ROW: TypeAdapter[_Row] = TypeAdapter(_Row)
_OF_SETUP: TypeAdapter[_Setup] = TypeAdapter(_Setup)


def to_json(measurements: Iterable[Measurement]) -> bytes:
    """Measurements as a JSON document in UTF-8."""
    groups: dict[Setup, list[str]] = {}
    for one in measurements:
        row = {"case": one.case.to_json()} | {name: getattr(one, name) for name in _FIGURES}
        groups.setdefault(one.setup, []).append(json.dumps(row, separators=(",", ":")))
    measured = ",\n".join(
        f'{{"setup": {json.dumps(asdict(setup))}, "rows": [\n' + ",\n".join(rows) + "\n]}"
        for setup, rows in groups.items()
    )
    return f'{{"schema_version": {SCHEMA_VERSION}, "measured": [\n{measured}\n]}}\n'.encode()


def to_csv(measurements: Iterable[Measurement]) -> bytes:
    """Measurements as a table in UTF-8, one a line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in measurements:
        case = json.dumps(one.case.to_json(), separators=(",", ":"))
        figures = {name: getattr(one, name) for name in _FIGURES}
        writer.writerow(asdict(one.setup) | {"case": case} | figures)
    return text.getvalue().encode()


def read_measurements(path: Path) -> tuple[Measurement, ...]:
    """The measurements in a `.json` or `.csv` file, all of them checked.

    Raises:
        CostsError: The file cannot be read, is malformed, or holds impossible values; the message
            names the file, the line or row, and the expected value.
    """
    if path.suffix not in (".json", ".csv"):
        raise CostsError(f"{path} ends in neither .json nor .csv", "name another file")
    try:
        text = read_bytes(path).decode("utf-8-sig")  # a spreadsheet's begins with a byte order mark
    except OSError as error:
        raise CostsError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CostsError(f"{path} is not UTF-8") from error
    rows = _json_rows(path, text) if path.suffix == ".json" else _csv_rows(path, text)
    return tuple(rows)


def checked(measurement: Measurement) -> Measurement:
    """The measurement as it is kept, if it is one that can be.

    Raises:
        ValueError: A figure is out of range, or no operator has its case.
    """
    figures = {name: getattr(measurement, name) for name in _FIGURES}
    case = json.dumps(measurement.case.to_json())
    return _believable(row_from(asdict(measurement.setup), case, figures))


def _believable(measurement: Measurement) -> Measurement:
    """The measurement, if its date and speed are possible.

    Rows of a database are not checked again, as the computer's clock may have been set back.

    Raises:
        ValueError: The date is in the future, or the case cannot run that fast.
    """
    if datetime.fromisoformat(measurement.measured_at) > datetime.now(UTC) + _CLOCKS_APART:
        raise ValueError(f"measured_at is in the future: {measurement.measured_at}")
    if measurement.time_s > _MOST_S:
        raise ValueError(
            f"ticks: {measurement.ticks:g} are {measurement.time_s:g} s, and no run of a case "
            f"takes more than {_MOST_S:,.0f}"
        )
    case = measurement.case
    shapes = [shape for shape, _ in (*case.inputs, *case.updates)]
    size = max([case.size_bytes, *map(math.prod, shapes)])
    if not measurement.ticks and size >= _NOT_FREE and case.kind not in (*BESIDE, *TAKEN):
        raise ValueError(f"ticks: a {case.kind} of {size:,} cannot take 0 ticks")
    return measurement


def row_from(setup: Mapping[str, Any], case: str, figures: Mapping[str, Any]) -> Measurement:
    """A measurement of these figures.

    Args:
        setup: the fields of its set-up.
        case: its case, as JSON.
        figures: its other fields.

    Raises:
        ValueError: One is malformed or out of range; an `UnknownCaseError` where no operator has
            the case.
    """
    conditions = Setup(**_OF_SETUP.validate_python(setup).model_dump())
    row = {"case": parse_json(case), **figures}
    return _ROW.validate_python(row).measurement(conditions)


def _json_rows(path: Path, text: str) -> Iterator[Measurement]:
    try:
        document = _Document.model_validate(parse_json(text))
    except json.JSONDecodeError as error:
        raise CostsError(f"{path}:{error.lineno}: {error.msg}; JSON was expected") from error
    except ValueError as error:
        raise CostsError(f"{path}: {said(error)}") from error
    for number, group in enumerate(document.measured):
        setup = Setup(**group.setup.model_dump())
        for index, row in enumerate(group.rows):
            try:
                yield _believable(_ROW.validate_python(row).measurement(setup))
            except ValueError as error:
                place = f"{path}: measured[{number}].rows[{index}]"
                raise CostsError(f"{place}: {said(error)}") from error


def _csv_rows(path: Path, text: str) -> Iterator[Measurement]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        _check_header(f"{path}:1", reader.fieldnames or ())
        for line in reader:
            place = f"{path}:{reader.line_num}"
            if None in line or None in line.values():
                raise CostsError(f"{place}: {len(_COLUMNS)} columns were expected")
            setup = {name: line[name] for name in _SETUP}
            figures = {name: line[name] for name in _FIGURES}
            try:
                yield _believable(row_from(setup, line["case"], figures))
            except ValueError as error:
                raise CostsError(f"{place}: {said(error)}") from error
    except csv.Error as error:
        raise CostsError(f"{path}:{reader.line_num}: {error}; CSV was expected") from error


def _check_header(place: str, names: Sequence[str]) -> None:
    """Check that each column is there once; they may be in any order."""
    missing = [name for name in _COLUMNS if name not in names]
    other = [name for name, times in Counted(names).items() if times > 1 or name not in _COLUMNS]
    if missing or other:
        wrong = [f"{listed(missing, most=5)} missing"] if missing else []
        wrong += [f"{listed([*map(repr, other)], most=5)} too many"] if other else []
        raise CostsError(
            f"{place}: the columns {', '.join(_COLUMNS)} were expected: {'; '.join(wrong)}"
        )


def said(error: ValueError) -> str:
    """The first error of a document: its place and the value found there."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the document"
    return f"{where}: {expected(first)}, not {first['input']!r:.80}"
