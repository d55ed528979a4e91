# SPDX-License-Identifier: Apache-2.0
"""What the statuses mean that a firmware ends with, in the words of its headers."""

from __future__ import annotations

from collections.abc import Mapping

STATUSES: Mapping[str, str] = {
    "-1": "the storage holds no image, or a damaged one",
    "-2": "the image was made for another plan",
    "-3": "the storage did not do what it was told",
    "-4": "no such slot, or not of that size",
    "-5": "a slot has no valid trailer: nothing was written there",
    "-6": "a slot's payload is not what its trailer says was written",
    "-7": "the storage has no partition table, or an empty one",
    "-8": "the partition table is another's: not one partition alone, of type 0xda",
    "-9": "the partition begins beyond the storage's end, or at block 0",
    "-10": "the partition ends beyond the storage's end",
    "-11": "the partition is smaller than the image in it",
    "-12": "the image is laid out as another version of poetfw does it",
    "-13": "the storage did not keep what was written to it",
    "-14": "a sample is not what was put into the storage",
    "-15": "no set of slots holds a whole commit",
    "-16": "nothing answers as a card does after reset",
    "-17": "the card does not run at 2.7-3.6 V",
    "-18": "initialisation does not come to its end",
    "-19": "the card refused a command",
    "-20": "no data came from the card",
    "-21": "the card reported an error in place of data",
    "-22": "the card did not accept data",
    "-23": "beyond the card's end, or what its addressing can express",
    "-24": "the card does not state its size in a known way",
    "-25": "the bus's controller did not end a transfer",
    "-26": "data was damaged on its way from the card, or to it",
    "-27": "the card is busy for too long, or its data line is held low",
    "-28": "the card is write-protected",
    "-32": "the crystal oscillator does not start",
    "-33": "the setting of the reset pin cannot be written",
    "-34": "the chip does not reset itself when told to",
    "-48": "the 32 kHz crystal does not start",
    "-49": "a clock generator does not take its setting",
    "-50": "the 48 MHz clock does not become ready",
    "-51": "the 48 MHz clock does not lock to the crystal",
    "-64": "the chip's own oscillator does not take over from the bootloader",
    "-65": "the high-speed crystal does not start",
    "-66": "flash does not take its wait states",
    "-67": "the 168 MHz clock does not lock to the crystal",
    "-68": "the core does not take the 168 MHz clock",
}
