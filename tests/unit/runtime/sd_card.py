# SPDX-License-Identifier: Apache-2.0
"""An SD card in SPI mode, byte by byte: it notes every misuse, and can fail in every way.

Written from the SD Physical Layer Simplified Specification, chapter 7, not from the driver.
"""

from __future__ import annotations

import math
from binascii import crc_hqx
from collections.abc import Callable, Container, Generator, Iterable
from dataclasses import dataclass, field

BLOCK = 512
IDLE, ILLEGAL, ADDRESS_ERROR, PARAMETER_ERROR = 0x01, 0x04, 0x20, 0x40
HIGH_CAPACITY = 1 << 30
LONGEST_BUSY_S = 0.5
OUT_OF_RANGE = 0x08  # as an error token
WRITE_ERROR, CRC_ERROR = 0xED, 0xEB  # as responses to data
STATUS_ERROR, STATUS_PROTECTED, STATUS_OUT_OF_RANGE = 0x04, 0x20, 0x80

STOP_TOKEN, STOP_COMMAND = 0xFD, bytes([0x4C, 0, 0, 0, 0, 0x61])

Line = Generator[int, int, None]
"""Yields what the card sends in a byte's time, and is sent what it receives in it."""


@dataclass
class Faults:
    """What a card does otherwise than it should, or as slowly as it may.

    Attributes:
        absent: there is no card; the line is pulled up.
        stuck: there is a short: every byte received is this one.
        stuck_until: bytes clocked until the short is gone.
        removed_after: bytes clocked until the card is pulled out.
        removed_until: bytes clocked until it is put in again.
        responses: R1 by command, instead of the right one; None: no response.
        echo: what answers SEND_IF_COND, instead of its argument.
        response_bytes: bytes between a command and its response: 1 to 8 as specified.
        ready_s: seconds of initialisation.
        read_s: seconds from a read to its data.
        busy_s: seconds of programming a block.
        stop_s: seconds that it is busy after many blocks are stopped.
        csd: what the card says of itself, instead of the right 16 bytes.
        tokens: by position in a read, what comes instead of the data; None: nothing ever.
        data_responses: by position in a write, what answers the data; 5 in its low bits accepts.
        damaged: positions in a read whose data arrives with a bit wrong.
        damages: positions in a write whose data arrives at the card with a bit wrong.
        protected: it refuses to be written.
        full: it has no room for what is written.
        programming_fails: accepted blocks are lost, which only the card's status tells.
        times: how often anything but what depends on time and bytes happens, until all is well.
    """

    absent: bool = False
    stuck: int | None = None
    stuck_until: float = math.inf
    removed_after: float = math.inf
    removed_until: float = math.inf
    responses: dict[int, int | None] = field(default_factory=dict)
    echo: int | None = None
    response_bytes: int = 1
    ready_s: float = 0.001
    read_s: float = 0.0001
    busy_s: float = 0.0001
    stop_s: float = 0.00001
    tokens: dict[int, int | None] = field(default_factory=dict)
    data_responses: dict[int, int] = field(default_factory=dict)
    damaged: Container[int] = ()
    damages: Container[int] = ()
    protected: bool = False
    full: bool = False
    programming_fails: bool = False
    times: float = math.inf
    csd: bytes | None = None


def crc16(data: bytes) -> bytes:
    """As the specification's example has it: 7FA1 for a block of ones."""
    return crc_hqx(data, 0).to_bytes(2)


def crc7(data: Iterable[int]) -> int:
    """Division by x^7 + x^3 + 1, as a polynomial over the whole message."""
    value = int.from_bytes(bytes(data)) << 7
    for bit in reversed(range(7, value.bit_length())):
        if value >> bit & 1:
            value ^= 0b1000_1001 << (bit - 7)
    return value


def csd_register(fields: dict[int, int]) -> bytes:
    """The register CSD, with values at the bits that the specification gives their lowest of."""
    return sum(value << bit for bit, value in fields.items()).to_bytes(16)


class Card:
    """A card in its socket.

    Args:
        version: of the specification; 1 knows no SEND_IF_COND and no high capacity.
        high_capacity: whether it is addressed by blocks.
        blocks: how many it has.
        faults: what is wrong with it; may be changed at any time.

    Attributes:
        content: blocks by number; those never written are filled with a pattern.
        misuse: what the host did that the specification forbids.
        commands: numbers of those received.
        on_command: called with each before it is obeyed.
        time_s: seconds clocked.
    """

    def __init__(
        self, *, version: int = 2, high_capacity: bool = True, blocks: int = 1 << 20,
        faults: Faults | None = None,
    ) -> None:  # fmt: skip
        self.version = version
        self.high_capacity = high_capacity
        self.blocks = blocks
        self.faults = faults or Faults()
        self.content: dict[int, bytes] = {}
        self.misuse: list[str] = []
        self.commands: list[int] = []
        self.on_command: Callable[[int], None] = lambda number: None
        self.time_s = 0.0
        self._hz = 0
        self._bytes = 0
        self._selected = False
        self._bytes_unselected = 0
        self._busy_since_s = self._busy_until_s = 0.0
        self._programming: dict[int, bytes] = {}
        self._clocks = 0  # not selected, since power came on
        self._in_idle_state = False
        self._ready = False
        self._ready_at_s: float | None = None
        self._conditions_sent = False
        self._application = False
        self._block_bytes = BLOCK if high_capacity else 1024
        self._status = 0
        self._checks_crc = False
        self._past_the_end = False
        self._left = False  # in the middle of something, and not reset since
        self._start()

    def leave(self, state: str, count: int) -> None:
        """Let the host be reset in the middle of something, with so many bytes of it left.

        The card knows nothing of that. Whenever it is selected it goes on where it was, and only
        what ends that by the specification does; until GO_IDLE_STATE nothing is misuse.
        """
        self._in_idle_state = self._ready = self._checks_crc = True
        self._clocks = 80
        self._left, self._selected = True, False
        self._waits_until_s = 0.0
        self._line = self._go_on(state, count)
        self._sending = next(self._line)

    def _go_on(self, state: str, count: int) -> Line:
        match state:
            case "sends a block":
                for i in range(count):
                    yield i % 7  # some look like an answer to GO_IDLE_STATE
            case "sends many blocks":
                yield from self._until_stopped(0x01)
            case "takes a block":
                yield from self._refuse(count)
            case "waits for a block":
                while (yield 0xFF) != 0xFE:
                    pass
                yield from self._refuse(BLOCK + 2)
            case "takes many blocks":
                yield from self._refuse(count)
                yield from self._until_stopped(0xFF)
            case "waits for one of many blocks":
                while (yield 0xFF) != STOP_TOKEN:
                    pass
                yield 0xFF
            case "is busy":
                until_s = self.time_s + count / 1000
                while self.time_s < until_s:
                    yield 0x00
            case "takes a command":
                for _ in range(count):
                    yield 0xFF
                yield 0x08  # its CRC is wrong
        yield from self._listen()

    def _refuse(self, count: int) -> Line:
        for _ in range(count):
            yield 0xFF
        yield CRC_ERROR

    def _until_stopped(self, sends: int) -> Line:
        received = bytes(6)
        while received != STOP_COMMAND:
            received = received[1:] + bytes([(yield sends)])
        yield 0xFF
        yield 0x00
        self._be_busy(self.faults.stop_s)

    @property
    def csd(self) -> bytes:
        """How large it is: structure, and C_SIZE; for SDSC also READ_BL_LEN and C_SIZE_MULT."""
        if self.high_capacity:
            return csd_register({126: 1, 48: self.blocks // 1024 - 1})
        return csd_register({80: 10, 62: self.blocks // 1024 - 1, 47: 7})  # units of 2^10 * 2^9 B

    def block(self, number: int) -> bytes:
        """What a block holds."""
        return self.content.get(number, bytes((number * 7 + i * 13) % 251 for i in range(BLOCK)))

    def clock(self, hz: int) -> None:
        """The host sets its clock."""
        self._require(0 < hz <= (25_000_000 if self._ready else 400_000), f"a clock of {hz} Hz")
        if hz <= 400_000 and self._hz:
            self._left = True  # the host begins again, for it does not know what the card does
        self._hz = hz

    @property
    def is_selected(self) -> bool:
        return self._selected

    def select(self, selected: bool) -> None:
        """The host drives the chip select."""
        if selected and not self._selected:
            self._require(self._bytes_unselected >= 1, "no clock for the card to leave the bus")
        if self._selected and not selected:
            self._require(not self._moving, "deselected in the middle of an answer or a block")
            self._require(not self._many, "deselected before many blocks are stopped")
        self._selected = selected
        self._bytes_unselected = 0
        if not self._left:
            self._start()

    def exchange_all(self, sent: bytes) -> bytes:
        """Bytes each way, quickly where nothing happens."""
        end_s, end = self.time_s + 8 * len(sent) / self._hz, self._bytes + len(sent)
        changes = (f for f in (self.faults.removed_after, self.faults.removed_until,
                               self.faults.stuck_until) if self._bytes <= f <= end)  # fmt: skip
        waits = self._selected and sent.count(0xFF) == len(sent) and end_s < self._waits_until_s
        if any(True for _ in changes) or (self._answers and not waits):
            return bytes(map(self.exchange, sent))
        before = self.exchange(0xFF)
        self.time_s, self._bytes = end_s, end
        return bytes([before]) * len(sent)

    def exchange(self, byte: int) -> int:
        """One byte each way."""
        self.time_s += 8 / self._hz
        self._bytes += 1
        self._settle()
        if not self._selected:
            self._require(byte == 0xFF, "data while the card is not selected")
            self._bytes_unselected += 1
            self._clocks += 8
        if not self._answers:
            self._lose_power()
            return self.faults.stuck if self._is_stuck and self.faults.stuck is not None else 0xFF
        if not self._selected:
            return 0xFF
        sent = self._sending
        self._sending = self._line.send(byte)
        return sent

    def _happens(self, wrong: bool) -> bool:
        """Whether something goes wrong that would; counts it."""
        if wrong:
            self.faults.times -= 1
        return wrong and self.faults.times >= 0

    def _require(self, right: bool, misuse: str) -> None:
        if not right and self._answers and not self._left:
            self.misuse.append(misuse)

    def _lose_power(self) -> None:
        """Forget everything where the card is pulled out; a short on its line leaves it alone."""
        if not self._is_stuck:
            self._left = False
            self._in_idle_state = self._ready = self._checks_crc = False
            self._busy_until_s, self._programming, self._clocks = 0.0, {}, 0
            self._block_bytes = BLOCK if self.high_capacity else 1024
            self._start()

    def _start(self) -> None:
        self._waits_until_s = 0.0  # it sends the same as long as it only receives ones
        self._moving = False  # an answer's bytes, or a block's
        self._many = False  # until they are stopped
        self._line = self._listen()
        self._sending = next(self._line)

    def _be_busy(self, busy_s: float) -> None:
        self._busy_since_s, self._busy_until_s = self.time_s, self.time_s + busy_s

    def _settle(self) -> None:
        """End what is being programmed, if its time has come."""
        if self._programming and not self._busy and self._answers:
            if self._happens(self.faults.programming_fails):
                self._status |= STATUS_ERROR
            else:
                self.content |= self._programming
            self._programming = {}

    @property
    def _answers(self) -> bool:
        faults = self.faults
        removed = faults.absent or faults.removed_after < self._bytes <= faults.removed_until
        return not removed and not self._is_stuck

    @property
    def _is_stuck(self) -> bool:
        return self.faults.stuck is not None and self._bytes <= self.faults.stuck_until

    @property
    def _busy(self) -> bool:
        return self.time_s < self._busy_until_s

    @property
    def _overdue(self) -> bool:
        """Whether it is busy for longer than any card may be."""
        return self._busy and self.time_s - self._busy_since_s > LONGEST_BUSY_S

    @property
    def _level(self) -> int:
        return 0x00 if self._busy else 0xFF

    def _listen(self) -> Line:
        while True:
            idle_bytes = 0
            while (byte := (yield self._level)) == 0xFF or (self._left and byte >> 6 != 1):
                idle_bytes += 1
                self._waits_until_s = self._busy_until_s if self._busy else math.inf
            self._waits_until_s = 0.0
            self._require(idle_bytes >= 1, "no byte between a response and a command")
            following: bytes | None = yield from self._frame(byte)
            while following is not None:
                following = yield from self._answer(following)

    def _frame(self, first: int) -> Generator[int, int, bytes]:
        self._require(not self._busy or self._overdue, "a command while the card is busy")
        frame = bytes([first])
        while len(frame) < 6:
            frame += bytes([(yield 0xFF)])
        return frame

    def _answer(self, frame: bytes) -> Generator[int, int, bytes | None]:
        """Obey a command; returns another one that ended it."""
        number, argument = frame[0] & 0x3F, int.from_bytes(frame[1:5])
        self.commands.append(number)
        self.on_command(number)
        self._require(frame[0] >> 6 == 1, f"{frame[0]:#04x} begins no command")
        self._require(frame[5] == crc7(frame[:5]) << 1 | 1, f"command {number} has a wrong CRC")
        application, self._application = self._application, False
        right, extra = self._execute(number, argument, application)
        self._moving = True
        wrong = self._happens(number in self.faults.responses)
        response = self.faults.responses[number] if wrong else right
        if number == 12:
            yield from self._silence([0x00])  # the stuff byte: anything, and it means nothing
        yield from self._silence([0xFF] * self.faults.response_bytes)
        if response is None:
            self._moving = False
            return None
        yield from self._silence([response])
        self._moving = False
        yield from self._silence(extra)
        if number == 12:
            if not self._busy:
                self._be_busy(self.faults.stop_s)
        elif response != 0:
            return None
        elif number == 9:
            register = self.csd if self.faults.csd is None else self.faults.csd
            return (yield from self._read(0, many=False, register=register))
        elif number in (17, 18):
            return (yield from self._read(self._block(argument), many=number == 18))
        elif number in (24, 25):
            return (yield from self._write(self._block(argument), many=number == 25))
        return None

    def _silence(self, sent: Iterable[int]) -> Line:
        """Send bytes, in which the host has nothing to say."""
        for byte in sent:
            self._require((yield byte) == 0xFF, "the host talks while the card answers")

    def _execute(self, number: int, argument: int, application: bool) -> tuple[int, bytes]:
        """R1, and what follows it."""
        if number == 0:
            self._left = False
            self._require(self._clocks >= 74, "fewer than 74 clocks before the first command")
            self._in_idle_state, self._ready = True, False
            self._ready_at_s, self._conditions_sent = None, False
            self._checks_crc, self._status = False, 0
            return IDLE, b""
        idle = 0 if self._ready else IDLE
        self._require(self._in_idle_state, f"command {number} before GO_IDLE_STATE")
        if number == 8 and self.version == 1:
            self._conditions_sent = True
            return ILLEGAL | idle, b""
        match number:
            case 8:
                self._conditions_sent = True
                echo = argument & 0xFFF if self.faults.echo is None else self.faults.echo
                return idle, echo.to_bytes(4)
            case 55:
                self._application = True
                return idle, b""
            case 41 if application:
                self._require(self._conditions_sent, "SD_SEND_OP_COND before SEND_IF_COND")
                asked = bool(argument & HIGH_CAPACITY)
                self._require(asked is (self.version == 2), "the wrong capacity is asked for")
                if self._ready_at_s is None:
                    self._ready_at_s = self.time_s + self.faults.ready_s
                self._ready = self.time_s >= self._ready_at_s
                return 0 if self._ready else IDLE, b""
            case 58:
                return idle, (0x80FF8000 | HIGH_CAPACITY * self.high_capacity).to_bytes(4)
        self._require(self._ready, f"command {number} before initialisation has ended")
        match number:
            case 9:
                return 0, b""
            case 12:
                return PARAMETER_ERROR * self._past_the_end, b""
            case 13:
                status, self._status = self._status, 0
                return 0, bytes([status])
            case 59:
                self._checks_crc = bool(argument & 1)
                return 0, b""
            case 16:
                self._require(argument == BLOCK, f"a block length of {argument}")
                self._block_bytes = argument
                return 0, b""
            case 17 | 18 | 24 | 25:
                unit = 1 if self.high_capacity else BLOCK
                self._require(argument % unit == 0, f"the address {argument} is no block's")
                self._require(self._checks_crc, "data moves without its CRC checked")
                inside = argument // unit < self.blocks
                return 0 if inside else ADDRESS_ERROR, b""
        self.misuse.append(f"command {number}" + " of an application" * application)
        return ILLEGAL, b""

    def _block(self, argument: int) -> int:
        return argument if self.high_capacity else argument // BLOCK

    def _read(
        self, first: int, many: bool, register: bytes | None = None
    ) -> Generator[int, int, bytes | None]:
        """Send blocks, or a register."""
        self._past_the_end, self._many = False, many
        for position in range(self.blocks if many else 1):
            ready_s = self.time_s + self.faults.read_s
            while self.time_s < ready_s:
                self._waits_until_s = ready_s
                if (byte := (yield 0xFF)) != 0xFF:
                    return (yield from self._stop(byte, many))
            self._waits_until_s = 0.0
            token: int | None = 0xFE
            if self._happens(position in self.faults.tokens):
                token = self.faults.tokens[position]
            if first + position >= self.blocks:
                token, self._past_the_end = OUT_OF_RANGE, True
            sent = b"" if token is None else bytes([token])
            if token == 0xFE:
                content = (self.block(first + position) * 2)[: self._block_bytes]
                data = content if register is None else register
                wrong = self._happens(position in self.faults.damaged)
                sent += bytes([data[0] ^ wrong << 3]) + data[1:] + crc16(data)
            self._moving = token == 0xFE
            for value in sent:
                if (byte := (yield value)) != 0xFF:
                    return (yield from self._stop(byte, many))
            self._moving = False
            if token != 0xFE:
                if not many:
                    return None
                while (byte := (yield 0xFF)) == 0xFF:
                    pass
                return (yield from self._stop(byte, many))
        return None

    def _stop(self, first: int, many: bool) -> Generator[int, int, bytes]:
        self._moving = self._many = False
        self._waits_until_s = 0.0
        frame = yield from self._frame(first)
        self._require(many and frame[0] == 0x4C, "the host talks while the card sends data")
        return frame

    def _write(self, first: int, many: bool) -> Generator[int, int, bytes | None]:
        position = gap = 0
        rejected = False
        self._many = many
        while True:
            if (byte := (yield self._level)) == 0xFF:
                gap += 1
                continue
            self._require(gap >= 1, "no byte before a data token or a command")
            if rejected or byte >> 6 == 1:
                stops = byte == 0x4C and (rejected or self._overdue)
                self._require(stops, "STOP_TRANSMISSION ends a failed write, and no other")
                self._many = False
                return (yield from self._frame(byte))
            self._require(not self._busy, "data while the card is busy")
            if many and byte == 0xFD:
                self._many = False
                yield 0xFF
                self._be_busy(self.faults.busy_s)
                return None
            self._require(byte == (0xFC if many else 0xFE), f"the data token {byte:#04x}")
            self._moving = True
            received = b""
            while len(received) < self._block_bytes + 2:
                received += bytes([(yield 0xFF)])
            intact = crc16(received) == b"\x00\x00"
            self._require(intact, "data is sent with a wrong CRC")
            response = 0xE5
            if self._happens(position in self.faults.damages):
                response = CRC_ERROR
            elif first + position >= self.blocks:
                response, self._status = WRITE_ERROR, self._status | STATUS_OUT_OF_RANGE
            elif self._happens(self.faults.full):
                response, self._status = WRITE_ERROR, self._status | STATUS_OUT_OF_RANGE
            elif self._happens(self.faults.protected):
                response, self._status = WRITE_ERROR, self._status | STATUS_PROTECTED
            elif self._happens(position in self.faults.data_responses):
                response = self.faults.data_responses[position]
            self._require((yield response) == 0xFF, "the host talks while the card answers")
            self._moving = False
            rejected = response & 0x1F != 0x05
            if not rejected:
                self._programming[first + position] = received[:BLOCK]
                self._be_busy(self.faults.busy_s)
            if not many:
                return None
            position += 1
            gap = 0
