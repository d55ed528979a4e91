# SPDX-License-Identifier: Apache-2.0
"""Numbers of bytes, as people write them."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(
    r"(?P<number>\d+(?:\.\d+)?|\d{1,3}(?:[,_]\d{3})+) ?(?:(?P<unit>[KMGT]?)(?:i?B)?)?",
    re.ASCII | re.IGNORECASE,
)
_LONGEST = 1000  # far fewer digits than Python reads

FORMS = "a number of bytes, as 262144 or 256K (1K is 1,024)"
"""Notation of sizes, for messages."""


def parse_bytes(text: str) -> int:
    """The number of bytes in a text such as 262144, 262,144, 256K, 256 KiB or 1.5M.

    K, KB and KiB are all 1,024 bytes, as memories are sold; so are M, G and T powers of that.

    Raises:
        ValueError: The text is not a size, or not a whole number of bytes.
    """
    found = _SIZE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(f"{text!r:.80} is not {FORMS}")
    number = Fraction(re.sub("[,_]", "", found["number"]))
    size = number * _UNITS[(found["unit"] or "").upper()]
    if size.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of bytes: it is {float(size):,.3f}")
    return int(size)
