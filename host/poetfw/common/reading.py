# SPDX-License-Identifier: Apache-2.0
"""Readers for untrusted files: regular files of limited size, numbers within bounds."""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pydantic import ValidationError

LARGEST_FILE_BYTES = 1 << 25
"""A file of text, such as JSON or CSV, may have so many bytes."""

_LARGEST_INTEGER = 2**63
_MOST_DIGITS = 20


def read_bytes(path: Path, most_bytes: int = LARGEST_FILE_BYTES) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: It cannot be read, is a pipe or a device, or has more than `most_bytes`.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "not a regular file")
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes} bytes")
    return content


_EXPECTED = {
    "assertion_error": "{error}",
    "bool": "true or false was expected",
    "datetime": "a date and time was expected",
    "datetime_from_date": "a date and time was expected",
    "dataclass": "an object was expected",
    "dict": "an object was expected",
    "enum": "{expected} was expected",
    "extra_forbidden": "there is no such key",
    "finite_number": "a finite number was expected",
    "float": "a number was expected",
    "greater_than": "a number above {gt:g} was expected",
    "greater_than_equal": "{ge:g} or more was expected",
    "int": "an integer was expected",
    "is_instance_of": "another value was expected",
    "json_invalid": "not JSON: {error}",
    "json_type": "JSON was expected",
    "less_than": "a number below {lt:g} was expected",
    "less_than_equal": "{le:g} or less was expected",
    "list": "a list was expected",
    "literal_error": "{expected} was expected",
    "mapping": "an object was expected",
    "missing": "it is missing",
    "model": "an object was expected",
    "multiple_of": "a multiple of {multiple_of} was expected",
    "none_required": "nothing was expected",
    "string": "a text was expected",
    "string_pattern_mismatch": "a text of the pattern {pattern} was expected",
    "string_too_long": "at most {max_length} characters were expected",
    "string_too_short": "at least {min_length} characters were expected",
    "too_long": "at most {max_length} entries were expected",
    "too_short": "at least {min_length} entries were expected",
    "tuple": "a list was expected",
    "unexpected_keyword_argument": "there is no such key",
    "union_tag_invalid": "one of {expected_tags} was expected",
    "value_error": "{error}",
}
"""Descriptions of an expected value, by the kind of error that pydantic found."""

_SUFFIX = re.compile(r"_(type|attributes_type|exact_type|parsing|parsing_size|from_float)")


def expected(detail: Mapping[str, Any]) -> str:
    """Description of the expected value.

    Args:
        detail: one of the errors that pydantic's `ValidationError` lists.
    """
    kind = detail["type"]
    text = _EXPECTED.get(kind) or _EXPECTED.get(_SUFFIX.sub("", kind), "another value was expected")
    return text.format_map(detail.get("ctx", {}))


def first_flaw(error: ValidationError) -> str:
    """The first error of a document: its place, and the expected value."""
    detail = error.errors(include_url=False)[0]
    return f"at {'.'.join(map(str, detail['loc'])) or 'the top level'}: {expected(detail)}"


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document whose integers fit 64 bits and whose numbers are all finite.

    Raises:
        ValueError: It is not such a document.
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
    raise ValueError(f"{text} is not a number of JSON")
