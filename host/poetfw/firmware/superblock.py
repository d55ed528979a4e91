# SPDX-License-Identifier: Apache-2.0
"""The first blocks of a storage image: its partition table, and the superblock of its partition.

`firmware_templates/storage/image.h` has the layout. Images lie in the only partition of a master
boot record (MBR), so that no computer takes the card for an empty one and offers to format it.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

from poetfw.common.errors import DeviceError
from poetfw.firmware.project import RUN_DIR
from poetfw.firmware.slots import BLOCK_BYTES

PARTITION_BLOCK = 8
"""First block of the partition: a multiple of 4 KiB, as partitioning tools want it."""
_TABLE = struct.Struct("<446xB3sB3sII48x2s")
_TABLE_ENTRIES = slice(446, BLOCK_BYTES)  # the bytes before are for code that a computer boots
_NON_FS_DATA = 0xDA
_BEYOND_CYLINDERS = b"\xfe\xff\xff"
_SIGNATURE = b"\x55\xaa"
_SUPERBLOCK = struct.Struct("<8s18I")
_MAGIC = b"POETIMG1"
_VERSION = 3
CRC = struct.Struct("<I")
GAP = bytes(4)
"""Before a CRC: right behind what it is of, it would make that of the whole block a constant."""
_CAPTURE = 1
_EVALUATE = 2


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Settings of one run of the firmware, in its storage image.

    Attributes:
        steps: training steps.
        seed: decides the order of samples.
        capture: True if the last step's gradients are kept.
        evaluate: True if the held-out samples are classified afterwards.
        checkpoint_every: steps between two commits; 0 for one at the end.
    """

    steps: int
    seed: int = 0
    capture: bool = False
    evaluate: bool = True
    checkpoint_every: int = 0


@dataclass(frozen=True, slots=True)
class SampleRegion:
    """Samples stored as records of whole blocks."""

    first_block: int
    samples: int
    record_blocks: int

    @property
    def end(self) -> int:
        """First block after the samples."""
        return self.first_block + self.samples * self.record_blocks


@dataclass(frozen=True, slots=True)
class Superblock:
    """The first block of an image's partition.

    Attributes:
        plan_id: names the plan; the firmware refuses an image of another one.
        request: what a run shall do.
        training, held_out: where the samples are, from the partition's first block on.
        slots_block: where the slots begin that are in no set.
        sets_block: where the sets begin.
        sets: how many there are.
        blocks: of the whole partition.
        identity: of the image, which its samples, commits and ring have too.
    """

    plan_id: int
    request: RunRequest
    training: SampleRegion
    held_out: SampleRegion
    slots_block: int
    sets_block: int
    sets: int
    blocks: int
    identity: int

    @property
    def table(self) -> bytes:
        """The file's first block: the partition table."""
        ends = _BEYOND_CYLINDERS
        return _TABLE.pack(0, ends, _NON_FS_DATA, ends, PARTITION_BLOCK, self.blocks, _SIGNATURE)

    def pack(self) -> bytes:
        """Encode as the first block of the partition."""
        request, training, held_out = self.request, self.training, self.held_out
        packed = _SUPERBLOCK.pack(
            *(_MAGIC, _VERSION, self.plan_id, BLOCK_BYTES, self.blocks),
            _CAPTURE * request.capture | _EVALUATE * request.evaluate,
            *(request.steps, request.seed),
            *(training.first_block, training.samples, training.record_blocks),
            *(held_out.first_block, held_out.samples, held_out.record_blocks),
            *(self.slots_block, self.sets_block, self.sets, request.checkpoint_every),
            self.identity,
        )
        return (packed + GAP + CRC.pack(zlib.crc32(packed))).ljust(BLOCK_BYTES, b"\0")

    @staticmethod
    def unpack(block: bytes) -> Superblock | None:
        """The header in a block; None if it holds none, or one of which any bit is wrong."""
        if len(block) != BLOCK_BYTES:
            return None
        _, _, plan_id, _, blocks, flags, steps, seed, *rest = _SUPERBLOCK.unpack_from(block)
        *regions, slots_block, sets_block, sets, every, identity = rest
        header = Superblock(
            plan_id,
            RunRequest(steps, seed, bool(flags & _CAPTURE), bool(flags & _EVALUATE), every),
            SampleRegion(*regions[:3]),
            SampleRegion(*regions[3:]),
            slots_block,
            sets_block,
            sets,
            blocks,
            identity,
        )
        laid_out = header.training.first_block == 1 and (
            header.held_out.first_block == header.training.end
            and header.held_out.end <= slots_block <= sets_block <= blocks
            and 2 <= sets <= blocks
        )
        # Packing again gives the same bytes only if magic, version, block size and CRC are right.
        return header if laid_out and header.pack() == block else None


class StorageContent(Enum):
    """The kind of content of a storage, by its first block."""

    OURS = auto()
    """A partition table of one partition, of our type."""
    NOTHING = auto()
    """It was never written, or erased."""
    FOREIGN = auto()


def holds(first_block: bytes) -> StorageContent:
    """The kind of content of a storage with this first block."""
    if first_block.count(first_block[:1]) == len(first_block) and first_block[0] in (0x00, 0xFF):
        return StorageContent.NOTHING
    entries = [first_block[at : at + 16] for at in range(446, 510, 16)]
    types = [entry[4] for entry in entries if entry[4] != 0]
    ours = first_block[510:] == _SIGNATURE and types == [_NON_FS_DATA]
    return StorageContent.OURS if ours else StorageContent.FOREIGN


UNFINISHED = b"POETPART".ljust(BLOCK_BYTES, b"\0")
"""Stands where an image's superblock will be until all else of the image is there."""


def plan_of(superblock: bytes) -> str | None:
    """The plan that an image was made for, by its superblock; None for other blocks."""
    header = Superblock.unpack(superblock)
    return None if header is None else f"{header.plan_id:08x}"


def read_image(image: Path) -> tuple[Superblock, bytes]:
    """Read an image's header and its partition."""
    try:
        with image.open("rb") as file:
            header = read_header(image, file)
            file.seek(PARTITION_BLOCK * BLOCK_BYTES)
            return header, file.read(header.blocks * BLOCK_BYTES)
    except OSError as error:
        raise unreadable(image, error) from error


def superblock_of(image: Path) -> Superblock:
    """The superblock of an image file.

    Raises:
        DeviceError: The file is not a storage image.
    """
    try:
        with image.open("rb") as file:
            return read_header(image, file)
    except OSError as error:
        raise unreadable(image, error) from error


def read_header(image: Path, file: BinaryIO) -> Superblock:
    """The superblock of an image, whose file is open at its beginning.

    Raises:
        DeviceError: The file is not a storage image, or not whole.
    """
    table = file.read(BLOCK_BYTES)
    file.seek(PARTITION_BLOCK * BLOCK_BYTES)
    header = Superblock.unpack(file.read(BLOCK_BYTES))
    if (
        header is None
        or table[_TABLE_ENTRIES] != header.table[_TABLE_ENTRIES]
        or (PARTITION_BLOCK + header.blocks) * BLOCK_BYTES > os.fstat(file.fileno()).st_size
    ):
        raise DeviceError(
            f"{image} is not a storage image of poetfw, or its first blocks are corrupt",
            *fresh_image(image),
        )
    return header


def fresh_image(image: Path) -> tuple[str, ...]:
    """Blocks that a new image needs: a run writes its own, a build the one that runs begin with."""
    if image.parent.name == RUN_DIR:
        return ("run it again, without --resume: `poetfw run` begins with a fresh image",)
    return ("run `poetfw build` again to write a fresh image",)


def unreadable(image: Path, error: OSError) -> DeviceError:
    """The error for an image that the system does not let read or write."""
    return DeviceError(f"{image} cannot be used: {error.strerror or error}", *fresh_image(image))


def other_layout(image: Path) -> DeviceError:
    """The error for the image of a build with other tensors or samples."""
    return DeviceError(f"{image} is the storage image of another build", *fresh_image(image))
