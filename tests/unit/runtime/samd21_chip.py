# SPDX-License-Identifier: Apache-2.0
"""A SAM D21 with a card, for drivers that are compiled for this computer."""

from __future__ import annotations

from collections.abc import Container

from chips import Processor
from sd_card import Card

from poetfw.tools.emulators.unicorn.samd21 import POWER_ON, REGISTERS, Samd21

NAMES = {address: name for name, (address, _) in REGISTERS.items()}


class Chip(Processor):
    """A chip after a reset, with a card on its SPI pins."""

    handler = "DMAC_Handler"

    def __init__(
        self,
        *,
        card: Card | None = None,
        cause: int = POWER_ON,
        polls: dict[str, int] | None = None,
        polls_per_byte: int = 0,
        lost: Container[int] = (),
        refused: Container[int] = (),
        typed: bytes = b"",
    ) -> None:
        registers = Samd21(self, self.print, cause)
        room = registers.room_bytes
        super().__init__(registers, NAMES, card or Card(), polls, polls_per_byte, typed, room)
        self.samd21 = registers
        registers.lost, registers.refused = lost, refused
