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

from poetfw.common.errors import DeviceError
from poetfw.firmware import (
    Commit,
    RunRequest,
    Slot,
    SlotPurpose,
    assign_slots,
    read_commit,
    read_committed,
    read_request,
    read_samples,
    read_slots,
    write_image,
)
from poetfw.ir import Dtype, Tensor
from poetfw.models.builder import GraphBuilder
from poetfw.ops import Array
from poetfw.training import Program, Sgd, make_program

BLOCK = 512
START = 8 * BLOCK
"""Of the partition."""
TRAINING, HELD_OUT = 9, 8
REQUEST = RunRequest(steps=7, seed=3, capture=True, evaluate=False, checkpoint_every=5)
HEADER = (
    *("version", "plan", "block", "blocks", "flags", "steps", "seed"),
    *("first", "samples", "record", "held_out_first", "held_out_samples", "held_out_record"),
    *("slots", "sets_first", "sets", "every", "identity", "gap", "crc"),
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
    samples = _samples(features)
    return write_image(program, "1a2b3c4d", slots, weights, *samples, REQUEST, sets=3), slots


def _header(content: bytes) -> dict[str, int]:
    return dict(zip(HEADER, struct.unpack_from("<20I", content, START + 8), strict=True))


@pytest.mark.parametrize(
    ("features", "record_blocks"),
    [(1, 1), (124, 1), (125, 1), (126, 2), (253, 2), (254, 3), (381, 3)],
)
def test_an_image_is_laid_out_as_documented(features: int, record_blocks: int) -> None:
    """A sample takes 4 bytes a feature, 4 for its label, 8 for CRCs; 125 features fill a block."""
    content, slots = _image(features)
    header = _header(content)
    assert not any(content[BLOCK:START])
    content = content[START:]
    assert content[:8] == b"POETIMG1"
    assert header.pop("crc") == zlib.crc32(content[:80])
    identity = header.pop("identity")
    held_out = 1 + TRAINING * record_blocks
    first_slot = -(-(held_out + HELD_OUT * record_blocks) // 8) * 8
    others = sum(slot.blocks for slot in slots if slot.purpose is not SlotPurpose.PERSISTENT)
    in_set = [slot for slot in slots if slot.purpose is SlotPurpose.PERSISTENT]
    first_set = -(-(first_slot + others) // 8) * 8
    record = sum(slot.blocks for slot in in_set)
    set_blocks = -(-(record + 1) // 8) * 8
    assert header == {
        "version": 3,
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
        "sets_first": first_set,
        "sets": 3,
        "every": 5,
        "gap": 0,
    }
    assert len(content) // BLOCK == first_set + 3 * set_blocks
    for first, (x, y) in zip((1, held_out), _samples(features), strict=True):
        for i in range(len(x)):
            stored = content[(first + i * record_blocks) * BLOCK :][: record_blocks * BLOCK]
            sample = x[i].tobytes() + y[i].tobytes()
            for part, mark in ((x[i].tobytes(), identity), (y[i].tobytes(), identity ^ 0xFFFFFFFF)):
                sample += struct.pack("<I", zlib.crc32(part) ^ mark)
            assert stored == sample + bytes(record_blocks * BLOCK - len(sample))
    assert slots[: len(in_set)] == tuple(in_set)
    at = 0
    for slot in slots[len(in_set) :]:
        assert slot.first_block == at
        at += slot.blocks
    assert not any(content[first_slot * BLOCK : first_set * BLOCK])
    at, trailers = first_set, b""
    for slot in in_set:
        assert (slot.first_block, slot.blocks) == (
            at - first_set,
            -(-(slot.size_bytes + 16) // BLOCK),
        )
        raw = content[at * BLOCK : (at + slot.blocks) * BLOCK]
        at += slot.blocks
        trailers += raw[-16:]
        payload = raw[: slot.size_bytes]
        assert not any(raw[slot.size_bytes : -16])
        trailer = struct.unpack("<4I", raw[-16:])
        assert trailer == (0x544F4C53, slot.size_bytes, 0, zlib.crc32(payload))
        expected = _program(features)[1].get(slot.tensor)
        assert payload == (bytes(slot.size_bytes) if expected is None else expected.tobytes())
    commit = struct.pack("<8s6I", b"POETSAVE", identity, 0, 0, 0, zlib.crc32(trailers), 0)
    commit += struct.pack("<II", 0, zlib.crc32(commit))
    assert content[at * BLOCK :].rstrip(b"\0") == commit  # and the other sets are empty


def test_a_crc_of_a_block_tells_what_is_in_it() -> None:
    """A host compares blocks by it. Data with their own CRC right behind them all have the same."""
    content, _ = _image(125)
    superblocks = [_with(content, steps=steps)[START:][:BLOCK] for steps in (1, 2, 3)]
    records = [Commit(sequence=i).pack(0x1A2B3C4D) for i in range(3)]
    samples = [content[START + i * BLOCK :][:BLOCK] for i in range(1, 4)]
    for blocks in (superblocks, records, samples):
        assert len({zlib.crc32(block) for block in blocks}) == 3


def test_slots_share_nothing_that_is_erased_at_once() -> None:
    program, _ = _program(1)
    close, apart = (assign_slots(program, (), size) for size in (None, 4096))
    assert [replace(slot, first_block=0) for slot in close] == [
        replace(slot, first_block=0) for slot in apart
    ]
    in_sets = [slot for slot in apart if slot.purpose is SlotPurpose.PERSISTENT]
    for slots in (in_sets, [slot for slot in apart if slot not in in_sets]):
        at = 0
        for slot in slots:
            assert slot.first_block == at
            at += -(-(slot.size_bytes + 16) // 4096) * 8
    assert len(in_sets) > 3


def test_the_partition_table_byte_by_byte() -> None:
    """One partition, not to boot from, its cylinders out of range, and the signature."""
    content, _ = _image(125)
    blocks = len(content) // BLOCK - 8
    entry = bytes.fromhex("00 feffff da feffff") + struct.pack("<II", 8, blocks)
    assert content[:BLOCK] == bytes(446) + entry + bytes(48) + b"\x55\xaa"


@pytest.mark.parametrize("features", [124, 125, 126])
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
    packed = content[START:][:8] + struct.pack("<18I", *(header[name] for name in HEADER[:-2]))
    table = content[:458] + struct.pack("<I", header["blocks"]) + content[462:START]
    return table + packed + struct.pack("<II", 0, zlib.crc32(packed)) + content[START + 88 :]


@pytest.mark.parametrize(
    "changes",
    [
        {"first": 2, "held_out_first": 11},
        {"held_out_first": 9},
        {"held_out_first": 11},
        {"slots": 17},
        {"slots": 25},
        {"sets_first": 23},
        {"sets_first": 73},
        {"blocks": 23},
        {"sets": 1},
        {"sets": 73},
        {"version": 2},
        {"version": 4},
        {"block": 1024},
        {"flags": 4},
    ],
    ids=str,
)
def test_a_layout_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    path = tmp_path / "image"
    content = _image(125)[0] + bytes(30 * BLOCK)
    assert [_header(content)[name] for name in ("slots", "sets_first", "blocks")] == [24, 24, 72]
    path.write_bytes(_with(content))
    assert read_request(path) == REQUEST
    path.write_bytes(_with(content, **changes))
    with pytest.raises(DeviceError, match="not a storage image of poetfw"):
        read_request(path)


def test_an_image_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(_image(125)[0][:-1])
    with pytest.raises(DeviceError, match="not a storage image of poetfw"):
        read_request(path)


def test_slots_beyond_the_end_are_another_builds(tmp_path: Path) -> None:
    content, slots = _image(125)
    program, _ = _program(125)
    tensors = {tensor.name: tensor for tensor in program.persistent}
    path = tmp_path / "image"
    header = _header(content)
    for changes in (
        {"blocks": header["blocks"] - 1},
        {"sets": 4},
        {"sets_first": header["sets_first"] + 1},
    ):
        path.write_bytes(_with(content, **changes))
        with pytest.raises(DeviceError, match="of another build"):
            read_slots(path, slots, tensors)


def test_samples_of_another_size_are_another_builds(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(_image(125)[0])
    with pytest.raises(DeviceError, match="of another build"):
        read_samples(path, _program(126)[0])


def _committed(content: bytes, slots: tuple[Slot, ...], number: int, sequence: int) -> bytes:
    """An image with one more commit, of the step that is its sequence, in a set."""
    slot_blocks = sum(slot.blocks for slot in slots if slot.purpose is SlotPurpose.PERSISTENT)
    set_blocks = -(-(slot_blocks + 1) // 8) * 8
    first, trailers, whole = _header(content)["sets_first"] + number * set_blocks, b"", b""
    for slot in slots:
        if slot.purpose is SlotPurpose.PERSISTENT:
            payload = np.full(slot.size_bytes // 4, sequence, np.float32).tobytes()
            values = (0x544F4C53, len(payload), sequence, zlib.crc32(payload))
            trailers += struct.pack("<4I", *values)
            whole += payload.ljust(slot.blocks * BLOCK - 16, b"\0") + trailers[-16:]
    values = (
        _header(content)["identity"],
        sequence,
        sequence,
        100 + sequence,
        zlib.crc32(trailers),
        0,
    )
    record = struct.pack("<8s6I", b"POETSAVE", *values)
    whole += (record + struct.pack("<II", 0, zlib.crc32(record))).ljust(BLOCK, b"\0")
    start = START + first * BLOCK
    return content[:start] + whole + content[start + len(whole) :]


def _weight(path: Path, slots: tuple[Slot, ...]) -> float:
    program, _ = _program(125)
    tensors = {
        tensor.name: tensor for tensor in (*program.training.tensors, *program.evaluation.tensors)
    }
    return float(read_slots(path, slots, tensors)["w", SlotPurpose.PERSISTENT].flat[0])


def test_the_last_commit_is_what_is_read(tmp_path: Path) -> None:
    content, slots = _image(125)
    path = tmp_path / "image"
    path.write_bytes(content)
    assert read_commit(path, slots) == Commit(0, 0, 0, read_commit(path, slots).crc)
    initial = _weight(path, slots)
    for number, sequence in ((1, 1), (2, 2), (0, 3), (1, 4)):
        content = _committed(content, slots, number, sequence)
        path.write_bytes(content)
        commit = read_commit(path, slots)
        assert (commit.sequence, commit.step, commit.written) == (
            sequence,
            sequence,
            100 + sequence,
        )
        assert _weight(path, slots) == sequence != initial


def test_a_commit_counts_only_if_all_of_it_is_right(tmp_path: Path) -> None:
    """Whatever byte of its slots and its record is damaged, the one before is read."""
    initial, slots = _image(125)
    content = _committed(_committed(initial, slots, 0, 5), slots, 1, 6)
    path, header = tmp_path / "image", _header(content)
    in_set = [slot for slot in slots if slot.purpose is SlotPurpose.PERSISTENT]
    set_blocks = (header["blocks"] - header["sets_first"]) // 3
    start = START + (header["sets_first"] + set_blocks) * BLOCK
    record = start + sum(slot.blocks for slot in in_set) * BLOCK
    ends = [start + (slot.first_block + slot.blocks) * BLOCK for slot in in_set]
    places = [
        start,
        *(end - at for end in ends for at in (16, 12, 8, 4)),
        *range(record, record + 36),
    ]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        assert read_commit(path, slots).sequence == 5, place
        assert _weight(path, slots) == 5
    exchanged = bytearray(content)  # a whole slot of the commit before
    exchanged[start : ends[0]] = content[start - set_blocks * BLOCK :][: ends[0] - start]
    path.write_bytes(exchanged)
    assert read_commit(path, slots).sequence == 5
    for field, value in ((16, 7), (24, 0x12345678)):  # another step, other trailers
        other = bytearray(content)
        struct.pack_into("<I", other, record + field, value)
        struct.pack_into("<I", other, record + 36, zlib.crc32(other[record : record + 32]))
        path.write_bytes(other)
        assert read_commit(path, slots).sequence == 5, field
    damaged = bytearray(initial)
    damaged[start - set_blocks * BLOCK] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DeviceError, match="holds no commit that is whole"):
        read_commit(path, slots)


def test_a_page_is_read_if_it_was_written(tmp_path: Path) -> None:
    """Its trailer says so, and not its payload, which may begin with zeros."""
    program, weights = _program(125)
    page = Slot("x", SlotPurpose.PAGE, 0, 16)
    slots = (*assign_slots(program, ()), page)
    content = bytearray(write_image(program, "1a2b3c4d", slots, weights, *_samples(125), REQUEST))
    tensors = {tensor.name: tensor for tensor in program.training.tensors}
    tensors |= {program.metric.name: program.metric, "x": Tensor("x", (4,), Dtype.F32)}
    path = tmp_path / "image"
    path.write_bytes(content)
    assert ("x", SlotPurpose.PAGE) not in read_slots(path, slots, tensors)
    payload = np.array([0, 0, 0, 1], "<f4").tobytes()
    start = START + _header(bytes(content))["slots"] * BLOCK
    content[start : start + 16] = payload
    struct.pack_into("<4I", content, start + BLOCK - 16, 0x544F4C53, 16, 9, zlib.crc32(payload))
    path.write_bytes(content)
    assert read_slots(path, slots, tensors)["x", SlotPurpose.PAGE].tobytes() == payload
    content[start + BLOCK - 12] = 15
    path.write_bytes(content)
    with pytest.raises(DeviceError, match="is corrupt"):
        read_slots(path, slots, tensors)
    committed = read_committed(path, slots, tensors)  # which no page is a part of
    assert "x" not in committed
    assert committed["w"].tobytes() == weights["w"].tobytes()
