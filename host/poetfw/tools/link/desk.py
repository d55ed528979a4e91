# SPDX-License-Identifier: Apache-2.0
"""A board that executes a host's commands, with typed answers. Devices are not trusted."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from poetfw.common.errors import DeviceError, NoisyLineError, WrongBoardError
from poetfw.firmware import BLOCK_BYTES, Traffic
from poetfw.tools.link.frames import LARGEST_DATA_BYTES, AnswerFrame
from poetfw.tools.link.link import CONNECT, LONG, QUICK, DeviceLink, Patience
from poetfw.tools.link.values import (
    IDENTIFIER,
    PLAN_ID,
    TICK_UNITS,
    check_status,
    fields,
    integer,
    invalid_answer,
)

PROTOCOL = 3
_MOST_SUMS = 64  # most block CRCs in an answer

_SMALLEST = 3  # largest right shift of the part size: an eighth
_FEW = 4
_RESTARTS = 8
_REFUSED = -4
_OTHER_BYTES = -6


@dataclass(frozen=True, slots=True)
class Greeting:
    """Identity of the connected board.

    Attributes:
        plan_id: identifier of the plan that the firmware was built for.
        board: name of the board that the firmware was built for.
    """

    plan_id: str
    board: str


@dataclass(frozen=True, slots=True)
class Trained:
    """Result of a training step.

    Attributes:
        loss: mean loss of the step's batch.
        ticks: duration in ticks.
        traffic: transfers of the storage since the board's start, up to the step's end.
    """

    loss: float
    ticks: int
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class Summary:
    """Counters of a board since the training began.

    Attributes:
        tick_unit: unit of a tick: instructions, cycles or ns.
        high_water_bytes: highest byte of the arena ever written.
        stack_high_water_bytes: bytes of stack used at most.
        storage_bytes_read, storage_bytes_written: bytes transferred from and to the storage.
        storage_erases: erase operations of the storage; None if it has none.
    """

    tick_unit: str
    high_water_bytes: int
    stack_high_water_bytes: int
    storage_bytes_read: int
    storage_bytes_written: int
    storage_erases: int | None = None


class Desk:
    """Commands to a board, one method each, which raises `DeviceError` if the command fails.

    Data is split into parts; the part size is halved when the line damages them.
    """

    def __init__(self, link: DeviceLink) -> None:
        self._link = link
        self._shrunk = 0

    def end_within(self, timeout_s: float | None) -> None:
        """Set a time limit in seconds, from now, for all further commands; None for no limit."""
        self._link.end_within(timeout_s)

    @property
    def failures(self) -> int:
        """Number of times that a command was sent again."""
        return self._link.failures

    @property
    def _part_bytes(self) -> int:
        """Current size of a part in bytes."""
        return LARGEST_DATA_BYTES >> self._shrunk

    @property
    def _sums(self) -> int:
        """Current number of block CRCs in an answer."""
        return _MOST_SUMS >> self._shrunk

    def hello(self) -> Greeting:
        """Connect: stop what the board does on its own and read its identity.

        Raises:
            WrongBoardError: The board's firmware has another protocol version.
        """
        answer = self._link.ask("hello", patience=CONNECT)
        version, plan_id, board = fields(answer, 3)
        if version != str(PROTOCOL):
            raise WrongBoardError(
                f"the board's firmware speaks version {version!r:.20} of the protocol, this poetfw "
                f"version {PROTOCOL}",
                "build, and flash what was built: `poetfw flash`",
            )
        if not PLAN_ID.fullmatch(plan_id) or not IDENTIFIER.fullmatch(board):
            raise invalid_answer(answer)
        return Greeting(plan_id, board)

    def open_storage(self) -> int:
        """Initialise the storage; returns its size in blocks."""
        answer = self._link.ask("card", patience=LONG)
        status, blocks = fields(answer, 2)
        check_status(answer, status)
        return integer(answer, blocks)

    def checksums(self, first: int, count: int) -> list[int]:
        """Read the CRC-32 of each of `count` blocks, from block `first` on."""
        sums: list[int] = []
        while len(sums) < count:
            wanted = min(self._sums, count - len(sums))
            answer = self._ask_in_parts(LONG, "sums", first + len(sums), wanted)
            if answer is None:
                continue
            if answer.values and answer.values[-1].startswith("-"):
                check_status(answer, answer.values[-1])
            sums += [integer(answer, text) for text in fields(answer, wanted)]
        return sums

    def read_block(self, block: int) -> bytes:
        """Read a block."""
        content = b""
        while len(content) < BLOCK_BYTES:
            wanted = min(self._part_bytes, BLOCK_BYTES - len(content))
            answer = self._ask_in_parts(LONG, "read", block, len(content), wanted)
            if answer is None:
                continue
            (status,) = fields(answer, 1)
            check_status(answer, status)
            content += _data(answer, wanted)
        return content

    def write_block(self, block: int, content: bytes) -> None:
        """Write a block; the CRC of what the storage then holds is compared."""
        wanted = crc32(content)
        used = len(content.rstrip(b"\0"))  # the board pads with zeros
        for _ in range(_RESTARTS):
            answer = self._put(block, content[:used], wanted)
            status, crc = fields(answer, 2)
            if status == str(_REFUSED):  # the board was reset between two parts
                continue
            check_status(answer, status)
            if integer(answer, crc) == wanted:
                return
        raise DeviceError(
            f"the board's storage does not keep what is written to block {block}",
            "try another card",
        )

    def _put(self, block: int, data: bytes, crc: int) -> AnswerFrame:
        at = 0
        while True:
            part = data[at : at + self._part_bytes]
            last = at + len(part) == len(data)
            if last:
                answer = self._ask_in_parts(LONG, "put", at, block, crc, data=part)
            else:
                answer = self._ask_in_parts(QUICK, "fill", at, data=part)
            if answer is None:
                continue
            if last:
                return answer
            (status,) = fields(answer, 1)
            check_status(answer, status)
            at += len(part)

    def _ask_in_parts(
        self, patience: Patience, word: str, *numbers: int, data: bytes | None = None
    ) -> AnswerFrame | None:
        """Send a command with a part of data; None to try again with a smaller part."""
        smallest = self._shrunk == _SMALLEST
        before = self._link.failures
        try:
            answer = self._link.ask(
                word,
                *numbers,
                data=data,
                patience=patience if smallest else replace(patience, attempts=_FEW),
            )
        except NoisyLineError:
            if smallest:
                raise
            self._shrunk += 1
            return None
        if self._link.failures == before and self._shrunk > 0:
            self._shrunk -= 1
        return answer

    def begin(self, steps: int, flags: int) -> tuple[int, Traffic]:
        """Begin a training: load the last commit.

        Returns the number of steps already done, and transfers since the board's start.
        """
        answer = self._link.ask("begin", steps, flags, patience=LONG)
        status, done, *moved = fields(answer, 5)
        check_status(answer, status)
        return integer(answer, done), _traffic(answer, moved)

    def train(self, step: int) -> Trained:
        """Run training step `step`, counted from 1. The last step may be requested again."""
        return self._trained(self._link.ask("step", step, patience=LONG))

    def train_part(self, step: int, stop: int) -> Trained:
        """Run a training step up to message `stop`, counted from 1, or to its end.

        The step ends at `stop` = number of messages + 1. The last part may be requested again. The
        loss is valid only at the step's end, on the device that computes it; ticks count from the
        step's begin.
        """
        return self._trained(self._link.ask("part", step, stop, patience=LONG))

    def _trained(self, answer: AnswerFrame) -> Trained:
        loss, ticks, *moved = self._values(answer, 5)
        return Trained(_real(answer, loss), integer(answer, ticks), _traffic(answer, moved))

    def take_message(self, number: int, size_bytes: int) -> bytes:
        """Receive a message for a partner; the board confirms its CRC."""
        for _ in range(_RESTARTS):
            content = b""
            while len(content) < size_bytes:
                wanted = min(self._part_bytes, size_bytes - len(content))
                answer = self._ask_in_parts(LONG, "take", number, len(content), wanted)
                if answer is None:
                    continue
                self._values(answer, 0)
                content += _data(answer, wanted)
            if self._seals(number, content):
                return content
        raise _never_whole(number)

    def give_message(self, number: int, content: bytes) -> None:
        """Send a message from a partner; the board confirms its CRC."""
        for _ in range(_RESTARTS):
            at = 0
            while at < len(content):
                part = content[at : at + self._part_bytes]
                answer = self._ask_in_parts(LONG, "give", number, at, data=part)
                if answer is None:
                    continue
                self._values(answer, 0)
                at += len(part)
            if self._seals(number, content):
                return
        raise _never_whole(number)

    def _seals(self, number: int, content: bytes) -> bool:
        answer = self._link.ask("seal", number, crc32(content), patience=LONG)
        if answer.values == (str(_OTHER_BYTES),):
            return False
        self._values(answer, 0)
        return True

    def save(self) -> Traffic:
        """Commit the training's state to the storage. Returns transfers since the board's start."""
        answer = self._link.ask("save", patience=LONG)
        return _traffic(answer, self._values(answer, 3))

    def evaluate(self, batch: int) -> float:
        """Compute the metric of a batch of held-out samples, counted from 1."""
        answer = self._link.ask("eval", batch, patience=LONG)
        return _real(answer, self._values(answer, 1)[0])

    def summary(self) -> Summary:
        """Read the counters since the training began."""
        answer = self._link.ask("done", patience=LONG)
        unit, *counts = fields(answer, 6 if len(answer.values) == 6 else 5)
        if unit not in TICK_UNITS:
            raise invalid_answer(answer)
        return Summary(unit, *(integer(answer, count) for count in counts))

    def _values(self, answer: AnswerFrame, count: int) -> Sequence[str]:
        """Check an answer's status; returns the `count` values behind it."""
        status = answer.values[0] if answer.values else ""
        if status == str(_REFUSED):
            raise DeviceError(
                "the board does not know of this training any more: it was reset",
                "check its supply, and begin again",
            )
        check_status(answer, status)
        return fields(answer, count + 1)[1:]


def _traffic(answer: AnswerFrame, values: Sequence[str]) -> Traffic:
    """Requests, and bytes read and written."""
    return Traffic(*(integer(answer, value) for value in values))


def _data(answer: AnswerFrame, wanted: int) -> bytes:
    """Data of an answer, which must have the requested size in bytes."""
    if answer.data is None or len(answer.data) != wanted:
        raise invalid_answer(answer)
    return answer.data


def _never_whole(number: int) -> DeviceError:
    return DeviceError(
        f"message {number} never came whole, although each part of it did",
        "build again, and run once more",
    )


def _real(answer: AnswerFrame, text: str) -> float:
    if not re.fullmatch("[0-9a-f]{8}", text):
        raise invalid_answer(answer)
    value: float = struct.unpack(">f", bytes.fromhex(text))[0]
    return value
