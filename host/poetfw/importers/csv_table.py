# SPDX-License-Identifier: Apache-2.0
"""Reads samples from a CSV file: one line per sample, features followed by targets."""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from poetfw.common.errors import DataError, cut
from poetfw.importers.samples import LARGEST_BYTES, NUMBER_BYTES, Samples, expect_room
from poetfw.ir import Dtype
from poetfw.models import Model
from poetfw.ops.base import LARGEST_INTEGER

_MOST_CHARACTERS = 64
"""Most characters of a number; a line may have as many for each of its numbers."""

_LARGEST_NUMBER = float(np.finfo(np.float32).max)


def read_csv(path: Path, model: Model) -> Samples:
    """Read samples from a CSV file with commas, in UTF-8.

    A line holds the model's features in C order, then the class number or, for the loss mse, all
    numbers of the target. A first line without any number is a header.

    Raises:
        DataError: The file cannot be read, or a line is malformed; the message names the line.
    """
    ids = model.ids(model.input) if model.input.dtype is Dtype.I32 else None
    features = math.prod(model.input.shape[1:])
    outputs, whole = math.prod(model.target.shape[1:]), model.target.dtype is Dtype.I32
    known, ignored = model.label_classes(model.target)
    classes = known or (LARGEST_INTEGER if whole else None)
    x: array[float] = array("f" if ids is None else "d")
    y: array[float] = array("d" if whole else "f")
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(_bounded(stream, path, features + outputs), strict=True)
            for cells in lines:
                at = f"{path}, line {lines.line_num}"
                if not cells or (len(x) == 0 and lines.line_num == 1 and _is_header(cells)):
                    continue
                if len(cells) != features + outputs:
                    raise DataError(
                        f"{at}: there are {len(cells):,} columns, but model {model.name!r} needs "
                        f"{features + outputs:,}: {features:,} features, then "
                        + ("the class number" if whole and outputs == 1 else f"{outputs:,} targets")
                    )
                expect_room(str(path), (len(x) + len(y) + len(cells)) * NUMBER_BYTES, LARGEST_BYTES)
                for column, cell in enumerate(cells[:features], start=1):
                    x.append(_number(f"{at}, column {column}", cell, ids))
                for column, cell in enumerate(cells[features:], start=features + 1):
                    y.append(_number(f"{at}, column {column}", cell, classes, ignored))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: it is not UTF-8 text: {error.reason}") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {lines.line_num}: not CSV: {error}") from error
    samples = len(x) // features
    if not samples:
        raise DataError(f"{path}: it holds no samples")
    features_of = np.array(x, np.float32 if ids is None else np.int32)
    targets = np.array(y, np.int32 if whole else np.float32)
    return Samples(
        (features_of.reshape(samples, *model.input.shape[1:]),),
        (targets.reshape(samples, *model.target.shape[1:]),),
    )


def _bounded(stream: IO[str], path: Path, columns: int) -> Iterator[str]:
    """Lines of the file, with a limit on their length."""
    most = (columns + 1) * (_MOST_CHARACTERS + 1)
    number = 0
    while line := stream.readline(most + 1):
        number += 1
        if len(line) > most:
            raise DataError(
                f"{path}, line {number}: it has more than {most:,} characters, too many for "
                f"{columns:,} numbers"
            )
        yield line


def _is_header(cells: list[str]) -> bool:
    return all(_parsed(cell) is None for cell in cells)


def _parsed(cell: str) -> float | None:
    """Number in a cell; None for other text. NaN and infinity are numbers here."""
    if len(cell) > _MOST_CHARACTERS or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _number(at: str, cell: str, below: int | None, ignored: int | None = None) -> float:
    """Parse a number in float32's range or, with `below`, an integer in [0, below).

    The integer may also be the label that is ignored.
    """
    value = _parsed(cell)
    if value is None:
        raise DataError(f"{at}: {cut(repr(cell), 60)} is not a number")
    if below is None:
        if not abs(value) <= _LARGEST_NUMBER:
            raise DataError(f"{at}: {cell} is NaN, infinity or a number beyond float32")
        return value
    if value != ignored and not (0 <= value < below and value.is_integer()):
        raise DataError(f"{at}: {cell} is not an integer from 0 to {below - 1}")
    return value
