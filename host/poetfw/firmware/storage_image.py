"""The storage image: initial weights, data set and the run's request, as blocks."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poetfw.errors import DeviceError
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

_SUPERBLOCK = struct.Struct("<8s14I")
_MAGIC = b"POETIMG1"
_VERSION = 1
_TRAILER = struct.Struct("<4I")
_TRAILER_MAGIC = 0x544F4C53  # "SLOT"
_CAPTURE = 1
_EVALUATE = 2

_NUMPY_TYPES: Mapping[Dtype, str] = {Dtype.F32: "<f4", Dtype.I32: "<i4"}


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
    """
    train_records = _records(program, *training)
    held_out_records = _records(program, *held_out)
    record_blocks = train_records.shape[1] // BLOCK_BYTES
    train = _Region(1, len(train_records), record_blocks)
    evaluation = _Region(train.end, len(held_out_records), record_blocks)
    blocks = evaluation.end + slot_region_blocks(slots)
    image = bytearray(blocks * BLOCK_BYTES)
    image[:BLOCK_BYTES] = _superblock(plan_id, blocks, request, train, evaluation)
    for region, records in ((train, train_records), (evaluation, held_out_records)):
        image[region.first_block * BLOCK_BYTES : region.end * BLOCK_BYTES] = records.tobytes()
    by_name = {tensor.name: tensor for tensor in program.persistent}
    for slot in slots:
        if slot.purpose is SlotPurpose.PERSISTENT:
            payload = _payload(by_name[slot.tensor], weights.get(slot.tensor))
            start = (evaluation.end + slot.first_block) * BLOCK_BYTES
            image[start : start + slot.blocks * BLOCK_BYTES] = _slot_bytes(slot, payload)
    return bytes(image)


def read_request(image: Path) -> RunRequest:
    """What a run of an image in a file shall do.

    Raises:
        DeviceError: the file is no storage image.
    """
    with image.open("rb") as file:
        fields = _read_superblock(image, file.read(BLOCK_BYTES))
    flags, steps, seed = fields[5:8]
    return RunRequest(steps, seed, bool(flags & _CAPTURE), bool(flags & _EVALUATE))


def set_request(image: Path, request: RunRequest) -> None:
    """Change what a run of an image in a file shall do.

    Raises:
        DeviceError: the file is no storage image.
    """
    with image.open("r+b") as file:
        fields = _read_superblock(image, file.read(BLOCK_BYTES))
        file.seek(0)
        file.write(_pack((*fields[:5], *_request_fields(request), *fields[8:15])))


def read_slots(
    image: Path, slots: Sequence[Slot], tensors: Mapping[str, Tensor]
) -> dict[tuple[str, SlotPurpose], Array]:
    """The tensors that a run left in an image's slots, skipping slots that were never written.

    Raises:
        DeviceError: the file is no storage image, or a slot is corrupt.
    """
    content = image.read_bytes()
    region = _read_superblock(image, content[:BLOCK_BYTES])[14]
    values: dict[tuple[str, SlotPurpose], Array] = {}
    for slot in slots:
        start = (region + slot.first_block) * BLOCK_BYTES
        raw = content[start : start + slot.blocks * BLOCK_BYTES]
        if not any(raw[-TRAILER_BYTES:]):
            continue
        magic, size, _, crc = _TRAILER.unpack(raw[-TRAILER_BYTES:])
        payload = raw[: slot.size_bytes]
        if (magic, size, crc) != (_TRAILER_MAGIC, slot.size_bytes, zlib.crc32(payload)):
            raise DeviceError(
                f"{image}: the slot of {slot.tensor!r} is corrupt",
                "run `poetfw build` again to write a fresh image",
            )
        tensor = tensors[slot.tensor]
        values[slot.tensor, slot.purpose] = np.frombuffer(
            payload, _NUMPY_TYPES[tensor.dtype]
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
        DeviceError: the file is no storage image.
    """
    content = image.read_bytes()
    fields = _read_superblock(image, content[:BLOCK_BYTES])

    def samples(region: _Region) -> tuple[Array, Array]:
        raw = np.frombuffer(content, np.uint8)[
            region.first_block * BLOCK_BYTES : region.end * BLOCK_BYTES
        ].reshape(region.samples, -1)
        columns = []
        start = 0
        for tensor in (program.input, program.label):
            size = tensor.size_bytes // program.batch
            part = np.ascontiguousarray(raw[:, start : start + size])
            typed = part.view(_NUMPY_TYPES[tensor.dtype])
            columns.append(typed.reshape(region.samples, *tensor.shape[1:]))
            start += size
        return columns[0], columns[1]

    return Samples(samples(_Region(*fields[8:11])), samples(_Region(*fields[11:14])))


def _request_fields(request: RunRequest) -> tuple[int, int, int]:
    flags = _CAPTURE * request.capture | _EVALUATE * request.evaluate
    return flags, request.steps, request.seed


def _superblock(
    plan_id: str, blocks: int, request: RunRequest, train: _Region, evaluation: _Region
) -> bytes:
    packed = _pack(
        (
            _MAGIC,
            _VERSION,
            int(plan_id, 16),
            BLOCK_BYTES,
            blocks,
            *_request_fields(request),
            *(train.first_block, train.samples, train.record_blocks),
            *(evaluation.first_block, evaluation.samples, evaluation.record_blocks),
            evaluation.end,
        )
    )
    return packed.ljust(BLOCK_BYTES, b"\0")


def _pack(fields: Sequence[bytes | int]) -> bytes:
    """The superblock's fields and, behind them, their CRC-32."""
    packed = _SUPERBLOCK.pack(*fields)
    return packed + struct.pack("<I", zlib.crc32(packed))


def _read_superblock(image: Path, block: bytes) -> tuple[Any, ...]:
    size = _SUPERBLOCK.size
    if len(block) < BLOCK_BYTES or _pack(_SUPERBLOCK.unpack(block[:size])) != block[: size + 4]:
        raise DeviceError(
            f"{image} is no storage image of poetfw, or its first block is corrupt",
            "run `poetfw build` again to write a fresh image",
        )
    return _SUPERBLOCK.unpack(block[:size])


def _records(
    program: Program, x: Array, y: Array
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """One row of whole blocks per sample: features, target, padding."""
    parts = []
    for values, tensor in ((x, program.input), (y, program.label)):
        typed = np.ascontiguousarray(values, _NUMPY_TYPES[tensor.dtype])
        parts.append(typed.reshape(len(values), -1).view(np.uint8).reshape(len(values), -1))
    content = np.concatenate(parts, axis=1)
    padding = -content.shape[1] % BLOCK_BYTES
    return np.pad(content, ((0, 0), (0, padding)))


def _payload(tensor: Tensor, value: Array | None) -> bytes:
    if value is None:
        return bytes(tensor.size_bytes)
    return np.ascontiguousarray(value, _NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape).tobytes()


def _slot_bytes(slot: Slot, payload: bytes) -> bytes:
    body = payload.ljust(slot.blocks * BLOCK_BYTES - TRAILER_BYTES, b"\0")
    return body + _TRAILER.pack(_TRAILER_MAGIC, slot.size_bytes, 0, zlib.crc32(payload))
