# SPDX-License-Identifier: Apache-2.0
"""Reads files that nobody vouches for: no device, none that is huge, no number without bounds."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

LARGEST_FILE_BYTES = 1 << 25
"""A file of text, such as JSON or CSV, may have so many bytes."""

_LARGEST_INTEGER = 2**63
_MOST_DIGITS = 20


def read_bytes(path: Path, most_bytes: int = LARGEST_FILE_BYTES) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it cannot be read, is a pipe or a device, or has more than `most_bytes`.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "not a regular file")
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes")
    return content


def expected(detail: Mapping[str, Any]) -> str:
    """What pydantic says was expected of a value, without the names of classes.

    Args:
        detail: one of the errors that a `ValidationError` lists.
    """
    return "an object was expected" if detail["type"] == "model_type" else str(detail["msg"])


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document whose integers fit 64 bits and whose numbers are all finite.

    Raises:
        ValueError: it is not such a document.
    """
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_real, parse_constant=_refuse_constant
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _integer(text: str) -> int:
    if len(text) <= _MOST_DIGITS and -_LARGEST_INTEGER <= int(text) < _LARGEST_INTEGER:
        return int(text)
    raise ValueError(f"the integer {text[:_MOST_DIGITS]}… does not fit 64 bits")


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:_MOST_DIGITS]}… is beyond every float")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
