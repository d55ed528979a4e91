# SPDX-License-Identifier: Apache-2.0
"""Kept features: outputs of a training step's frozen part, a record of each sample.

`firmware_templates/storage/kept.h` describes the format.
"""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.firmware.slots import BLOCK_BYTES

_CRC_BYTES = 4
_BESIDE_BYTES = 64
"""Upper bound of other static data that kept features take."""


@dataclass(frozen=True, slots=True)
class KeptFeatures:
    """Features of training samples that a device keeps in storage.

    Attributes:
        tensor: output of the training step's frozen part, [batch, ...].
        steps: number of plan steps that calculate it: the first ones.
        sample_bytes: bytes of one sample's row.
        target_bytes: bytes of its target, which is in the record, too.
        unit_blocks: blocks that storage writes at once; a record takes whole units.
        records: number of records in RAM; 0 where storage holds them.
    """

    tensor: str
    steps: int
    sample_bytes: int
    target_bytes: int
    unit_blocks: int = 1
    records: int = 0

    @property
    def record_blocks(self) -> int:
        """Blocks that one sample's record takes."""
        blocks = self.read_bytes // BLOCK_BYTES
        return -(-blocks // self.unit_blocks) * self.unit_blocks

    def ram_bytes(self, samples: int, batch: int) -> int:
        """Bytes of static data for records in RAM, and for the targets of a batch."""
        record = _CRC_BYTES + self.sample_bytes + self.target_bytes
        return samples * -(-record // 4) * 4 + batch * self.target_bytes + _BESIDE_BYTES

    @property
    def read_bytes(self) -> int:
        """Bytes of the blocks that are read of a record."""
        size = self.sample_bytes + self.target_bytes + _CRC_BYTES
        return -(-size // BLOCK_BYTES) * BLOCK_BYTES
