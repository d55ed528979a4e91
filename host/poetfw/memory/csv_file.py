# SPDX-License-Identifier: Apache-2.0
"""Placement problems and answers as CSV files, and answers as JSON documents.

Columns `id,lower,upper,size[,alignment][,offset][,bank]` in any order; time intervals are
half-open, sizes and offsets in bytes. An empty alignment means 1, an empty offset any address, an
empty bank any bank.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from poetfw.common.errors import ProblemError
from poetfw.common.output_file import replace_file
from poetfw.common.reading import read_bytes
from poetfw.memory.banks import Bank, BankUse
from poetfw.memory.checks import check_buffer, find_fixed_clash
from poetfw.memory.problem import Buffer, Placement

_REQUIRED = ("id", "lower", "upper", "size")
_OPTIONAL = ("alignment", "offset", "bank")

_LONGEST_SHOWN = 60
"""Most characters of the file in a message."""


def read_buffers(path: Path, banks: Sequence[Bank] = ()) -> list[Buffer]:
    """Read a placement problem from a CSV file.

    Args:
        path: the file.
        banks: banks that a buffer may prefer.

    Raises:
        ProblemError: The file cannot be read or a line is malformed; the message names the file,
            the line and the expected value.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProblemError(
            f"{path}: is not UTF-8 text (byte {error.start})", "save it as UTF-8"
        ) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = {bank.name for bank in banks}
    buffers: list[Buffer] = []
    lines: list[int] = []
    first_line: dict[str, int] = {}
    try:
        header = _read_header(path, re.split("[\r\n]", text, maxsplit=1)[0], next(reader, []))
        for row in reader:
            line = reader.line_num
            if not row:
                continue
            buffer = _read_row(path, line, header, row)
            if buffer.bank is not None and buffer.bank not in names:
                value = shlex.quote(f"{buffer.bank}=LOWER:UPPER")
                raise ProblemError(
                    f"{path}, line {line}: the bank {buffer.bank!r} does not exist",
                    f"give it with --bank {value}",
                )
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
    """Write the buffers with their offsets as a CSV file, atomically.

    The column `bank` is written if a buffer prefers a bank.

    Raises:
        OutputError: The file cannot be written.
    """
    columns = [*_REQUIRED, *_OPTIONAL]
    if all(b.bank is None for b in buffers):
        columns.remove("bank")
    texts = [text for b in buffers for text in (b.id, b.bank or "")]
    # csv quotes its own line terminator, but CR, NEL and others end lines as well
    broken = any(len(f"{text}.".splitlines()) > 1 for text in texts)
    file = io.StringIO()
    writer = csv.DictWriter(
        file,
        columns,
        quoting=csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL,
        lineterminator="\n",
        extrasaction="ignore",
    )
    writer.writeheader()
    for b in buffers:
        writer.writerow(asdict(b) | {"offset": placement.offsets[b.id]})
    replace_file(path, file.getvalue().encode())


def result_document(
    buffers: Sequence[Buffer], placement: Placement, uses: Sequence[BankUse] = ()
) -> dict[str, object]:
    """Convert an answer to a JSON document; offsets are null without a placement."""
    return {
        "status": str(placement.status),
        "height_bytes": placement.height_bytes,
        "lower_bound_bytes": placement.lower_bound_bytes,
        "banks": [asdict(use) for use in uses],
        "buffers": [asdict(b) | {"offset": placement.offsets.get(b.id)} for b in buffers],
    }


def _read_header(path: Path, line: str, header: list[str]) -> list[str]:
    def refuse(problem: str) -> NoReturn:
        raise ProblemError(
            f"{path}, line 1: {problem}; expected the header "
            f"{','.join(_REQUIRED)}{''.join(f'[,{name}]' for name in _OPTIONAL)}"
        )

    names = [name.strip() for name in header]
    if not set(names) & set(_REQUIRED):
        refuse(f"{_shown(line)} is not the header" if line else "is empty")
    for name in _REQUIRED:
        if name not in names:
            refuse(f"the column {name!r} is missing")
    for name in names:
        if name not in _REQUIRED and name not in _OPTIONAL:
            refuse(f"the column {_shown(name)} is unknown")
        if names.count(name) > 1:
            refuse(f"the column {name!r} occurs twice")
    return names


def _read_row(path: Path, line: int, header: list[str], row: list[str]) -> Buffer:
    if len(row) != len(header):
        raise ProblemError(f"{path}, line {line}: expected {len(header)} fields, got {len(row)}")
    fields = dict(zip(header, (field.strip() for field in row), strict=True))
    if not fields["id"]:
        raise ProblemError(f"{path}, line {line}: the id is empty")
    bank = fields.get("bank") or None
    if bank is not None and "," in bank:  # --bank ends the name at a comma
        raise ProblemError(f"{path}, line {line}: the bank {bank!r} must not hold a comma")

    def integer(name: str) -> int:
        text = fields[name]
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 30):
            raise ProblemError(
                f"{path}, line {line}: {name} must be an integer, not {_shown(text)}"
            )
        return int(text)

    buffer = Buffer(
        id=fields["id"],
        lower=integer("lower"),
        upper=integer("upper"),
        size=integer("size"),
        alignment=integer("alignment") if fields.get("alignment") else 1,
        offset=integer("offset") if fields.get("offset") else None,
        bank=bank,
    )
    try:
        check_buffer(buffer)
    except ProblemError as error:
        raise ProblemError(f"{path}, line {line}: {error.message}") from error
    return buffer


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…")
