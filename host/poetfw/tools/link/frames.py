# SPDX-License-Identifier: Apache-2.0
"""Frames of a serial line: commands and answers with a sequence number and a CRC-32.

docs/serial-line.md specifies the format. Devices are not trusted: only an intact frame is an
answer.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass
from zlib import crc32

LARGEST_DATA_BYTES = 264
"""Most data bytes in a command: the size of the firmware's buffer."""

MAX_LINE_BYTES = 1024
"""Longest answer."""

READY = b"m-ready"
"""End of every answer."""

_ANSWER = re.compile(rb"(([me])-\[(\d{1,10}) ([a-z]{1,8})((?: [ -~]{1,800})?)) ([0-9a-f]{8})\]")
_DAMAGED = "damaged"
_LARGEST_NUMBER = 2**32 - 1


@dataclass(frozen=True, slots=True)
class AnswerFrame:
    """An intact answer.

    Attributes:
        refused: True if the device refused the command.
        sequence: sequence number of the command; 0 if the device does not know it.
        word: word of the command; if refused, the reason.
        values: values of the answer as text.
        data: data of the answer, if any.
    """

    refused: bool
    sequence: int
    word: str
    values: tuple[str, ...]
    data: bytes | None

    @property
    def is_damaged(self) -> bool:
        """True if the device reports that a command arrived damaged."""
        return self.refused and self.word == _DAMAGED


def encode_command(sequence: int, word: str, *numbers: int, data: bytes | None = None) -> bytes:
    """Encode a command: `sequence word [number ...] [:data] crc%`."""
    assert all(0 <= number <= _LARGEST_NUMBER for number in (sequence, *numbers)), numbers
    parts = [str(sequence), word, *map(str, numbers)]
    if data is not None:
        assert len(data) <= LARGEST_DATA_BYTES, len(data)
        parts.append(":" + encode_data(data))
    text = " ".join(parts).encode("ascii")
    return text + b" %08x%%" % crc32(text)


def decode_answer(line: bytes) -> AnswerFrame | None:
    """Last intact answer in a line; None for a line without one."""
    answer = None
    for match in _ANSWER.finditer(line):
        text, kind, sequence, word, values, crc = match.groups()
        if int(crc, 16) != crc32(text) or int(sequence) > _LARGEST_NUMBER:
            continue
        *plain, last = values.decode("ascii").split(" ")
        data = None
        if last.startswith(":"):
            data = decode_data(last[1:])
            if data is None:
                continue
        else:
            plain.append(last)
        texts = tuple(text for text in plain if text)
        answer = AnswerFrame(kind == b"e", int(sequence), word.decode(), texts, data)
    return answer


def encode_data(data: bytes) -> str:
    """Encode bytes in base64 without padding."""
    return b64encode(data).rstrip(b"=").decode("ascii")


def decode_data(text: str) -> bytes | None:
    """Decode text of `encode_data`; None if the text is not valid."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (Error, ValueError):
        return None
