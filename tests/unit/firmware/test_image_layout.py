# SPDX-License-Identifier: Apache-2.0
"""The storage image byte by byte, read as its documentation says and not as it is written."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poetfw.errors import DeviceError
from poetfw.firmware import (
    RunRequest,
    Slot,
    SlotPurpose,
    assign_slots,
    read_request,
    read_samples,
    read_slots,
    write_image,
)
from poetfw.models.builder import GraphBuilder
from poetfw.ops import Array
from poetfw.training import Program, Sgd, make_program

BLOCK = 512
START = 8 * BLOCK
"""Of the partition."""
TRAINING, HELD_OUT = 9, 8
REQUEST = RunRequest(steps=7, seed=3, capture=True, evaluate=False)
HEADER = (
    *("version", "plan", "block", "blocks", "flags", "steps", "seed"),
    *("first", "samples", "record", "held_out_first", "held_out_samples", "held_out_record"),
    *("slots", "crc"),
)


def _program(features: int) -> tuple[Program, Mapping[str, Array]]:
    builder = GraphBuilder("m", "x", (4, features))
    weight = np.random.default_rng(0).normal(size=(3, features)).astype(np.float32)
    graph, weights = builder.build(
        builder.op("linear", "y", (builder.input, builder.parameter("w", weight)))
    )
    return make_program(graph, "softmax_cross_entropy", Sgd()), weights


def _samples(features: int) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(1)
    return [
        (rng.normal(size=(n, features)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32))
        for n in (TRAINING, HELD_OUT)
    ]


def _image(features: int) -> tuple[bytes, tuple[Slot, ...]]:
    program, weights = _program(features)
    slots = assign_slots(program, ())
    return write_image(program, "1a2b3c4d", slots, weights, *_samples(features), REQUEST), slots


def _header(content: bytes) -> dict[str, int]:
    return dict(zip(HEADER, struct.unpack_from("<15I", content, START + 8), strict=True))


@pytest.mark.parametrize(
    ("features", "record_blocks"),
    [(1, 1), (126, 1), (127, 1), (128, 2), (255, 2), (256, 3), (383, 3)],
)
def test_an_image_is_laid_out_as_documented(features: int, record_blocks: int) -> None:
    """A sample takes 4 bytes a feature and 4 for its label; 127 features fill a block exactly."""
    content, slots = _image(features)
    header = _header(content)
    assert not any(content[BLOCK:START])
    content = content[START:]
    assert content[:8] == b"POETIMG1"
    assert header.pop("crc") == zlib.crc32(content[:64])
    held_out = 1 + TRAINING * record_blocks
    first_slot = held_out + HELD_OUT * record_blocks
    gap = -first_slot % 8
    assert not any(content[first_slot * BLOCK : (first_slot + gap) * BLOCK])
    first_slot += gap
    assert header == {
        "version": 1,
        "plan": 0x1A2B3C4D,
        "block": BLOCK,
        "blocks": len(content) // BLOCK,
        "flags": 1,
        "steps": 7,
        "seed": 3,
        "first": 1,
        "samples": TRAINING,
        "record": record_blocks,
        "held_out_first": held_out,
        "held_out_samples": HELD_OUT,
        "held_out_record": record_blocks,
        "slots": first_slot,
    }
    for first, (x, y) in zip((1, held_out), _samples(features), strict=True):
        for i in range(len(x)):
            record = content[(first + i * record_blocks) * BLOCK :][: record_blocks * BLOCK]
            sample = x[i].tobytes() + y[i].tobytes()
            assert record == sample + bytes(record_blocks * BLOCK - len(sample))
    at = first_slot
    for slot in slots:
        assert (slot.first_block, slot.blocks) == (
            at - first_slot,
            -(-(slot.size_bytes + 16) // BLOCK),
        )
        raw = content[at * BLOCK : (at + slot.blocks) * BLOCK]
        at += slot.blocks
        if slot.purpose is not SlotPurpose.PERSISTENT:
            assert not any(raw)
            continue
        payload = raw[: slot.size_bytes]
        assert not any(raw[slot.size_bytes : -16])
        trailer = struct.unpack("<4I", raw[-16:])
        assert trailer == (0x544F4C53, slot.size_bytes, 0, zlib.crc32(payload))
        expected = _program(features)[1].get(slot.tensor)
        assert payload == (bytes(slot.size_bytes) if expected is None else expected.tobytes())
    assert at * BLOCK == len(content)


def test_slots_share_nothing_that_is_erased_at_once() -> None:
    program, _ = _program(1)
    close, apart = (assign_slots(program, (), size) for size in (None, 4096))
    assert [replace(slot, first_block=0) for slot in close] == [
        replace(slot, first_block=0) for slot in apart
    ]
    at = 0
    for slot in apart:
        assert slot.first_block == at
        at += -(-(slot.size_bytes + 16) // 4096) * 8
    assert len(apart) > 3


def test_the_partition_table_byte_by_byte() -> None:
    """One partition, not to boot from, its cylinders out of range, and the signature."""
    content, _ = _image(127)
    blocks = len(content) // BLOCK - 8
    entry = bytes.fromhex("00 feffff da feffff") + struct.pack("<II", 8, blocks)
    assert content[:BLOCK] == bytes(446) + entry + bytes(48) + b"\x55\xaa"


@pytest.mark.parametrize("features", [126, 127, 128])
def test_an_image_is_read_as_it_was_written(tmp_path: Path, features: int) -> None:
    program, _ = _program(features)
    path = tmp_path / "image"
    path.write_bytes(_image(features)[0])
    assert read_request(path) == REQUEST
    samples = read_samples(path, program)
    for (x, y), (x_read, y_read) in zip(
        _samples(features), (samples.training, samples.held_out), strict=True
    ):
        np.testing.assert_array_equal(x, x_read)
        np.testing.assert_array_equal(y, y_read)


def _with(content: bytes, **changes: int) -> bytes:
    header = _header(content) | changes
    packed = content[START:][:8] + struct.pack("<14I", *(header[name] for name in HEADER[:-1]))
    table = content[:458] + struct.pack("<I", header["blocks"]) + content[462:START]
    return table + packed + struct.pack("<I", zlib.crc32(packed)) + content[START + 68 :]


@pytest.mark.parametrize(
    "changes",
    [
        {"first": 2, "held_out_first": 11, "slots": 19, "blocks": 30},
        {"held_out_first": 9, "slots": 17},
        {"held_out_first": 11, "slots": 19, "blocks": 30},
        {"slots": 17},
        {"slots": 10_000},
        {"blocks": 17},
        {"version": 2},
        {"block": 1024},
        {"flags": 4},
    ],
    ids=str,
)
def test_a_layout_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    path = tmp_path / "image"
    content = _image(127)[0] + bytes(30 * BLOCK)
    path.write_bytes(_with(content))
    assert read_request(path) == REQUEST
    path.write_bytes(_with(content, **changes))
    with pytest.raises(DeviceError, match="no storage image of poetfw"):
        read_request(path)


def test_an_image_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(_image(127)[0][:-1])
    with pytest.raises(DeviceError, match="no storage image of poetfw"):
        read_request(path)


def test_slots_beyond_the_end_are_another_builds(tmp_path: Path) -> None:
    content, slots = _image(127)
    program, _ = _program(127)
    tensors = {tensor.name: tensor for tensor in program.persistent}
    path = tmp_path / "image"
    path.write_bytes(_with(content, blocks=_header(content)["blocks"] - 1))
    with pytest.raises(DeviceError, match="of another build"):
        read_slots(path, slots, tensors)


def test_samples_of_another_size_are_another_builds(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(_image(127)[0])
    with pytest.raises(DeviceError, match="of another build"):
        read_samples(path, _program(128)[0])


@pytest.mark.parametrize(
    ("byte", "bad"), [(0, True), (-16, True), (-12, True), (-4, True), (-8, False)]
)
def test_a_slot_is_read_only_if_all_of_it_is_right(tmp_path: Path, byte: int, bad: bool) -> None:
    """The generation alone, at -8, says nothing of what is in it."""
    content, slots = _image(127)
    program, _ = _program(127)
    tensors = {tensor.name: tensor for tensor in program.persistent}
    (slot,) = (s for s in slots if s.tensor == "w" and s.purpose is SlotPurpose.PERSISTENT)
    start = START + (_header(content)["slots"] + slot.first_block) * BLOCK
    damaged = bytearray(content)
    damaged[start + (byte if byte >= 0 else slot.blocks * BLOCK + byte)] ^= 1
    path = tmp_path / "image"
    path.write_bytes(damaged)
    if bad:
        with pytest.raises(DeviceError, match="is corrupt"):
            read_slots(path, [slot], tensors)
    else:
        assert list(read_slots(path, [slot], tensors)) == [("w", SlotPurpose.PERSISTENT)]
