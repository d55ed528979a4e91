# SPDX-License-Identifier: Apache-2.0
"""Typed values of answers, which are not trusted."""

from __future__ import annotations

import re

from poetfw.common.errors import DeviceError
from poetfw.tools.link.frames import AnswerFrame
from poetfw.tools.statuses import STATUSES

OK = 0
"""Status of success."""

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Name of a board."""

PLAN_ID = re.compile("[0-9a-f]{8}")
"""Identifier of the plan or sketch that firmware was built from."""

TICK_UNITS = ("cycles", "instructions", "ns")
"""Units of a tick."""


def fields(answer: AnswerFrame, count: int) -> tuple[str, ...]:
    """Values of an answer, which must have `count` of them.

    Raises:
        DeviceError: The number of values differs.
    """
    if len(answer.values) != count:
        raise invalid_answer(answer)
    return answer.values


def check_status(answer: AnswerFrame, text: str) -> None:
    """Check that a status is success.

    Raises:
        DeviceError: The text is not a status.
        StatusError: The device reports a failure.
    """
    if not re.fullmatch(r"0|-[1-9]\d{0,2}", text):
        raise invalid_answer(answer)
    if text != str(OK):
        meaning = STATUSES.get(text, "an error that this poetfw does not know")
        raise StatusError(
            int(text), f"the board failed to do {answer.word!r}: status {text}: {meaning}"
        )


class StatusError(DeviceError):
    """The firmware reports a failure.

    Attributes:
        status: status code, below 0; `STATUSES` holds the meanings.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def integer(answer: AnswerFrame, text: str) -> int:
    """Parse a count below 2^64.

    Raises:
        DeviceError: The text is not such a count.
    """
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) >= 2**64:
        raise invalid_answer(answer)
    return int(text)


def invalid_answer(answer: AnswerFrame) -> DeviceError:
    """Create the error for an answer that is not valid."""
    said = " ".join(answer.values)
    return DeviceError(
        f"the board's answer to {answer.word!r} is not valid: {said!r:.80}",
        "flash the firmware that this poetfw built: `poetfw flash`",
    )
