# SPDX-License-Identifier: Apache-2.0
"""Nordic's nRF52840 on its development kit, with an SD card on the Arduino header's SPI pins.

Registers are those of the nRF52840 Product Specification 1.7, as far as the firmware uses them.
What a DMA controller moves is there at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from poetfw.devices.emulators.unicorn.bus import Bus, MachineError, Register
from poetfw.devices.emulators.unicorn.core import Core, Ending, Memory
from poetfw.devices.emulators.unicorn.sd_card import Card

FLASH_BYTES = 1024 * 1024
RAM_BYTES = 256 * 1024
_RAM = 0x20000000
_REGISTERS = (
    (0x10000000, 0x2000),  # FICR and UICR
    (0x40000000, 0x30000),
    (0x50000000, 0x1000),  # GPIO
    (0xE0000000, 0x10000),  # the processor's
)

_DISCONNECTED = 0xFFFFFFFF
_PORTS = ((0x50000000, 32), (0x50000300, 16))
_OUTPUT = 1
_INPUT_PULLUP = 3 << 2
_HIGH_DRIVE = 3 << 8
_BAUD = (0x01D60000, 0x10000000)  # 115200 and 1,000,000
_ENDRX_STARTRX = 1 << 5
_RXDRDY = 1 << 2
_SEVONPEND = 1 << 4
_SPI_HZ = {
    0x02000000: 125_000,
    0x04000000: 250_000,
    0x08000000: 500_000,
    0x10000000: 1_000_000,
    0x20000000: 2_000_000,
    0x40000000: 4_000_000,
    0x80000000: 8_000_000,
}


def _pin(port: int, number: int) -> int:
    return 32 * port + number


CONSOLE_PIN, LISTENING_PIN = _pin(0, 6), _pin(0, 8)
CARD_SELECT, CARD_MOSI, CARD_MISO, CARD_CLOCK = (_pin(1, number) for number in (12, 13, 14, 15))

Console = Callable[[bytes], object]
Keyboard = Callable[[], bytes]


class Nrf52840:
    """The chip: what a reset leaves as it is."""

    def __init__(
        self, flash: bytes, card: Card, console: Console, keyboard: Keyboard = bytes
    ) -> None:
        """Solder it in.

        Args:
            flash: what is in all of its flash.
            card: the card in the socket.
            console: what is connected to the UART's transmitter.
            keyboard: what is connected to its receiver; asked when the firmware sleeps, it waits
                for something to be said, and says nothing if nothing will be said any more.
        """
        self._flash = Memory(0, flash)
        # RAM holds anything after power-on, but the same in every run.
        self._ram = Memory(_RAM, random.Random(0).randbytes(RAM_BYTES))
        self._card = card
        self._console, self._keyboard = console, keyboard
        self._uicr = {0x10001200: _DISCONNECTED, 0x10001204: _DISCONNECTED}  # PSELRESET
        self._reset_reason = 0

    def run(self) -> None:
        """Run until the firmware sleeps for ever.

        Raises:
            MachineError: it does what the chip does not allow or the model does not know.
        """
        while self._boot() is Ending.RESET:
            self._reset_reason |= 1 << 2  # SREQ: by software

    def _boot(self) -> Ending:
        bus = Bus()
        core = Core(bus, self._flash, self._ram, _REGISTERS)
        self._add_power(bus)
        self._add_flash_controller(bus)
        crystal = _add_crystal(bus)
        gpio = _Gpio(bus)
        uarte = _Uarte(bus, core, gpio, crystal, self._console)
        _Spim(bus, core, gpio, self._card)
        ending = core.run()
        while ending is Ending.ASLEEP and uarte.can_wake and (said := self._keyboard()):
            for start in range(0, len(said), uarte.ring_bytes):
                uarte.receive(said[start : start + uarte.ring_bytes])
                ending = core.run()
        self._ram = core.ram()
        return ending

    def _add_power(self, bus: Bus) -> None:
        """POWER (section 5.3) and debug access (section 4.8)."""

        def clear(value: int) -> None:
            self._reset_reason &= ~value

        bus.readable[0x40000400] = lambda: self._reset_reason  # RESETREAS
        bus.writable[0x40000400] = clear
        bus.keep(0x40000578, Register((1,)))  # DCDCEN
        bus.keep(0x40000558, Register((0x5A,)))  # APPROTECT.DISABLE
        bus.readable[0x10000134] = lambda: 5  # FICR, build code F: APPROTECT as of revision 3

    def _add_flash_controller(self, bus: Bus) -> None:
        """NVMC (section 4.3), which writes UICR (section 4.5) where it is erased."""
        config = bus.keep(0x4001E504, Register((0, 1)))
        bus.keep(0x4001E540, Register((1,)))  # ICACHECNF
        bus.readable[0x4001E400] = lambda: 1  # READY

        def add(address: int) -> None:
            def write(value: int) -> None:
                if config.value != 1:
                    raise MachineError(f"0x{address:08x} is written while NVMC does not allow it")
                self._uicr[address] &= value

            bus.readable[address] = lambda: self._uicr[address]
            bus.writable[address] = write

        for address in self._uicr:
            add(address)


def _add_crystal(bus: Bus) -> Register:
    """The high-frequency crystal of CLOCK (section 5.4); returns the event that it has started."""
    started = bus.keep(0x40000100, Register((0,)))

    def start() -> None:
        started.value = 1

    bus.task(0x40000000, start)
    return started


class _Gpio:
    """GPIO (section 6.9)."""

    def __init__(self, bus: Bus) -> None:
        self.on_change: dict[int, Callable[[bool], None]] = {}
        self._configuration: dict[int, Register] = {}
        modes = (_OUTPUT, _OUTPUT | _HIGH_DRIVE, _INPUT_PULLUP)
        for port, (base, pins) in enumerate(_PORTS):
            bus.writable[base + 0x508] = self._setter(port, pins, True)
            bus.writable[base + 0x50C] = self._setter(port, pins, False)
            for number in range(pins):
                register = bus.keep(base + 0x700 + 4 * number, Register(modes))
                self._configuration[_pin(port, number)] = register

    def _setter(self, port: int, pins: int, level: bool) -> Callable[[int], None]:
        def write(value: int) -> None:
            if value >> pins:
                raise MachineError(f"port {port} has no pins 0x{value:08x}")
            for number in range(pins):
                if value >> number & 1 and (changed := self.on_change.get(_pin(port, number))):
                    changed(level)

        return write

    def check(self, pin: int, direction: int) -> None:
        """Check that a pin is an output, or an input with a pull-up, for a peripheral."""
        register = self._configuration[pin]
        if register.value & ~_HIGH_DRIVE != direction:
            raise MachineError(f"pin {pin} is configured as 0x{register.value:x} for a peripheral")


class _Uarte:
    """UARTE0 (section 6.34). What is sent to it comes when the firmware sleeps."""

    def __init__(
        self, bus: Bus, core: Core, gpio: _Gpio, crystal: Register, console: Console
    ) -> None:
        self._core, self._gpio, self._crystal, self._console = core, gpio, crystal, console
        bus.task(0x40002008, self._start)
        bus.task(0x4000200C, self._stop)
        self._ended = bus.keep(0x40002120, Register((0,)))
        self._stopped = bus.keep(0x40002158, Register((0,)))
        self._enable = bus.keep(0x40002500, Register((0, 8)))
        self._pin = bus.keep(0x4000250C, Register((CONSOLE_PIN,), _DISCONNECTED))
        for unused in (0x40002508, 0x40002510):  # RTS, CTS
            bus.keep(unused, Register((_DISCONNECTED,), _DISCONNECTED))
        self._baud = bus.keep(0x40002524, Register(_BAUD, 0x04000000))
        self._address = bus.keep(0x40002544, Register())
        self._count = bus.keep(0x40002548, Register(range(1 << 16)))
        bus.keep(0x4000256C, Register((0,)))  # CONFIG: 8N1
        self._listening_pin = bus.keep(0x40002514, Register((LISTENING_PIN,), _DISCONNECTED))
        self._ring = bus.keep(0x40002534, Register())
        self._ring_bytes = bus.keep(0x40002538, Register(range(1 << 16)))
        self._shorts = bus.keep(0x40002200, Register((_ENDRX_STARTRX,)))
        bus.task(0x40002000, self._listen)
        self._ready = bus.keep(0x40002108, Register((0,)))  # RXDRDY
        self._interrupts = bus.keep(0x40002304, Register((_RXDRDY,)))  # INTENSET
        self._control = bus.keep(0xE000ED10, Register((_SEVONPEND,)))  # the processor's SCR
        self._listens = False
        self._received = 0
        bus.keep(0xE000E280, Register((1 << 2,)))  # and its NVIC_ICPR

    def _listen(self) -> None:
        if self._enable.value != 8 or self._listening_pin.value != LISTENING_PIN:
            raise MachineError("the UARTE receives before it is enabled and has its pin")
        if self._shorts.value != _ENDRX_STARTRX:
            raise MachineError("the UARTE's receiver would end")
        self._gpio.check(LISTENING_PIN, _INPUT_PULLUP)
        self._core.dma_read(self._ring.value, self._ring_bytes.value)
        self._listens = True

    @property
    def ring_bytes(self) -> int:
        """How much the receiver takes before it begins anew."""
        return self._ring_bytes.value

    @property
    def can_wake(self) -> bool:
        """Whether something that comes in ends the processor's sleep."""
        wakes = self._interrupts.value and self._control.value
        return self._listens and self._enable.value == 8 and bool(wakes and self.ring_bytes)

    def receive(self, data: bytes) -> None:
        """Let characters come in."""
        for byte in data:
            address = self._ring.value + self._received % self.ring_bytes
            self._core.dma_write(address, bytes([byte]))
            self._received += 1
        self._ready.value = 1

    def _start(self) -> None:
        if self._enable.value != 8 or self._pin.value != CONSOLE_PIN:
            raise MachineError("the UARTE sends before it is enabled and has its pin")
        if self._baud.value not in self._baud.allowed or not self._crystal.value:
            raise MachineError("the UARTE sends before it has its baud rate and the crystal")
        self._gpio.check(CONSOLE_PIN, _OUTPUT)
        self._console(self._core.dma_read(self._address.value, self._count.value))
        self._ended.value = 1

    def _stop(self) -> None:
        self._stopped.value = 1


class _Spim:
    """SPIM2 (section 6.25), with the card behind it."""

    def __init__(self, bus: Bus, core: Core, gpio: _Gpio, card: Card) -> None:
        self._core, self._gpio, self._card = core, gpio, card
        gpio.on_change[CARD_SELECT] = lambda level: card.select(not level)
        bus.task(0x40023010, self._start)
        bus.task(0x40023014, lambda: None)  # STOP: nothing is under way
        self._ended = bus.keep(0x40023118, Register((0,)))
        self._enable = bus.keep(0x40023500, Register((0, 7)))
        wires = ((0x40023508, CARD_CLOCK), (0x4002350C, CARD_MOSI), (0x40023510, CARD_MISO))
        self._pins = [bus.keep(at, Register((pin,), _DISCONNECTED)) for at, pin in wires]
        self._frequency = bus.keep(0x40023524, Register(_SPI_HZ, 0x04000000))
        self._to = bus.keep(0x40023534, Register())
        self._to_count = bus.keep(0x40023538, Register(range(1 << 16)))
        self._from = bus.keep(0x40023544, Register())
        self._from_count = bus.keep(0x40023548, Register(range(1 << 16)))
        bus.keep(0x40023554, Register((0,)))  # CONFIG: mode 0, MSB first
        self._filler = bus.keep(0x400235C0, Register(range(1 << 8)))

    def _start(self) -> None:
        if self._enable.value != 7 or any(pin.value == _DISCONNECTED for pin in self._pins):
            raise MachineError("the SPIM transfers before it is enabled and has its pins")
        for pin, direction in (
            (CARD_SELECT, _OUTPUT),
            (CARD_CLOCK, _OUTPUT),
            (CARD_MOSI, _OUTPUT),
            (CARD_MISO, _INPUT_PULLUP),
        ):
            self._gpio.check(pin, direction)
        sends, receives = self._from_count.value, self._to_count.value
        sent = self._core.dma_read(self._from.value, sends) if sends else b""
        sent += bytes([self._filler.value]) * (receives - sends)
        received = self._card.exchange(sent, _SPI_HZ[self._frequency.value])
        if receives:
            self._core.dma_write(self._to.value, received[:receives])
        self._ended.value = 1
