# SPDX-License-Identifier: Apache-2.0
"""Kept features: outputs of a training step's frozen part, a record of each sample in storage.

`firmware_templates/storage/kept.h` describes the format.
"""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.firmware.slots import BLOCK_BYTES

_CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class KeptFeatures:
    """Features of training samples that a device keeps in storage.

    Attributes:
        tensor: output of the training step's frozen part, [batch, ...].
        steps: number of plan steps that calculate it: the first ones.
        sample_bytes: bytes of one sample's row.
        target_bytes: bytes of its target, which is in the record, too.
        unit_blocks: blocks that storage writes at once; a record takes whole units.
    """

    tensor: str
    steps: int
    sample_bytes: int
    target_bytes: int
    unit_blocks: int = 1

    @property
    def record_blocks(self) -> int:
        """Blocks that one sample's record takes."""
        blocks = self.read_bytes // BLOCK_BYTES
        return -(-blocks // self.unit_blocks) * self.unit_blocks

    @property
    def read_bytes(self) -> int:
        """Bytes of the blocks that are read of a record."""
        size = self.sample_bytes + self.target_bytes + _CRC_BYTES
        return -(-size // BLOCK_BYTES) * BLOCK_BYTES
