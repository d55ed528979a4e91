# SPDX-License-Identifier: Apache-2.0
"""Commands to a device over a line that may lose, change or repeat bytes.

Commands are idempotent. So a command is sent again until its answer arrives intact, up to a number
of attempts and a time limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from poetfw.common.errors import DeviceError, NoAnswerError, NoisyLineError
from poetfw.common.option_values import SILENCE_S
from poetfw.tools.link.frames import (
    MAX_LINE_BYTES,
    READY,
    AnswerFrame,
    decode_answer,
    encode_command,
)
from poetfw.tools.link.port import PortLine

_SEQUENCES = 1 << 32
_END = AnswerFrame(False, 0, "", (), None)  # end-of-answer mark


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of a command.

    Attributes:
        wait_s: seconds until the command is sent again for the first time.
        growth: factor from each waiting time to the next.
        total_s: seconds in all; None for the longest allowed silence of a device.
        attempts: number of times the command is sent at most.
        noise_s: seconds of nothing but noise, that is, neither answers nor console lines.
    """

    wait_s: float
    growth: float
    total_s: float | None
    attempts: int
    noise_s: float = math.inf


CONNECT = Patience(0.04, 1.0, 30.0, 1000, noise_s=5.0)
"""For connecting: a training device listens for a tenth of a second between two steps. A program
that sends only other bytes is not such a device, or has another baud rate."""

QUICK = Patience(1.0, 1.0, 30.0, 24)
"""For commands that are quick on a device."""

LONG = Patience(2.0, 2.0, None, 32)
"""For commands that may take a device long."""


class DeviceLink:
    """A device at the other end of a line.

    Attributes:
        failures: number of times that a command was sent again.
    """

    _timeout_s: float | None = None
    _ends_s = math.inf
    _noise_began_s = math.inf
    """Time since which nothing but noise has arrived."""

    def __init__(self, line: PortLine, first: int = 1, silence_s: float | None = None) -> None:
        """Create a link; nothing is sent yet.

        Args:
            line: line to the device.
            first: sequence number of the first command; it tells answers from late ones to another
                program.
            silence_s: seconds of silence after which the device counts as hung; None for the
                default `SILENCE_S`, whose message then does not suggest --silence.
        """
        self._silence_s = silence_s
        self._line = line
        self._sequence = first
        self._rest = b""
        self.failures = 0

    def end_within(self, timeout_s: float | None) -> None:
        """Set a time limit in seconds, from now, for all further commands; None for no limit."""
        self._timeout_s = timeout_s
        self._ends_s = math.inf if timeout_s is None else self._line.now_s() + timeout_s

    def ask(
        self,
        word: str,
        *numbers: int,
        data: bytes | None = None,
        patience: Patience = QUICK,
    ) -> AnswerFrame:
        """Send a command and wait for its answer.

        Args:
            word: word of the command.
            numbers: arguments.
            data: data that goes with the command.
            patience: timeouts and attempts.

        Raises:
            NoAnswerError: Nothing came back.
            NoisyLineError: Bytes came back, but no intact answer.
            DeviceError: The device does not know the command, or the time limit has passed.
        """
        sequence = self._sequence
        self._sequence = self._sequence % (_SEQUENCES - 1) + 1
        command = encode_command(sequence, word, *numbers, data=data)
        total_s = patience.total_s or self._silence_s or SILENCE_S
        ends_s = min(self._line.now_s() + total_s, self._ends_s)
        wait_s, heard = patience.wait_s, False
        for attempt in range(patience.attempts):
            self.failures += attempt > 0
            # "%" ends what the device may still hold of a damaged command.
            self._line.write(b"%" + command if attempt else command)
            damaged = False
            for answer in self._answers(min(wait_s, ends_s - self._line.now_s())):
                heard |= answer is not _END  # an end may belong to the previous answer
                if answer is None or answer.is_damaged:
                    damaged = True
                elif answer is _END and damaged:
                    break
                elif answer is not _END and answer.sequence == sequence:
                    return self._accept(answer, word)
            else:
                wait_s *= patience.growth
            now_s = self._line.now_s()
            if now_s >= ends_s or (damaged and now_s - self._noise_began_s >= patience.noise_s):
                break
        if self._line.now_s() >= self._ends_s:
            raise DeviceError(
                f"the board did not end within {self._timeout_s:g} s",
                "raise --timeout if the run is just long",
            )
        if heard:
            raise NoisyLineError(
                f"the line is too noisy: no whole answer came to the command {word!r}",
                "check that --port is the board's, at the rate that its firmware has",
                "use a shorter cable, or a lower rate (console_baud in the board's file)",
            )
        may_be_long = self._silence_s is not None and patience.total_s is None
        raise NoAnswerError(
            f"the board does not answer: it said nothing for {total_s:g} s",
            *(["raise --silence if it just takes longer"] if may_be_long else []),
            "reset it; while it trains it listens between two steps only",
            "check --port, and that firmware of poetfw is on the board: `poetfw flash`",
        )

    def _accept(self, answer: AnswerFrame, word: str) -> AnswerFrame:
        if answer.word != word:
            raise DeviceError(
                f"the board's firmware does not know the command {word!r}",
                "flash the firmware that this poetfw built: `poetfw flash`",
            )
        return answer

    def _answers(self, wait_s: float) -> Iterator[AnswerFrame | None]:
        """Yield answers until a timeout in seconds; None for anything but an intact answer."""
        ends_s = self._line.now_s() + wait_s
        while (left_s := ends_s - self._line.now_s()) > 0:
            received = self._line.read(left_s)
            *lines, self._rest = (self._rest + received).split(b"\n")
            if len(self._rest) > MAX_LINE_BYTES:  # longer than any line of a device
                self._rest = self._rest[-MAX_LINE_BYTES:]
                self._noise_began_s = min(self._noise_began_s, self._line.now_s())
                yield None
            for line in lines:
                answer = decode_answer(line[-MAX_LINE_BYTES:])
                ends = line.strip().endswith(READY)
                if answer is not None or ends or line.startswith(b"@"):
                    self._noise_began_s = math.inf
                elif line.strip():
                    self._noise_began_s = min(self._noise_began_s, self._line.now_s())
                    yield None
                if answer is not None:
                    yield answer
                if ends:
                    yield _END
