# SPDX-License-Identifier: Apache-2.0
"""Values of answers. Nothing that a device says is trusted."""

from __future__ import annotations

import re

from poetfw.common.errors import DeviceError
from poetfw.tools.link.frames import AnswerFrame
from poetfw.tools.statuses import STATUSES

OK = 0
"""The status of what was done."""

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""A board's name."""

PLAN_ID = re.compile("[0-9a-f]{8}")
"""Names the plan, or the sketch, that firmware was made for."""

TICK_UNITS = ("cycles", "instructions", "ns")
"""Units of a tick."""


def fields(answer: AnswerFrame, count: int) -> tuple[str, ...]:
    """The values of an answer, whose number must be `count`.

    Raises:
        DeviceError: it is another number.
    """
    if len(answer.values) != count:
        raise nonsense(answer)
    return answer.values


def check_status(answer: AnswerFrame, text: str) -> None:
    """Check that a status says that what was asked for is done.

    Raises:
        DeviceError: it is not a status.
        StatusError: it says that the device failed.
    """
    if not re.fullmatch(r"0|-[1-9]\d{0,2}", text):
        raise nonsense(answer)
    if text != str(OK):
        meaning = STATUSES.get(text, "an error that this poetfw does not know")
        raise StatusError(
            int(text), f"the board failed to do {answer.word!r}: status {text}: {meaning}"
        )


class StatusError(DeviceError):
    """The firmware says that it failed.

    Attributes:
        status: as its headers number them, below 0.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def integer(answer: AnswerFrame, text: str) -> int:
    """A count below 2^64.

    Raises:
        DeviceError: it is not a count.
    """
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) >= 2**64:
        raise nonsense(answer)
    return int(text)


def nonsense(answer: AnswerFrame) -> DeviceError:
    """The error of an answer that makes no sense."""
    said = " ".join(answer.values)
    return DeviceError(
        f"the board's answer to {answer.word!r} is not valid: {said!r:.80}",
        "flash the firmware that this poetfw built: `poetfw flash`",
    )
