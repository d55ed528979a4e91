# SPDX-License-Identifier: Apache-2.0
"""The ring buffer of samples that a device took itself, in storage behind the sets.

`firmware_templates/storage/ring.h` describes the format. This module reads the samples and labels
of a device, and appends samples in the same format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from poetfw.common.errors import MixedImagesError
from poetfw.common.transfer import TRAILER_BYTES
from poetfw.firmware.slots import BLOCK_BYTES, SET_ALIGNMENT
from poetfw.ops import Array

_TRAILER = struct.Struct("<4I")  # CRC-32 of payload and what follows, magic, id, event
_MOST_EVENTS = 0x7FFFFFFF  # more were never counted: a part that says so is not the ring's
_MAGIC = 0x474E4952  # "RING"

ReadBlock = Callable[[int], bytes]
"""Reader of a block of the storage, by its number."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A firmware's ring of samples.

    Attributes:
        samples: how many it holds, 2 or more.
        share: how many samples of each batch come from it, if there are any to draw from.
    """

    samples: int
    share: int


@dataclass(frozen=True, slots=True)
class RingRegion:
    """Location of a ring in storage.

    Attributes:
        first_block: of the storage.
        samples: places that it has.
        x_bytes, y_bytes: features and target of a sample.
        identity: of the image.
    """

    first_block: int
    samples: int
    x_bytes: int
    y_bytes: int
    identity: int

    def x_blocks(self, place: int) -> range:
        """The blocks of the features in a place."""
        start = self.first_block + place * place_blocks(self.x_bytes, self.y_bytes)
        return range(start, start + _part_blocks(self.x_bytes))

    def y_blocks(self, place: int) -> range:
        """The blocks of the target in a place."""
        start = self.x_blocks(place).start + _aligned(_part_blocks(self.x_bytes))
        return range(start, start + _part_blocks(self.y_bytes))


@dataclass(frozen=True, slots=True)
class RingSamples:
    """The samples of a ring, oldest first: n of them.

    Attributes:
        ids: what names them, [n].
        x: features as bytes, [n, x_bytes].
        y: targets as bytes, [n, y_bytes]; zeros where there is none.
        labelled: True if a target is there, [n].
        places: where they are, [n].
        events: how many there were: appending and labelling.
    """

    ids: Array
    x: Array
    y: Array
    labelled: Array
    places: Array
    events: int


def place_blocks(x_bytes: int, y_bytes: int) -> int:
    """Blocks of a place: of its two parts, neither shares 4 KiB with anything."""
    return _aligned(_part_blocks(x_bytes)) + _aligned(_part_blocks(y_bytes))


def read_ring(region: RingRegion, read_block: ReadBlock) -> RingSamples:
    """The samples in a ring, without incomplete parts.

    Raises:
        DeviceError: A complete part belongs to another image.
    """
    found = []
    events = 0
    for place in range(region.samples):
        x = _read_part(region.x_blocks(place), region.x_bytes, region.identity, read_block)
        y = _read_part(region.y_blocks(place), region.y_bytes, region.identity, read_block)
        events = max([events, *(part[2] for part in (x, y) if part is not None)])
        if x is not None:
            label = None if y is None or y[1] != x[1] else y[0]
            found.append((x[1], place, x[0], label))
    found.sort()
    n = len(found)
    labels = [bytes(region.y_bytes) if y is None else y for *_, y in found]
    return RingSamples(
        ids=np.array([id_ for id_, *_ in found], np.uint32),
        x=np.frombuffer(b"".join(x for _, _, x, _ in found), np.uint8).reshape(n, region.x_bytes),
        y=np.frombuffer(b"".join(labels), np.uint8).reshape(n, region.y_bytes),
        labelled=np.array([y is not None for *_, y in found], bool),
        places=np.array([place for _, place, *_ in found], np.uint32),
        events=events,
    )


def append_samples(
    region: RingRegion, held: RingSamples, events: int, x: Array, y: Array, labelled: Array
) -> Mapping[int, bytes]:
    """The blocks to write so that a ring holds more samples, in the order to write them.

    Args:
        region: where the ring is.
        held: what it holds; the oldest make room.
        events: how many there were, by any commit.
        x: features as bytes, [n, x_bytes].
        y: targets as bytes, [n, y_bytes].
        labelled: True if a target is there, [n].
    """
    blocks: dict[int, bytes] = {}
    place = (int(held.places[-1]) + 1) % region.samples if len(held.places) else 0
    event = max(events, held.events)
    for features, target, has_label in zip(x, y, labelled, strict=True):
        event += 1
        number = event
        parts = [(region.x_blocks(place), features.tobytes(), event)]
        if has_label:
            event += 1
            parts.append((region.y_blocks(place), target.tobytes(), event))
        for where, payload, at in parts:
            content = _sealed(payload, region.identity, number, at)
            for i, block in enumerate(where):
                blocks[block] = content[i * BLOCK_BYTES : (i + 1) * BLOCK_BYTES]
        place = (place + 1) % region.samples
    return blocks


def _part_blocks(size_bytes: int) -> int:
    return -(-(size_bytes + TRAILER_BYTES) // BLOCK_BYTES)


def _aligned(blocks: int) -> int:
    return -(-blocks // SET_ALIGNMENT) * SET_ALIGNMENT


def _sealed(payload: bytes, identity: int, number: int, event: int) -> bytes:
    """A part in the storage format, with its trailer."""
    size = _part_blocks(len(payload)) * BLOCK_BYTES
    stamp = struct.pack("<3I", _MAGIC ^ identity, number, event)
    trailer = struct.pack("<I", zlib.crc32(stamp, zlib.crc32(payload))) + stamp
    return payload.ljust(size - TRAILER_BYTES, b"\0") + trailer


def _read_part(
    blocks: range, size_bytes: int, identity: int, read_block: ReadBlock
) -> tuple[bytes, int, int] | None:
    """A part's payload, id and event; None if it is incomplete.

    The last block is read first: without a trailer there, the part was never written.

    Raises:
        DeviceError: The part is complete, and belongs to another image.
    """
    last = read_block(blocks[-1])
    if not any(last[-TRAILER_BYTES:]):
        return None
    _, magic, number, event = _TRAILER.unpack(last[-TRAILER_BYTES:])
    raw = b"".join(map(read_block, blocks[:-1])) + last
    payload, found = raw[:size_bytes], magic ^ _MAGIC
    sealed = _sealed(payload, found, number, event)
    if event > _MOST_EVENTS or sealed[-TRAILER_BYTES:] != raw[-TRAILER_BYTES:]:
        return None
    if found != identity:
        raise MixedImagesError("the storage")
    return payload, number, event
