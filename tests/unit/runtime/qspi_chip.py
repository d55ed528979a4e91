# SPDX-License-Identifier: Apache-2.0
"""An nRF52840 with the flash on its QSPI pins, for drivers that are compiled for this computer."""

from __future__ import annotations

import io
from collections.abc import Container

from chips import Processor
from nrf52840_chip import NAMES, RESET_PIN
from sd_card import Card

from poetfw.tools.emulators.unicorn.flash import SIZE_BYTES, Flash
from poetfw.tools.emulators.unicorn.nrf52840 import RESET_PINS
from poetfw.tools.emulators.unicorn.nrf52840_qspi import QSPI_ADDRESSES, QspiChip


def blank_flash() -> Flash:
    """As it leaves the factory."""
    return Flash(io.BytesIO(b"\xff" * SIZE_BYTES))


class Chip(Processor):
    """A chip after a reset; its flash keeps what it had."""

    handler = "QSPI_IRQHandler"

    def __init__(self, flash: Flash | None = None, held_up: Container[str] = ()) -> None:
        self.flash = flash or blank_flash()
        kept = dict.fromkeys(RESET_PINS, RESET_PIN)
        self.qspi = registers = QspiChip(self.flash, self.print, kept)
        names = {**NAMES, **{address: name for name, address in QSPI_ADDRESSES.items()}}
        super().__init__(registers, names, Card())
        registers.held_up = held_up
