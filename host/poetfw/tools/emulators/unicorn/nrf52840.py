# SPDX-License-Identifier: Apache-2.0
"""Nordic nRF52840 on its development kit, with an SD card on the Arduino header's SPI pins.

Written from the nRF52840 Product Specification 1.7, as far as the firmware uses the chip. An SPIM
transfer takes the time of its bits; other events take a number of polls.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from poetfw.tools.emulators.unicorn.bus import MachineError
from poetfw.tools.emulators.unicorn.chip import (
    Chip,
    ChipBoard,
    Console,
    Keyboard,
    Processor,
    SpiDevice,
)
from poetfw.tools.emulators.unicorn.core import Core, CoreModel, StopReason

RAM_BYTES = 256 * 1024
CORE_HZ = 64_000_000
WATCHDOG_HZ = 32_768
_RAM = 0x20000000
_AREAS = (
    (0x10000000, 0x2000),  # FICR and UICR
    (0x40000000, 0x30000),
    (0x50000000, 0x1000),  # GPIO
    (0xE0000000, 0x10000),  # the processor's
)

ERASED = DISCONNECTED = 0xFFFFFFFF
CONSOLE_PIN, LISTENING_PIN = 6, 8
SELECT_PIN, MOSI_PIN, MISO_PIN, CLOCK_PIN = 44, 45, 46, 47
OUTPUT, INPUT_PULLUP, HIGH_DRIVE = 1, 3 << 2, 3 << 8
PERIPHERAL = 1 << 1 | HIGH_DRIVE  # which drives and reads the pin itself
_PORTS = {0: 32, 1: 16}
_PINS = range(48)
_SPI_HZ = {0x02000000 << i: 125_000 << i for i in range(7)}
_BAUDS = 0x01D60000, 0x10000000  # 115200 and 1,000,000
ENDRX_STARTRX, RXDRDY = 1 << 5, 1 << 2
_SPIM_INTERRUPT, _SPIM_INTERRUPT_ON_END = 3, 1 << 6
_BUILD_CODE_F = 5

CRYSTAL_STARTED, FLASH_READY = "CLOCK.EVENTS_HFCLKSTARTED", "NVMC.READY"
TEXT_SENT, TEXT_STOPPED = "UARTE.EVENTS_ENDTX", "UARTE.EVENTS_TXSTOPPED"
_RECEIVED, _EXCHANGED = "UARTE.EVENTS_RXDRDY", "SPIM.EVENTS_END"
SPI_STOPPED = "SPIM.EVENTS_STOPPED"
_AWAITED = (CRYSTAL_STARTED, TEXT_SENT, TEXT_STOPPED, SPI_STOPPED)
_FEED = "WDT.RR[0]"
_TIMER_ENDS = "TIMER2.EVENTS_COMPARE[0]"
_TIMER_INTERRUPT, _TIMER_INTERRUPT_ON_COMPARE, _TIMER_HZ = 10, 1 << 16, 16_000_000
_CORE_CYCLES_PER_TIMER_CYCLE = CORE_HZ // _TIMER_HZ
RESET_PINS = ("UICR.PSELRESET[0]", "UICR.PSELRESET[1]")
_KEPT = (*RESET_PINS, "POWER.RESETREAS")
_RESET_REASONS = {StopReason.PIN: 1 << 0, StopReason.WATCHDOG: 1 << 1, StopReason.SOFTWARE: 1 << 2}

ADDRESSES = {
    "FICR.BUILD_CODE": 0x10000134,
    "UICR.PSELRESET[0]": 0x10001200,
    "UICR.PSELRESET[1]": 0x10001204,
    "CLOCK.TASKS_HFCLKSTART": 0x40000000,
    CRYSTAL_STARTED: 0x40000100,
    "POWER.RESETREAS": 0x40000400,
    "APPROTECT.DISABLE": 0x40000558,
    "POWER.DCDCEN": 0x40000578,
    "UARTE.TASKS_STARTRX": 0x40002000,
    "UARTE.TASKS_STARTTX": 0x40002008,
    "UARTE.TASKS_STOPTX": 0x4000200C,
    _RECEIVED: 0x40002108,
    TEXT_SENT: 0x40002120,
    TEXT_STOPPED: 0x40002158,
    "UARTE.SHORTS": 0x40002200,
    "UARTE.INTENSET": 0x40002304,
    "UARTE.ENABLE": 0x40002500,
    "UARTE.PSEL.RTS": 0x40002508,
    "UARTE.PSEL.TXD": 0x4000250C,
    "UARTE.PSEL.CTS": 0x40002510,
    "UARTE.PSEL.RXD": 0x40002514,
    "UARTE.BAUDRATE": 0x40002524,
    "UARTE.RXD.PTR": 0x40002534,
    "UARTE.RXD.MAXCNT": 0x40002538,
    "UARTE.TXD.PTR": 0x40002544,
    "UARTE.TXD.MAXCNT": 0x40002548,
    "UARTE.CONFIG": 0x4000256C,
    "WDT.TASKS_START": 0x40010000,
    "WDT.RUNSTATUS": 0x40010400,
    "WDT.CRV": 0x40010504,
    "WDT.CONFIG": 0x4001050C,
    _FEED: 0x40010600,
    "TIMER2.TASKS_START": 0x4000A000,
    "TIMER2.TASKS_STOP": 0x4000A004,
    _TIMER_ENDS: 0x4000A140,
    "TIMER2.SHORTS": 0x4000A200,
    "TIMER2.INTENSET": 0x4000A304,
    "TIMER2.BITMODE": 0x4000A508,
    "TIMER2.PRESCALER": 0x4000A510,
    "TIMER2.CC[0]": 0x4000A540,
    FLASH_READY: 0x4001E400,
    "NVMC.CONFIG": 0x4001E504,
    "NVMC.ICACHECNF": 0x4001E540,
    "SPIM.TASKS_START": 0x40003010,
    "SPIM.TASKS_STOP": 0x40003014,
    SPI_STOPPED: 0x40003104,
    _EXCHANGED: 0x40003118,
    "SPIM.INTENSET": 0x40003304,
    "SPIM.ENABLE": 0x40003500,
    "SPIM.PSEL.SCK": 0x40003508,
    "SPIM.PSEL.MOSI": 0x4000350C,
    "SPIM.PSEL.MISO": 0x40003510,
    "SPIM.FREQUENCY": 0x40003524,
    "SPIM.RXD.PTR": 0x40003534,
    "SPIM.RXD.MAXCNT": 0x40003538,
    "SPIM.TXD.PTR": 0x40003544,
    "SPIM.TXD.MAXCNT": 0x40003548,
    "SPIM.CONFIG": 0x40003554,
    "SPIM.ORC": 0x400035C0,
    **{f"P{port}.{name}": 0x50000000 + 0x300 * port + offset
       for port in _PORTS for name, offset in (("OUTSET", 0x508), ("OUTCLR", 0x50C))},
    **{f"PIN_CNF[{pin}]": 0x50000000 + 0x300 * (pin // 32) + 0x700 + 4 * (pin % 32)
       for pin in _PINS},
}  # fmt: skip
_READ_ONLY = ("FICR.BUILD_CODE", FLASH_READY, "WDT.RUNSTATUS")
_WRITE_ONLY = [
    name for name in ADDRESSES if "TASKS" in name or name.endswith(("OUTSET", "OUTCLR", "RR[0]"))
]
_ALLOWED: Mapping[str, Container[int]] = {
    **{name: (1,) for name in ADDRESSES if "TASKS" in name},
    **{name: (0,) for name in ADDRESSES if "EVENTS" in name},
    "APPROTECT.DISABLE": (0x5A,),
    "POWER.DCDCEN": (1,),
    "UARTE.ENABLE": (0, 8),
    "UARTE.PSEL.TXD": (CONSOLE_PIN,),
    "UARTE.PSEL.RXD": (LISTENING_PIN,),
    **{f"UARTE.PSEL.{name}": (DISCONNECTED,) for name in ("RTS", "CTS")},
    "UARTE.SHORTS": (ENDRX_STARTRX,),
    "UARTE.INTENSET": (RXDRDY,),
    "UARTE.BAUDRATE": _BAUDS,
    "UARTE.RXD.MAXCNT": range(1, 1 << 16),
    "UARTE.TXD.MAXCNT": range(1 << 16),
    "UARTE.CONFIG": (0,),  # 8N1
    "WDT.CRV": range(0xF, 1 << 32),
    "WDT.CONFIG": (0,),  # pauses while the core sleeps
    _FEED: (0x6E524635,),
    "TIMER2.SHORTS": (1,),  # restarts at the compare event
    "TIMER2.INTENSET": (_TIMER_INTERRUPT_ON_COMPARE,),
    "TIMER2.BITMODE": (3,),
    "TIMER2.PRESCALER": range(10),
    "TIMER2.CC[0]": range(1, 1 << 32),
    "NVMC.CONFIG": (0, 1),  # read or write; erasing is not modelled
    "NVMC.ICACHECNF": (1,),
    "SPIM.INTENSET": (_SPIM_INTERRUPT_ON_END,),
    "SPIM.ENABLE": (0, 7),
    "SPIM.PSEL.SCK": (CLOCK_PIN,),
    "SPIM.PSEL.MOSI": (MOSI_PIN,),
    "SPIM.PSEL.MISO": (MISO_PIN,),
    "SPIM.FREQUENCY": _SPI_HZ,
    "SPIM.RXD.MAXCNT": range(1 << 16),
    "SPIM.TXD.MAXCNT": range(1 << 16),
    "SPIM.CONFIG": (0,),  # mode 0, most significant bit first
    "SPIM.ORC": range(1 << 8),
    **{f"P{port}.{name}": range(1 << pins)
       for port, pins in _PORTS.items() for name in ("OUTSET", "OUTCLR")},
    **{f"PIN_CNF[{pin}]": (OUTPUT, OUTPUT | HIGH_DRIVE, INPUT_PULLUP, PERIPHERAL)
       for pin in _PINS},
}  # fmt: skip
_AFTER_RESET = {
    **{name: DISCONNECTED for name in ADDRESSES if ".PSEL." in name},
    "WDT.CRV": 0xFFFFFFFF,
    "WDT.CONFIG": 1,
    "TIMER2.PRESCALER": 4,
    "UARTE.BAUDRATE": 0x04000000,
    "SPIM.FREQUENCY": 0x04000000,
}


class Nrf52840(Chip):
    """The chip after a reset.

    Polled events are named by their register: EVENTS_… or NVMC.READY.

    Attributes:
        build_code: letter of the chip's build code, A = 0.
        inductor: True if the board has the DC/DC converter's inductor.
        takes_pin: True if writing the reset pin to UICR succeeds.

    What it waits for is called as the event, or NVMC.READY.
    """

    def __init__(self, card: SpiDevice, console: Console, kept: Mapping[str, int]) -> None:
        """Create the chip.

        Args:
            card: device on the SPI pins.
            console: receiver on the UART.
            kept: values of the registers that survive a reset, by name.
        """
        registers = {name: (address, 4) for name, address in ADDRESSES.items()}
        super().__init__(registers, _READ_ONLY, _WRITE_ONLY, {**_AFTER_RESET, **kept})
        self.build_code = _BUILD_CODE_F
        self.inductor = self.takes_pin = True
        self._card = card
        self._console = console
        self._under_way = False
        self._received = 0
        self._timer_starts = 0

    def attach(self, processor: Processor) -> None:
        """Connect the processor and the interrupts of SPIM and TIMER2."""
        super().attach(processor)
        processor.connect(
            _SPIM_INTERRUPT,
            lambda: bool(self._values[_EXCHANGED] and self._values["SPIM.INTENSET"]),
        )
        processor.connect(
            _TIMER_INTERRUPT,
            lambda: bool(self._values[_TIMER_ENDS] and self._values["TIMER2.INTENSET"]),
        )

    def kept(self) -> dict[str, int]:
        """Values of the registers that survive a reset, by name."""
        return {name: self._values[name] for name in _KEPT}

    def _read(self, name: str) -> int:
        if name == "FICR.BUILD_CODE":
            return self.build_code
        if name == FLASH_READY:
            return int(self._comes(name))
        if name in RESET_PINS:
            self._require(self._is_idle(FLASH_READY), f"{name} is read while flash is busy")
        if name in _AWAITED and self._values[name]:
            come = self._comes(name)
            self._under_way &= not (come and name == SPI_STOPPED)
            return int(come)
        return self._values[name]

    def _write(self, name: str, value: int) -> None:
        allowed = name not in _ALLOWED or value in _ALLOWED[name]
        self._require(allowed, f"0x{value:08x} is not modelled in the register {name}")
        block, _, register = name.partition(".")
        if register.startswith("PSEL.") or register in ("CONFIG", "BAUDRATE"):
            enabled = self._values[f"{block}.ENABLE"]
            self._require(not enabled, f"{name} is changed while it is enabled")
        before = self._values[name]
        self._values[name] = value
        if name == "CLOCK.TASKS_HFCLKSTART":
            self._happens(CRYSTAL_STARTED)
        elif name == "POWER.RESETREAS":
            self._values[name] = before & ~value
        elif name == "POWER.DCDCEN":
            self._require(self.inductor, "the converter starts without an inductor")
        elif name == "APPROTECT.DISABLE":
            self._require(self.build_code >= _BUILD_CODE_F, f"{name} is not there yet")
        elif block == "WDT":
            self._watch(name)
        elif name == "TIMER2.TASKS_START":
            self._start_timer()
        elif name == "TIMER2.TASKS_STOP":
            self._timer_starts += 1
        elif name == "NVMC.CONFIG":
            self._begin(FLASH_READY)
        elif name in RESET_PINS:
            self._program(name, before, value)
        elif name == "UARTE.TASKS_STARTRX":
            self._listen()
        elif name == "UARTE.TASKS_STARTTX":
            self._transmit()
        elif name == "UARTE.TASKS_STOPTX":
            self._happens(TEXT_STOPPED)
        elif name == "SPIM.TASKS_START":
            self._exchange()
        elif name == "SPIM.TASKS_STOP":
            self._happens(SPI_STOPPED)
        elif name == "SPIM.ENABLE" and not value:
            self._require(not self._under_way, "the SPIM is switched off while its DMA runs")
        elif name == _EXCHANGED and self.stuck:
            self._values[name] = before
        elif block in ("P0", "P1"):
            self._drive(int(block[-1]), value, register == "OUTSET")

    def _happens(self, event: str) -> None:
        """Start an action whose event shows after a number of polls."""
        self._require(not self._values[event], f"{event} was not cleared")
        self._values[event] = 1
        self._begin(event)

    def _watch(self, name: str) -> None:
        """Write a watchdog register (section 6.36); settings are locked once the watchdog runs."""
        get = self._values
        if name == _FEED:
            self._require(bool(get["WDT.RUNSTATUS"]), "a watchdog is fed that does not run")
        else:
            self._require(not get["WDT.RUNSTATUS"], f"{name} is written while the watchdog runs")
        if name == "WDT.TASKS_START":
            paused = get["WDT.CONFIG"] == 0
            self._require(paused, "a watchdog that counts in sleep is not modelled")
            get["WDT.RUNSTATUS"] = 1
        if get["WDT.RUNSTATUS"]:
            self._processor.watch((get["WDT.CRV"] + 1) * CORE_HZ // WATCHDOG_HZ)

    def _start_timer(self) -> None:
        """Start the application's timer (section 6.30), which restarts at each compare event."""
        get = self._values
        right = get["TIMER2.SHORTS"] and get["TIMER2.BITMODE"] and get["TIMER2.CC[0]"]
        self._require(bool(right), "a timer that does not begin anew is not modelled")
        cycles = (get["TIMER2.CC[0]"] << get["TIMER2.PRESCALER"]) * _CORE_CYCLES_PER_TIMER_CYCLE
        self._timer_starts += 1
        start = self._timer_starts

        def end() -> None:
            if start == self._timer_starts:
                get[_TIMER_ENDS] = 1
                self._processor.after(cycles, end)

        self._processor.after(cycles, end)

    def _program(self, name: str, before: int, value: int) -> None:
        """Write UICR through NVMC (sections 4.3 and 4.5); programming only clears bits."""
        writing = self._values["NVMC.CONFIG"] == 1
        self._require(writing, f"{name} is written while NVMC does not allow it")
        self._require(self._is_idle(FLASH_READY), f"{name} is written while flash is busy")
        self._values[name] = before & value if self.takes_pin else before
        self._begin(FLASH_READY)

    def _transmit(self) -> None:
        get = self._values
        ready = get["UARTE.ENABLE"] == 8 and get["UARTE.PSEL.TXD"] == CONSOLE_PIN
        self._require(ready, "the UARTE sends before it is enabled and has its pin")
        timed = get["UARTE.BAUDRATE"] in _BAUDS and get["CLOCK.TASKS_HFCLKSTART"] == 1
        self._require(timed, "the UARTE sends before it has its baud rate and the crystal")
        self._check_pin(CONSOLE_PIN, OUTPUT)
        self._console(self._processor.dma_read(get["UARTE.TXD.PTR"], get["UARTE.TXD.MAXCNT"]))
        self._happens(TEXT_SENT)

    def _listen(self) -> None:
        get = self._values
        ready = get["UARTE.ENABLE"] == 8 and get["UARTE.PSEL.RXD"] == LISTENING_PIN
        self._require(ready, "the UARTE receives before it is enabled and has its pin")
        ends = get["UARTE.SHORTS"] != ENDRX_STARTRX
        self._require(not ends, "the UARTE's receiver would end")
        self._check_pin(LISTENING_PIN, INPUT_PULLUP)
        self._processor.dma_read(get["UARTE.RXD.PTR"], self.room_bytes)

    @property
    def room_bytes(self) -> int:
        """Size in characters of the ring that the receiver fills over and over."""
        return self._values["UARTE.RXD.MAXCNT"]

    def listens(self) -> bool:
        """True if the receiver is on and requests an interrupt for each character."""
        on = self._values["UARTE.TASKS_STARTRX"] and self._values["UARTE.ENABLE"] == 8
        return bool(on and self._values["UARTE.INTENSET"])

    def receive(self, text: bytes) -> None:
        """Receive characters."""
        for character in text:
            place = self._values["UARTE.RXD.PTR"] + self._received % self.room_bytes
            self._processor.dma_write(place, bytes([character]))
            self._received += 1
        self._values[_RECEIVED] = 1

    def has_received(self) -> bool:
        """True if the receiver requests its interrupt."""
        return bool(self._values[_RECEIVED] and self._values["UARTE.INTENSET"])

    # SPI ---------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        get = self._values
        wired = all(get[f"SPIM.PSEL.{name}"] != DISCONNECTED for name in ("SCK", "MOSI", "MISO"))
        ready = get["SPIM.ENABLE"] == 7 and wired
        self._require(ready, "the SPIM transfers before it is enabled and has its pins")
        self._require(self.stuck or not self._under_way, "a transfer begins within another")
        self._require(self.stuck or not get[_EXCHANGED], f"{_EXCHANGED} was not cleared")
        for pin in (SELECT_PIN, CLOCK_PIN, MOSI_PIN):
            self._check_pin(pin, OUTPUT)
        self._check_pin(MISO_PIN, INPUT_PULLUP)
        sends, receives = get["SPIM.TXD.MAXCNT"], get["SPIM.RXD.MAXCNT"]
        sent = self._processor.dma_read(get["SPIM.TXD.PTR"], sends) if sends else b""
        sent += bytes([get["SPIM.ORC"]]) * (receives - sends)
        hz, to = _SPI_HZ[get["SPIM.FREQUENCY"]], get["SPIM.RXD.PTR"]
        received = self._card.exchange(sent, hz, self._processor.cycles / CORE_HZ)
        self._under_way = True
        self.exchanges += 1
        number = self.exchanges

        def end() -> None:
            if self._under_way and number == self.exchanges:
                self._under_way = False
                if receives:
                    self._processor.dma_write(to, received[:receives])
                self._values[_EXCHANGED] = 1

        if number not in self.lost:
            self._processor.after(8 * len(sent) * CORE_HZ // hz, end)

    def _check_pin(self, pin: int, direction: int) -> None:
        configuration = self._values[f"PIN_CNF[{pin}]"]
        right = configuration & ~HIGH_DRIVE == direction
        self._require(right, f"pin {pin} is configured as 0x{configuration:x} for a peripheral")

    def _drive(self, port: int, pins: int, high: bool) -> None:
        if pins << 32 * port >> SELECT_PIN & 1:
            self._require(self.stuck or not self._under_way, "the card is selected anew under way")
            self._card.select(not high)


class Nrf52840Dk(ChipBoard[Nrf52840]):
    """The nRF52840 development kit."""

    flash_bytes = 1024 * 1024
    ram = _RAM, RAM_BYTES
    architectures = (10, 11, 12, 13)  # ARMv7, ARMv6-M, ARMv6S-M, ARMv7E-M

    def __init__(
        self, flash: bytes, card: SpiDevice, console: Console, keyboard: Keyboard = bytes
    ) -> None:
        """Set up the flash's whole content, the card in the socket and the UART's other end."""
        super().__init__(flash, card, console, keyboard)
        self._kept = dict.fromkeys(RESET_PINS, ERASED)

    def _chip(self) -> Nrf52840:
        return Nrf52840(self._card, self._console, self._kept)

    def _core(self, chip: Nrf52840) -> Core:
        return Core(CoreModel.CORTEX_M4F, chip, self._flash, self._ram, _AREAS)

    def _keep(self, chip: Nrf52840, ending: StopReason) -> None:
        if ending is StopReason.SOFTWARE and chip.value("WDT.RUNSTATUS"):
            raise MachineError("a watchdog that runs on over a reset by software is not modelled")
        self._kept = chip.kept()
        self._kept["POWER.RESETREAS"] |= _RESET_REASONS[ending]
