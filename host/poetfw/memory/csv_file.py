"""Placement problems and answers as CSV files, and the answer as a JSON document.

Columns `id,lower,upper,size[,alignment][,offset]` in any order; time intervals are half-open, sizes
and offsets in bytes; an empty alignment means 1, an empty offset means anywhere.
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from poetfw.errors import OutputError, ProblemError
from poetfw.memory.checks import check_buffer, find_fixed_clash
from poetfw.memory.problem import Buffer, Placement

_REQUIRED = ("id", "lower", "upper", "size")
_OPTIONAL = ("alignment", "offset")


def read_buffers(path: Path) -> list[Buffer]:
    """Read a placement problem from a CSV file.

    Raises:
        ProblemError: the file cannot be read, or a line of it is malformed; the message names the
            file, the line and what was expected.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    buffers: list[Buffer] = []
    lines: list[int] = []
    first_line: dict[str, int] = {}
    try:
        header = _read_header(path, next(reader, []))
        for row in reader:
            line = reader.line_num
            if not row:
                continue
            buffer = _read_row(path, line, header, row)
            if buffer.id in first_line:
                raise ProblemError(
                    f"{path}, line {line}: the id {buffer.id!r} occurs already in line "
                    f"{first_line[buffer.id]}; ids must be unique"
                )
            first_line[buffer.id] = line
            buffers.append(buffer)
            lines.append(line)
    except csv.Error as error:
        raise ProblemError(f"{path}, line {reader.line_num}: is not CSV: {error}") from error
    clash = find_fixed_clash(buffers)
    if clash is not None:
        i, j = clash
        raise ProblemError(
            f"{path}, line {lines[j]}: the fixed buffer {buffers[j].id!r} overlaps "
            f"{buffers[i].id!r} of line {lines[i]} in time and address"
        )
    return buffers


def write_placement(path: Path, buffers: Sequence[Buffer], placement: Placement) -> None:
    """Write the buffers with their offsets as a CSV file, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow([*_REQUIRED, *_OPTIONAL])
                for b in buffers:
                    row = (b.id, b.lower, b.upper, b.size, b.alignment, placement.offsets[b.id])
                    writer.writerow(row)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def result_document(buffers: Sequence[Buffer], placement: Placement) -> dict[str, object]:
    """The answer as a JSON document; offsets are null where there is no placement."""
    return {
        "status": str(placement.status),
        "height_bytes": placement.height_bytes,
        "lower_bound_bytes": placement.lower_bound_bytes,
        "solve_time_s": placement.solve_time_s,
        "buffers": [
            {
                "id": b.id,
                "lower": b.lower,
                "upper": b.upper,
                "size": b.size,
                "alignment": b.alignment,
                "offset": placement.offsets.get(b.id),
            }
            for b in buffers
        ],
    }


def _read_header(path: Path, header: list[str]) -> list[str]:
    def refuse(problem: str) -> NoReturn:
        raise ProblemError(
            f"{path}, line 1: {problem}; expected the header "
            f"{','.join(_REQUIRED)}[,alignment][,offset]"
        )

    names = [name.strip() for name in header]
    if not set(names) & set(_REQUIRED):
        refuse("there is no header")
    for name in _REQUIRED:
        if name not in names:
            refuse(f"the column {name!r} is missing")
    for name in names:
        if name not in _REQUIRED and name not in _OPTIONAL:
            refuse(f"the column {name!r} is unknown")
        if names.count(name) > 1:
            refuse(f"the column {name!r} occurs twice")
    return names


def _read_row(path: Path, line: int, header: list[str], row: list[str]) -> Buffer:
    if len(row) != len(header):
        raise ProblemError(f"{path}, line {line}: expected {len(header)} fields, got {len(row)}")
    fields = dict(zip(header, (field.strip() for field in row), strict=True))
    if not fields["id"]:
        raise ProblemError(f"{path}, line {line}: the id is empty")

    def integer(name: str) -> int:
        text = fields[name]
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 30):
            raise ProblemError(f"{path}, line {line}: {name} must be an integer, not {text!r}")
        return int(text)

    buffer = Buffer(
        id=fields["id"],
        lower=integer("lower"),
        upper=integer("upper"),
        size=integer("size"),
        alignment=integer("alignment") if fields.get("alignment") else 1,
        offset=integer("offset") if fields.get("offset") else None,
    )
    try:
        check_buffer(buffer)
    except ProblemError as error:
        raise ProblemError(f"{path}, line {line}: {error.message}") from error
    return buffer
