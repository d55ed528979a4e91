# SPDX-License-Identifier: Apache-2.0
"""The storage image: initial weights, data set and the run's request, as blocks."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from poetfw.common.errors import DataError, DeviceError, MixedImagesError
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.firmware.kept import KeptFeatures
from poetfw.firmware.ring import RingRegion, place_blocks
from poetfw.firmware.slots import (
    BLOCK_BYTES,
    SET_ALIGNMENT,
    Slot,
    SlotPurpose,
    record_block,
    set_blocks,
    slot_region_blocks,
)
from poetfw.firmware.superblock import (
    CRC,
    GAP,
    PARTITION_BLOCK,
    RunRequest,
    SampleRegion,
    Superblock,
    fresh_image,
    other_layout,
    read_header,
    read_image,
    superblock_of,
    unreadable,
)
from poetfw.ir import NUMPY_TYPES, Tensor
from poetfw.ops import Array
from poetfw.training import Program

LARGEST_SAMPLES_BYTES = 1 << 28
"""The samples in a storage image may have so many bytes, padding to whole blocks included."""


_RECORD = struct.Struct("<8s6I")
_RECORD_MAGIC = b"POETSAVE"
_TRAILER = struct.Struct("<4I")
_TRAILER_MAGIC = 0x544F4C53  # "SLOT"
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Commit:
    """The record of a commit.

    Attributes:
        sequence: of commits; 0 for the host's.
        step: training steps that are done.
        written: blocks that the firmware has written since the host wrote the image.
        crc: CRC-32 of the trailers of its slots.
        ring: events in the ring before it; 0 without one.
    """

    sequence: int = 0
    step: int = 0
    written: int = 0
    crc: int = 0
    ring: int = 0

    def pack(self, identity: int) -> bytes:
        """The record's block, of an image of this identity."""
        values = (self.sequence, self.step, self.written, self.crc, self.ring)
        packed = _RECORD.pack(_RECORD_MAGIC, identity, *values)
        return (packed + GAP + CRC.pack(zlib.crc32(packed))).ljust(BLOCK_BYTES, b"\0")

    @staticmethod
    def unpack(block: bytes, identity: int) -> Commit | None:
        """The record in a block; None if it holds none, or a damaged one.

        Raises:
            DeviceError: It is whole, and of an image of another identity.
        """
        _, found, *values = _RECORD.unpack_from(block)
        commit = Commit(*values)
        if commit.pack(found) != block:
            return None
        if found != identity:
            raise MixedImagesError("the storage")
        return commit


@dataclass(frozen=True, slots=True)
class Places:
    """Block numbers of an image's parts, counted from the start of the card.

    Attributes:
        samples_end: first block behind the samples; features that are kept of them lie between
            that and the slots.
        slots_block: where the slots begin that are in no set.
        set_blocks: where each set begins.
        record_blocks: where the record of each is.
    """

    samples_end: int
    slots_block: int
    set_blocks: tuple[int, ...]
    record_blocks: tuple[int, ...]


def places(image: Path, slots: Sequence[Slot]) -> Places:
    """Read from an image file where its slots and sets begin.

    Raises:
        DeviceError: The file is not a storage image, or not laid out like this.
    """
    header = superblock_of(image)
    _check_layout(image, header, slots)
    sets = tuple(PARTITION_BLOCK + _set_block(header, slots, i) for i in range(header.sets))
    records = tuple(first + record_block(slots) for first in sets)
    end = PARTITION_BLOCK + header.held_out.end
    return Places(end, PARTITION_BLOCK + header.slots_block, sets, records)


def ring_region(image: Path, slots: Sequence[Slot], program: Program) -> RingRegion:
    """Read from an image file where its ring is; a build without a ring has a region of no places.

    Raises:
        DeviceError: The file is not a storage image, or not laid out like this.
    """
    header = superblock_of(image)
    _check_layout(image, header, slots)
    first = _set_block(header, slots, header.sets)
    sizes = _sample_bytes(program)
    samples, rest = divmod(header.blocks - first, place_blocks(*sizes))
    if rest:
        raise other_layout(image)
    return RingRegion(PARTITION_BLOCK + first, samples, *sizes, header.identity)


def _set_block(header: Superblock, slots: Sequence[Slot], number: int) -> int:
    return header.sets_block + number * set_blocks(slots)


def _check_layout(image: Path, header: Superblock, slots: Sequence[Slot]) -> None:
    if (
        header.slots_block + slot_region_blocks(slots) > header.sets_block
        or _set_block(header, slots, header.sets) > header.blocks
    ):
        raise other_layout(image)


def write_image(
    program: Program,
    plan_id: str,
    slots: Sequence[Slot],
    weights: Mapping[str, Array],
    training: tuple[Array, Array],
    held_out: tuple[Array, Array],
    request: RunRequest,
    sets: int = 2,
    ring: int = 0,
    damaged: tuple[Collection[int], Collection[int]] = ((), ()),
    kept: KeptFeatures | None = None,
) -> bytes:
    """The bytes of a storage image, whose first set holds the commit of what training begins with.

    Args:
        program: what the firmware runs.
        plan_id: eight hexadecimal digits; the firmware refuses an image of another plan.
        slots: the layout of the slot region.
        weights: initial values by tensor name, and those of frozen weights that are streamed;
            persistent tensors without one start at zero.
        training: features and targets, one row per sample.
        held_out: the same for evaluation; the number of rows is a multiple of the batch.
        request: what the run shall do.
        sets: number of sets that are written in turn, 2 or more.
        ring: places of the ring, which is empty.
        damaged: the training samples and the held-out ones that shall not be read as right.
        kept: features that the device keeps of training samples, which are not there yet.

    Raises:
        DataError: The samples take more than `LARGEST_SAMPLES_BYTES`.
    """
    layout = _lay_out(program, slots, (len(training[0]), len(held_out[0])), sets, ring, kept)
    train, evaluation, slots_block, sets_block, blocks = layout
    if evaluation.end * BLOCK_BYTES > LARGEST_SAMPLES_BYTES:
        raise DataError(
            f"the data set's {train.samples + evaluation.samples:,} samples, in blocks of "
            f"{BLOCK_BYTES} bytes, take {evaluation.end * BLOCK_BYTES:,} of the "
            f"{LARGEST_SAMPLES_BYTES:,} bytes that a storage image may have of them",
            "give fewer samples",
        )
    by_name = {tensor.name: tensor for tensor in program.persistent}
    constants = {tensor.name: tensor for tensor in program.constants}
    payloads = {
        slot.tensor: _payload(by_name[slot.tensor], weights.get(slot.tensor))
        for slot in slots
        if slot.purpose is SlotPurpose.PERSISTENT
    }
    columns = [_columns(program, samples) for samples in (training, held_out)]
    identity = _identity(plan_id, request.seed, columns, payloads.values())
    places = (slots_block, sets_block, sets, blocks)
    header = Superblock(int(plan_id, 16), request, train, evaluation, *places, identity)
    content = bytearray((PARTITION_BLOCK + blocks) * BLOCK_BYTES)
    content[:BLOCK_BYTES] = header.table
    image = memoryview(content)[PARTITION_BLOCK * BLOCK_BYTES :]
    image[:BLOCK_BYTES] = header.pack()
    for region, parts, bad in zip((train, evaluation), columns, damaged, strict=True):
        _write_records(image, region, identity, parts, bad)
    # Where sets are written while training, the first commit is written twice: the next set is
    # then at no moment the only one beside the last commit.
    for slot in slots:
        if slot.purpose is SlotPurpose.CONSTANT:
            whole = _slot_bytes(slot, _payload(constants[slot.tensor], weights[slot.tensor]))
            start = (slots_block + slot.first_block) * BLOCK_BYTES
            image[start : start + len(whole)] = whole
    twice = bool(program.streamed)
    for sequence, number in enumerate((sets - 1, 0) if twice else (0,)):
        first_block = sets_block + number * set_blocks(slots)
        crc = 0
        for slot in slots:
            if slot.purpose is SlotPurpose.PERSISTENT:
                whole = _slot_bytes(slot, payloads[slot.tensor])
                start = (first_block + slot.first_block) * BLOCK_BYTES
                image[start : start + len(whole)] = whole
                crc = zlib.crc32(whole[-TRAILER_BYTES:], crc)
        start = (first_block + record_block(slots)) * BLOCK_BYTES
        commit = Commit(sequence, crc=crc)
        image[start : start + BLOCK_BYTES] = commit.pack(identity)
    return bytes(content)


class _ImageLayout(NamedTuple):
    """Parts of an image, in blocks of its partition: samples, slots, sets, and its end."""

    training: SampleRegion
    held_out: SampleRegion
    slots_block: int
    sets_block: int
    blocks: int


def _lay_out(
    program: Program,
    slots: Sequence[Slot],
    samples: tuple[int, int],
    sets: int,
    ring: int,
    kept: KeptFeatures | None,
) -> _ImageLayout:
    record_blocks = _record_blocks(program)
    train = SampleRegion(1, samples[0], record_blocks)
    evaluation = SampleRegion(train.end, samples[1], record_blocks)
    slots_block = _aligned(evaluation.end)
    if kept is not None and not kept.records:
        slots_block = _aligned(slots_block + (train.samples + ring) * kept.record_blocks)
    sets_block = _aligned(slots_block + slot_region_blocks(slots))
    ring_block = sets_block + sets * set_blocks(slots)
    blocks = ring_block + ring * place_blocks(*_sample_bytes(program))
    return _ImageLayout(train, evaluation, slots_block, sets_block, blocks)


def image_bytes(
    program: Program, slots: Sequence[Slot], samples: tuple[int, int], sets: int, ring: int
) -> int:
    """Bytes of a storage image without kept features.

    Args:
        program: what the firmware runs.
        slots: the layout of the slot region.
        samples: number of training samples and of held-out ones.
        sets: number of sets that are written in turn.
        ring: places of the ring.
    """
    layout = _lay_out(program, slots, samples, sets, ring, None)
    return (PARTITION_BLOCK + layout.blocks) * BLOCK_BYTES


def _identity(
    plan_id: str, seed: int, columns: Sequence[tuple[Array, Array]], weights: Iterable[bytes]
) -> int:
    """The identity of an image: of plan, seed, samples and initial weights.

    How many steps a run shall have is not of it, for a training may be resumed with more.
    """
    digest = hashlib.sha256(f"{plan_id} {seed}".encode())
    payloads = (np.frombuffer(payload, np.uint8) for payload in weights)
    for part in (*(part for parts in columns for part in parts), *payloads):
        digest.update(b" %d " % part.nbytes)
        digest.update(part.data if part.size else b"")
    return int.from_bytes(digest.digest()[:4], "little")


def _aligned(block: int) -> int:
    return -(-block // SET_ALIGNMENT) * SET_ALIGNMENT


def image_blocks(image: Path) -> int:
    """Number of blocks in an image file, counted from the start of the card.

    Raises:
        DeviceError: The file is not a storage image.
    """
    return PARTITION_BLOCK + superblock_of(image).blocks


def check_image(image: Path, plan_id: str) -> None:
    """Check that the image in a file was made for a plan.

    Raises:
        DeviceError: The file is not a storage image, or another plan's.
    """
    found = f"{superblock_of(image).plan_id:08x}"
    if found != plan_id:
        raise DeviceError(
            f"{image} is the storage image of another build or device (plan {found}, not "
            f"{plan_id})",
            *fresh_image(image),
        )


def image_identity(image: Path) -> int:
    """The identity of the image in a file.

    Raises:
        DeviceError: The file is not a storage image.
    """
    return superblock_of(image).identity


def read_request(image: Path) -> RunRequest:
    """Read the settings of a run from an image's file.

    Raises:
        DeviceError: The file is not a storage image.
    """
    return superblock_of(image).request


def set_request(image: Path, request: RunRequest) -> None:
    """Change what a run of an image in a file shall do.

    Raises:
        DeviceError: The file is not a storage image.
    """
    try:
        with image.open("r+b") as file:
            header = read_header(image, file)
            file.seek(PARTITION_BLOCK * BLOCK_BYTES)
            file.write(replace(header, request=request).pack())
    except OSError as error:
        raise unreadable(image, error) from error


def trains_alike(image: Path, other: Path) -> bool:
    """True if two images are of one plan, and have the same seed and samples.

    Raises:
        DeviceError: One of the files is not a storage image.
    """
    (header, content), (others, other_content) = read_image(image), read_image(other)
    if header.blocks != others.blocks or header.slots_block != others.slots_block:
        return False
    same = (header.plan_id, header.request.seed) == (others.plan_id, others.request.seed)
    samples = slice(BLOCK_BYTES, header.held_out.end * BLOCK_BYTES)
    return same and content[samples] == other_content[samples]


def read_commit(image: Path, slots: Sequence[Slot]) -> Commit:
    """The last commit in an image: the one that the firmware goes on from.

    Raises:
        DeviceError: The file is not a storage image, is not laid out like this, or holds no commit
            that is whole.
    """
    header, content = read_image(image)
    return _last_commit(image, header, content, slots)[0]


def read_slots(
    image: Path, slots: Sequence[Slot], tensors: Mapping[str, Tensor]
) -> dict[tuple[str, SlotPurpose], Array]:
    """The tensors in an image's slots, without slots that were never written, or are a step's own.

    Persistent tensors are those of the last commit.

    Raises:
        DeviceError: The file is not a storage image or not laid out like this, it holds no whole
            commit, or a slot is corrupt.
    """
    header, content = read_image(image)
    _, payloads = _last_commit(image, header, content, slots)
    values: dict[tuple[str, SlotPurpose], Array] = {}
    for slot in slots:
        if slot.purpose in (SlotPurpose.CONSTANT, SlotPurpose.STORED):
            continue
        payload = payloads.get(slot.tensor)
        if slot.purpose is not SlotPurpose.PERSISTENT:
            raw = _raw_slot(content, header.slots_block, slot)
            if not any(raw[-TRAILER_BYTES:]):
                continue
            payload = _checked_payload(raw, slot)
            if payload is None:
                raise DeviceError(
                    f"{image}: the slot of {slot.tensor!r} is corrupt", *fresh_image(image)
                )
        assert payload is not None
        values[slot.tensor, slot.purpose] = _values(payload, tensors[slot.tensor])
    return values


def read_committed(
    image: Path, slots: Sequence[Slot], tensors: Mapping[str, Tensor]
) -> dict[str, Array]:
    """The persistent tensors of an image's last commit, whatever other slots hold.

    Raises:
        DeviceError: The file is not a storage image, is not laid out like this, or holds no commit
            that is whole.
    """
    header, content = read_image(image)
    _, payloads = _last_commit(image, header, content, slots)
    return {name: _values(payload, tensors[name]) for name, payload in payloads.items()}


def _values(payload: bytes, tensor: Tensor) -> Array:
    values, shape = np.frombuffer(payload, NUMPY_TYPES[tensor.dtype]), tensor.shape
    if values.size < tensor.elements:  # the gradient of a weight's first input channels
        shape = (shape[0], -1, *shape[2:])
    return values.reshape(shape)


def is_whole(content: bytes, slots: Sequence[Slot], commit: Commit) -> bool:
    """True if a set's blocks, from its first to its last, hold what its commit says."""
    committed = [slot for slot in slots if slot.purpose is SlotPurpose.PERSISTENT]
    return _set_payloads(content, 0, committed, commit) is not None


def _last_commit(
    image: Path, header: Superblock, content: bytes, slots: Sequence[Slot]
) -> tuple[Commit, dict[str, bytes]]:
    """The commit of the highest sequence that is whole, and its payloads by tensor."""
    _check_layout(image, header, slots)
    committed = [slot for slot in slots if slot.purpose is SlotPurpose.PERSISTENT]
    found: list[tuple[Commit, dict[str, bytes]]] = []
    for number in range(header.sets):
        first = _set_block(header, slots, number)
        record = (first + record_block(slots)) * BLOCK_BYTES
        commit = Commit.unpack(content[record : record + BLOCK_BYTES], header.identity)
        if commit is not None:
            payloads = _set_payloads(content, first, committed, commit)
            if payloads is not None:
                found.append((commit, payloads))
    if not found:
        raise DeviceError(f"{image} holds no commit that is whole", *fresh_image(image))
    return max(found, key=lambda pair: pair[0].sequence)


def _set_payloads(
    content: bytes, first_block: int, slots: Sequence[Slot], commit: Commit
) -> dict[str, bytes] | None:
    """The payloads of a set by tensor; None if they are not those of its commit."""
    payloads = {}
    crc = 0
    for slot in slots:
        raw = _raw_slot(content, first_block, slot)
        payload = _checked_payload(raw, slot, commit.step)
        if payload is None:
            return None
        payloads[slot.tensor] = payload
        crc = zlib.crc32(raw[-TRAILER_BYTES:], crc)
    return payloads if crc == commit.crc else None


def _raw_slot(content: bytes, first_block: int, slot: Slot) -> bytes:
    start = (first_block + slot.first_block) * BLOCK_BYTES
    return content[start : start + slot.blocks * BLOCK_BYTES]


def _checked_payload(raw: bytes, slot: Slot, generation: int | None = None) -> bytes | None:
    """A slot's payload, of a generation if one is given; None if it is not what was written."""
    magic, size, written, crc = _TRAILER.unpack(raw[-TRAILER_BYTES:])
    if (magic, size, crc) != (_TRAILER_MAGIC, slot.size_bytes, slot.crc(raw)):
        return None
    return slot.payload(raw) if generation in (None, written) else None


@dataclass(frozen=True)
class ImageSamples:
    """The data set in an image.

    Attributes:
        training: features and targets to train with, one row per sample.
        held_out: the same for evaluation.
        damaged: which of either are not as they were written.
    """

    training: tuple[Array, Array]
    held_out: tuple[Array, Array]
    damaged: tuple[frozenset[int], frozenset[int]]


def read_samples(image: Path, program: Program) -> ImageSamples:
    """The data set that an image holds.

    Raises:
        DeviceError: The file is not a storage image of this program, or holds a sample of
            another image.
    """
    header, content = read_image(image)
    record_blocks = _record_blocks(program)
    if any(r.record_blocks != record_blocks for r in (header.training, header.held_out)):
        raise other_layout(image)

    def samples(region: SampleRegion) -> tuple[tuple[Array, Array], frozenset[int]]:
        raw = np.frombuffer(content, np.uint8)[
            region.first_block * BLOCK_BYTES : region.end * BLOCK_BYTES
        ].reshape(region.samples, record_blocks * BLOCK_BYTES)
        columns, crcs = [], []
        start = 0
        for record in (program.x, program.y):
            part = raw[:, start : start + record.size_bytes]
            columns.append(record.samples(part))
            crcs.append(_crcs(part))
            start += record.size_bytes
        stored = np.ascontiguousarray(raw[:, start : start + 2 * CRC.size]).view("<u4")
        marks = stored ^ np.stack(crcs, axis=1) ^ np.array([0, _WORD], "<u4")
        others = marks != header.identity
        if (others.all(axis=1) & (marks[:, 0] == marks[:, 1])).any():
            raise MixedImagesError(str(image), *fresh_image(image))
        return (columns[0], columns[1]), frozenset(np.flatnonzero(others.any(axis=1)).tolist())

    (training, bad), (held_out, bad_held_out) = map(samples, (header.training, header.held_out))
    return ImageSamples(training, held_out, (bad, bad_held_out))


def _crcs(rows: Array) -> Array:
    """The CRC-32 of each row of bytes."""
    return np.array([zlib.crc32(row.tobytes()) for row in rows], "<u4")


def _sample_bytes(program: Program) -> tuple[int, int]:
    """Of a sample's features, and of its target."""
    return program.x.size_bytes, program.y.size_bytes


def _record_blocks(program: Program) -> int:
    """Blocks that one sample takes: its features, its target, a CRC of each, and padding."""
    return -(-(sum(_sample_bytes(program)) + 2 * CRC.size) // BLOCK_BYTES)


def _columns(program: Program, samples: tuple[Array, Array]) -> tuple[Array, Array]:
    """Features and targets as bytes, a row for each sample."""
    return program.x.rows(samples[0]), program.y.rows(samples[1])


def _write_records(
    image: memoryview,
    region: SampleRegion,
    identity: int,
    columns: tuple[Array, Array],
    damaged: Collection[int],
) -> None:
    """Put samples into their region, one row of whole blocks each. Nothing large is copied."""
    size = region.samples * region.record_blocks * BLOCK_BYTES
    rows = np.frombuffer(image, np.uint8, size, region.first_block * BLOCK_BYTES)
    rows = rows.reshape(region.samples, region.record_blocks * BLOCK_BYTES)
    crcs = np.stack([_crcs(column) for column in columns], axis=1)
    crcs ^= np.array([identity, identity ^ _WORD], "<u4")
    crcs[list(damaged), 0] ^= _WORD  # one alone: with both, it would be another image's
    start = 0
    for column in (*columns, crcs.view(np.uint8)):
        rows[:, start : start + column.shape[1]] = column
        start += column.shape[1]


def _payload(tensor: Tensor, value: Array | None) -> bytes:
    if value is None:
        return bytes(tensor.size_bytes)
    return np.ascontiguousarray(value, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape).tobytes()


def _slot_bytes(slot: Slot, payload: bytes) -> bytes:
    """The blocks of a slot, as of step 0."""
    if slot.image is not None:
        size, behind = slot.image.tile_bytes, slot.image.request_bytes - TRAILER_BYTES
        tiles = (tile.tobytes() for tile in slot.image.split(payload))
        return b"".join(
            tile.ljust(behind, b"\0") + _TRAILER.pack(_TRAILER_MAGIC, size, 0, zlib.crc32(tile))
            for tile in tiles
        )
    raw = slot.stored(payload)
    return raw[:-TRAILER_BYTES] + _TRAILER.pack(_TRAILER_MAGIC, slot.size_bytes, 0, slot.crc(raw))
