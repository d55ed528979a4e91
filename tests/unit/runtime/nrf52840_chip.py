# SPDX-License-Identifier: Apache-2.0
"""An nRF52840 on a DK with a card, for drivers that are compiled for this computer."""

from __future__ import annotations

from collections.abc import Container, Mapping

from chips import Processor
from sd_card import Card

from poetfw.tools.emulators.unicorn.nrf52840 import ADDRESSES, RESET_PINS, Nrf52840

NAMES = {address: name for name, address in ADDRESSES.items()}
RESET_PIN = 18
BURST = 20  # no divisor of the receiver's ring: it ends in the middle of one


class Chip(Processor):
    """A chip after a reset, on a DK with a card on its SPI pins."""

    handler = "SPIM0_SPIS0_TWIM0_TWIS0_SPI0_TWI0_IRQHandler"

    def __init__(
        self,
        *,
        card: Card | None = None,
        kept: Mapping[str, int] | None = None,
        build_code: int = 5,
        inductor: bool = True,
        takes_pin: bool = True,
        lost: Container[int] = (),
        polls: dict[str, int] | None = None,
        other_polls: int = 20,
        polls_per_byte: int = 0,
        typed: bytes = b"",
    ) -> None:
        kept = dict.fromkeys(RESET_PINS, RESET_PIN) if kept is None else kept
        self.nrf52840 = registers = Nrf52840(self, self.print, kept)
        super().__init__(registers, NAMES, card or Card(), polls, polls_per_byte, typed, BURST)
        registers.build_code, registers.inductor = build_code, inductor
        registers.takes_pin, registers.lost = takes_pin, lost
        registers.other_polls = other_polls
