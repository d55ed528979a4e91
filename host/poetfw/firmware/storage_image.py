# SPDX-License-Identifier: Apache-2.0
"""The storage image: initial weights, data set and the run's request, as blocks.

They lie in the only partition of a master boot record (MBR), so that no computer takes the card for
an empty one and offers to format it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

import numpy as np

from poetfw.errors import DataError, DeviceError
from poetfw.firmware.slots import (
    BLOCK_BYTES,
    TRAILER_BYTES,
    Slot,
    SlotPurpose,
    slot_region_blocks,
)
from poetfw.ir import Dtype, Tensor
from poetfw.ops import Array
from poetfw.training import Program

LARGEST_SAMPLES_BYTES = 1 << 28
"""The samples in a storage image may have so many bytes, padding to whole blocks included."""

PARTITION_BLOCK = 8
"""Where the partition begins: at a multiple of 4 KiB, as partitioning tools want it."""

_TABLE = struct.Struct("<446xB3sB3sII48x2s")
_TABLE_ENTRIES = slice(446, BLOCK_BYTES)  # the bytes before are for code that a computer boots
_NON_FS_DATA = 0xDA
_BEYOND_CYLINDERS = b"\xfe\xff\xff"
_SIGNATURE = b"\x55\xaa"
_SUPERBLOCK = struct.Struct("<8s14I")
_MAGIC = b"POETIMG1"
_VERSION = 1
_TRAILER = struct.Struct("<4I")
_TRAILER_MAGIC = 0x544F4C53  # "SLOT"
_CAPTURE = 1
_EVALUATE = 2
_REBUILD = ("run `poetfw build` again to write a fresh image",)

NUMPY_TYPES: Mapping[Dtype, str] = {Dtype.F32: "<f4", Dtype.I32: "<i4"}
"""How elements lie in storage."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What one run of the firmware shall do.

    Attributes:
        steps: training steps.
        seed: decides the order of samples.
        capture: whether the last step's gradients are kept.
        evaluate: whether the held-out samples are classified afterwards.
    """

    steps: int
    seed: int = 0
    capture: bool = False
    evaluate: bool = True


@dataclass(frozen=True, slots=True)
class _Region:
    """Samples stored as records of whole blocks."""

    first_block: int
    samples: int
    record_blocks: int

    @property
    def end(self) -> int:
        return self.first_block + self.samples * self.record_blocks


@dataclass(frozen=True, slots=True)
class _Header:
    """What the first block of an image's partition says.

    Attributes:
        plan_id: names the plan; the firmware refuses an image of another one.
        request: what a run shall do.
        training, held_out: where the samples are, from the partition's first block on.
        slots_block: where the slots begin, behind the samples.
        blocks: of the whole partition.
    """

    plan_id: int
    request: RunRequest
    training: _Region
    held_out: _Region
    slots_block: int
    blocks: int

    @property
    def table(self) -> bytes:
        """The file's first block: the partition table."""
        ends = _BEYOND_CYLINDERS
        return _TABLE.pack(0, ends, _NON_FS_DATA, ends, PARTITION_BLOCK, self.blocks, _SIGNATURE)

    def pack(self) -> bytes:
        """The partition's first block."""
        request, training, held_out = self.request, self.training, self.held_out
        packed = _SUPERBLOCK.pack(
            *(_MAGIC, _VERSION, self.plan_id, BLOCK_BYTES, self.blocks),
            _CAPTURE * request.capture | _EVALUATE * request.evaluate,
            *(request.steps, request.seed),
            *(training.first_block, training.samples, training.record_blocks),
            *(held_out.first_block, held_out.samples, held_out.record_blocks),
            self.slots_block,
        )
        return (packed + struct.pack("<I", zlib.crc32(packed))).ljust(BLOCK_BYTES, b"\0")

    @staticmethod
    def unpack(block: bytes) -> _Header | None:
        """The header in a block; None if it holds none, or one of which any bit is wrong."""
        if len(block) != BLOCK_BYTES:
            return None
        _, _, plan_id, _, blocks, flags, steps, seed, *regions, slots_block = (
            _SUPERBLOCK.unpack_from(block)
        )
        header = _Header(
            plan_id,
            RunRequest(steps, seed, bool(flags & _CAPTURE), bool(flags & _EVALUATE)),
            _Region(*regions[:3]),
            _Region(*regions[3:]),
            slots_block,
            blocks,
        )
        laid_out = header.training.first_block == 1 and (
            header.held_out.first_block == header.training.end
            and header.held_out.end <= slots_block <= blocks
        )
        # Packing again gives the same bytes only if magic, version, block size and CRC are right.
        return header if laid_out and header.pack() == block else None


class Holds(Enum):
    """What a storage holds, by its first block."""

    OURS = auto()
    """A partition table of one partition, of our type."""
    NOTHING = auto()
    """It was never written, or erased."""
    FOREIGN = auto()


def holds(first_block: bytes) -> Holds:
    """What a storage holds whose first block is this."""
    if first_block.count(first_block[:1]) == len(first_block) and first_block[0] in (0x00, 0xFF):
        return Holds.NOTHING
    entries = [first_block[at : at + 16] for at in range(446, 510, 16)]
    types = [entry[4] for entry in entries if entry[4] != 0]
    ours = first_block[510:] == _SIGNATURE and types == [_NON_FS_DATA]
    return Holds.OURS if ours else Holds.FOREIGN


UNFINISHED = b"POETPART".ljust(BLOCK_BYTES, b"\0")
"""Stands where an image's superblock will be until all else of the image is there."""


def plan_of(superblock: bytes) -> str | None:
    """The plan that an image was made for, by its superblock; None if that is none."""
    header = _Header.unpack(superblock)
    return None if header is None else f"{header.plan_id:08x}"


def slots_block(image: Path) -> int:
    """Where the slots of an image in a file begin, those blocks before its partition included.

    Raises:
        DeviceError: the file is no storage image.
    """
    return PARTITION_BLOCK + _header_of(image).slots_block


def write_image(
    program: Program,
    plan_id: str,
    slots: Sequence[Slot],
    weights: Mapping[str, Array],
    training: tuple[Array, Array],
    held_out: tuple[Array, Array],
    request: RunRequest,
) -> bytes:
    """The bytes of a storage image.

    Args:
        program: what the firmware runs.
        plan_id: eight hexadecimal digits; the firmware refuses an image of another plan.
        slots: the layout of the slot region.
        weights: initial values by tensor name; persistent tensors without one start at zero.
        training: features and targets, one row per sample.
        held_out: the same for evaluation; the number of rows is a multiple of the batch.
        request: what the run shall do.

    Raises:
        DataError: the samples take more than `LARGEST_SAMPLES_BYTES`.
    """
    record_blocks = _record_blocks(program)
    train = _Region(1, len(training[0]), record_blocks)
    evaluation = _Region(train.end, len(held_out[0]), record_blocks)
    if evaluation.end * BLOCK_BYTES > LARGEST_SAMPLES_BYTES:
        raise DataError(
            f"the data set's {train.samples + evaluation.samples:,} samples, in blocks of "
            f"{BLOCK_BYTES} bytes, take {evaluation.end * BLOCK_BYTES:,} of the "
            f"{LARGEST_SAMPLES_BYTES:,} bytes that a storage image may have of them",
            "give fewer samples",
        )
    slots_block = -(-evaluation.end // PARTITION_BLOCK) * PARTITION_BLOCK
    blocks = slots_block + slot_region_blocks(slots)
    header = _Header(int(plan_id, 16), request, train, evaluation, slots_block, blocks)
    content = bytearray((PARTITION_BLOCK + blocks) * BLOCK_BYTES)
    content[:BLOCK_BYTES] = header.table
    image = memoryview(content)[PARTITION_BLOCK * BLOCK_BYTES :]
    image[:BLOCK_BYTES] = header.pack()
    for region, samples in ((train, training), (evaluation, held_out)):
        _write_records(image, region, program, samples)
    by_name = {tensor.name: tensor for tensor in program.persistent}
    for slot in slots:
        if slot.purpose is SlotPurpose.PERSISTENT:
            payload = _payload(by_name[slot.tensor], weights.get(slot.tensor))
            start = (slots_block + slot.first_block) * BLOCK_BYTES
            image[start : start + slot.blocks * BLOCK_BYTES] = _slot_bytes(slot, payload)
    return bytes(content)


def image_blocks(image: Path) -> int:
    """How many blocks an image in a file has, those before its partition included.

    Raises:
        DeviceError: the file is no storage image.
    """
    return PARTITION_BLOCK + _header_of(image).blocks


def read_request(image: Path) -> RunRequest:
    """What a run of an image in a file shall do.

    Raises:
        DeviceError: the file is no storage image.
    """
    return _header_of(image).request


def set_request(image: Path, request: RunRequest) -> None:
    """Change what a run of an image in a file shall do.

    Raises:
        DeviceError: the file is no storage image.
    """
    try:
        with image.open("r+b") as file:
            header = _read_header(image, file)
            file.seek(PARTITION_BLOCK * BLOCK_BYTES)
            file.write(replace(header, request=request).pack())
    except OSError as error:
        raise _unreadable(image, error) from error


def read_slots(
    image: Path, slots: Sequence[Slot], tensors: Mapping[str, Tensor]
) -> dict[tuple[str, SlotPurpose], Array]:
    """The tensors that a run left in an image's slots, skipping slots that were never written.

    Raises:
        DeviceError: the file is no storage image, is not laid out like this, or a slot is corrupt.
    """
    header, content = _read(image)
    if header.slots_block + slot_region_blocks(slots) > header.blocks:
        raise _other_layout(image)
    values: dict[tuple[str, SlotPurpose], Array] = {}
    for slot in slots:
        start = (header.slots_block + slot.first_block) * BLOCK_BYTES
        raw = content[start : start + slot.blocks * BLOCK_BYTES]
        if not any(raw[-TRAILER_BYTES:]):
            continue
        magic, size, _, crc = _TRAILER.unpack(raw[-TRAILER_BYTES:])
        payload = raw[: slot.size_bytes]
        if (magic, size, crc) != (_TRAILER_MAGIC, slot.size_bytes, zlib.crc32(payload)):
            raise DeviceError(f"{image}: the slot of {slot.tensor!r} is corrupt", *_REBUILD)
        tensor = tensors[slot.tensor]
        values[slot.tensor, slot.purpose] = np.frombuffer(
            payload, NUMPY_TYPES[tensor.dtype]
        ).reshape(tensor.shape)
    return values


@dataclass(frozen=True)
class Samples:
    """The data set in an image.

    Attributes:
        training: features and targets to train with, one row per sample.
        held_out: the same for evaluation.
    """

    training: tuple[Array, Array]
    held_out: tuple[Array, Array]


def read_samples(image: Path, program: Program) -> Samples:
    """The data set that an image holds.

    Raises:
        DeviceError: the file is no storage image, or not one of this program.
    """
    header, content = _read(image)
    columns_bytes = [t.size_bytes // program.batch for t in (program.input, program.label)]
    record_blocks = _record_blocks(program)
    if any(r.record_blocks != record_blocks for r in (header.training, header.held_out)):
        raise _other_layout(image)

    def samples(region: _Region) -> tuple[Array, Array]:
        raw = np.frombuffer(content, np.uint8)[
            region.first_block * BLOCK_BYTES : region.end * BLOCK_BYTES
        ].reshape(region.samples, record_blocks * BLOCK_BYTES)
        columns = []
        start = 0
        for tensor, size in zip((program.input, program.label), columns_bytes, strict=True):
            part = np.ascontiguousarray(raw[:, start : start + size])
            typed = part.view(NUMPY_TYPES[tensor.dtype])
            columns.append(typed.reshape(region.samples, *tensor.shape[1:]))
            start += size
        return columns[0], columns[1]

    return Samples(samples(header.training), samples(header.held_out))


def _read(image: Path) -> tuple[_Header, bytes]:
    """What an image's header says, and its partition."""
    try:
        with image.open("rb") as file:
            header = _read_header(image, file)
            file.seek(PARTITION_BLOCK * BLOCK_BYTES)
            return header, file.read(header.blocks * BLOCK_BYTES)
    except OSError as error:
        raise _unreadable(image, error) from error


def _header_of(image: Path) -> _Header:
    try:
        with image.open("rb") as file:
            return _read_header(image, file)
    except OSError as error:
        raise _unreadable(image, error) from error


def _read_header(image: Path, file: BinaryIO) -> _Header:
    table = file.read(BLOCK_BYTES)
    file.seek(PARTITION_BLOCK * BLOCK_BYTES)
    header = _Header.unpack(file.read(BLOCK_BYTES))
    if (
        header is None
        or table[_TABLE_ENTRIES] != header.table[_TABLE_ENTRIES]
        or (PARTITION_BLOCK + header.blocks) * BLOCK_BYTES > os.fstat(file.fileno()).st_size
    ):
        raise DeviceError(
            f"{image} is no storage image of poetfw, or its first blocks are corrupt", *_REBUILD
        )
    return header


def _unreadable(image: Path, error: OSError) -> DeviceError:
    return DeviceError(f"{image} cannot be used: {error.strerror or error}", *_REBUILD)


def _other_layout(image: Path) -> DeviceError:
    return DeviceError(f"{image} is the storage image of another build", *_REBUILD)


def _record_blocks(program: Program) -> int:
    """Blocks that one sample takes: its features, its target, and padding."""
    values = (program.input.size_bytes + program.label.size_bytes) // program.batch
    return -(-values // BLOCK_BYTES)


def _write_records(
    image: memoryview, region: _Region, program: Program, samples: tuple[Array, Array]
) -> None:
    """Put samples into their region, one row of whole blocks each. Nothing large is copied."""
    size = region.samples * region.record_blocks * BLOCK_BYTES
    rows = np.frombuffer(image, np.uint8, size, region.first_block * BLOCK_BYTES)
    rows = rows.reshape(region.samples, region.record_blocks * BLOCK_BYTES)
    start = 0
    for values, tensor in zip(samples, (program.input, program.label), strict=True):
        typed = np.ascontiguousarray(values, NUMPY_TYPES[tensor.dtype])
        size = tensor.size_bytes // program.batch
        rows[:, start : start + size] = typed.view(np.uint8).reshape(region.samples, size)
        start += size


def _payload(tensor: Tensor, value: Array | None) -> bytes:
    if value is None:
        return bytes(tensor.size_bytes)
    return np.ascontiguousarray(value, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape).tobytes()


def _slot_bytes(slot: Slot, payload: bytes) -> bytes:
    body = payload.ljust(slot.blocks * BLOCK_BYTES - TRAILER_BYTES, b"\0")
    return body + _TRAILER.pack(_TRAILER_MAGIC, slot.size_bytes, 0, zlib.crc32(payload))
