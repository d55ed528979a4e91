# SPDX-License-Identifier: Apache-2.0
"""Superblock, slots, CRC, sample order and data loading, on a block device in memory."""

from __future__ import annotations

import ctypes
import mmap
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import examples
from emulator.firmware_tools import (
    BLOCK,
    PARTITION_BLOCK,
    SAMPLE_BATCH,
    SAMPLE_FEATURES,
    SAMPLE_RECORD_BLOCKS,
    SLOT_BLOCKS,
    SUPERBLOCK,
    partition_table,
    sample_data,
    sample_image,
    slot_bytes,
    slot_offset,
)
from poetfw.firmware.sample_order import permute, sample_order

OK, ERROR_IMAGE, ERROR_PLAN, ERROR_STORAGE, ERROR_ARGUMENT, ERROR_SLOT, ERROR_CRC = range(0, -7, -1)
NO_PARTITION, FOREIGN, PARTITION_START, PARTITION_END, PARTITION_SIZE = range(-7, -12, -1)
ERROR_VERSION, ERROR_LOST, ERROR_DATA, ERROR_COMMIT = range(-12, -16, -1)
SLOT_NUMBERS = {name: number for number, name in enumerate(("weight", "means", "gradient", "x"))}
BLOCKS = 60
"""Of the sample image's partition, slots and sets included."""
X_BYTES = SAMPLE_BATCH * SAMPLE_FEATURES * 4


class Samples(ctypes.Structure):
    _fields_ = [
        ("first_block", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("record_blocks", ctypes.c_uint32),
    ]


class Image(ctypes.Structure):
    _fields_ = [
        ("flags", ctypes.c_uint32),
        ("steps", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("training", Samples),
        ("evaluation", Samples),
        *((name, ctypes.c_uint32) for name in ("slots_block", "sets_block", "sets", "every")),
        *((name, ctypes.c_uint32) for name in ("set", "sequence", "step", "written", "crc")),
    ]


class Slot(ctypes.Structure):
    _fields_ = [("first_block", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


class Traffic(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("requests", "read", "written")]


def _device(runtime: ctypes.CDLL) -> memoryview:
    storage = (ctypes.c_uint8 * (256 * BLOCK)).in_dll(runtime, "test_device")
    return memoryview(storage).cast("B")


def _open(runtime: ctypes.CDLL, content: bytes | bytearray) -> tuple[int, Image]:
    _device(runtime)[: len(content)] = content
    image = Image()
    status = runtime.poet_storage_open(ctypes.byref(image))
    if status == OK:
        runtime.poet_slots_open(image.slots_block)
        runtime.poet_slots_open_set(image.sets_block)
    return status, image


def _refresh_crc(content: bytearray) -> None:
    struct.pack_into(
        "<I", content, SUPERBLOCK + 84, zlib.crc32(content[SUPERBLOCK : SUPERBLOCK + 80])
    )


@given(st.binary(max_size=2000), st.integers(0, 2000))
@examples(200)
def test_crc_is_zlibs_in_one_piece_and_in_two(library: Path, data: bytes, cut: int) -> None:
    crc32 = ctypes.CDLL(str(library)).poet_crc32
    crc32.restype = ctypes.c_uint32
    assert crc32(0, data, len(data)) == zlib.crc32(data)
    first, second = data[:cut], data[cut:]
    assert crc32(crc32(0, first, len(first)), second, len(second)) == zlib.crc32(data)


def test_superblock_is_read(runtime: ctypes.CDLL) -> None:
    content = sample_image(steps=11, seed=0xFFFFFFFF, flags=2, sets=3, checkpoint_every=5)
    status, image = _open(runtime, content)
    assert status == OK
    assert (image.steps, image.seed, image.flags) == (11, 0xFFFFFFFF, 2)
    assert (image.training.first_block, image.training.count) == (PARTITION_BLOCK + 1, 10)
    assert (image.evaluation.first_block, image.evaluation.count) == (PARTITION_BLOCK + 21, 8)
    assert (image.slots_block, image.sets_block) == (PARTITION_BLOCK + 37, PARTITION_BLOCK + 44)
    assert (image.sets, image.every) == (3, 5)


def test_every_damaged_byte_of_the_superblock_is_noticed(runtime: ctypes.CDLL) -> None:
    for offset in (*range(80), *range(84, 88)):
        content = sample_image()
        content[SUPERBLOCK + offset] ^= 1
        expected = ERROR_VERSION if 8 <= offset < 12 else ERROR_IMAGE
        assert _open(runtime, content)[0] == expected, offset


@pytest.mark.parametrize(
    ("offset", "value", "status"),
    [
        (8, 2, ERROR_VERSION),
        (8, 4, ERROR_VERSION),
        (12, 0x12345678, ERROR_PLAN),  # plan id
        (16, 4096, ERROR_IMAGE),  # block bytes
        (20, BLOCKS - 1, ERROR_IMAGE),  # blocks in all: one too few for the last set
        (36, 0xFFFFFFF0, ERROR_IMAGE),  # training records beyond the end, past 2^32 blocks
        (40, SAMPLE_BATCH - 1, ERROR_IMAGE),  # not one batch of samples
        (44, SAMPLE_RECORD_BLOCKS + 1, ERROR_IMAGE),  # record size
        (48, 0xFFFFFFF0, ERROR_IMAGE),  # evaluation records beyond the end, past 2^32 blocks
        (52, 6, ERROR_IMAGE),  # evaluation samples are no multiple of the batch
        (52, 0x80000000, ERROR_IMAGE),  # whose records would be 2^32 blocks
        (52, 0, OK),  # none at all
        (56, SAMPLE_RECORD_BLOCKS + 1, ERROR_IMAGE),  # record size
        (56, SAMPLE_RECORD_BLOCKS - 1, ERROR_IMAGE),
        (60, 0xFFFFFFFF, ERROR_IMAGE),  # slots beyond the end
        (60, BLOCKS - 7, OK),
        (60, BLOCKS - 6, ERROR_IMAGE),
        (64, 0xFFFFFFFF, ERROR_IMAGE),  # sets beyond the end
        (64, BLOCKS - 16, OK),
        (64, BLOCKS - 15, ERROR_IMAGE),
        (68, 1, ERROR_IMAGE),  # sets: one could not be written without losing what it holds
        (68, 3, ERROR_IMAGE),
        (68, 0x20000002, ERROR_IMAGE),  # which would have 16 blocks, of 32 bits
    ],
)
def test_images_that_cannot_be_trained_on_are_refused(
    runtime: ctypes.CDLL, offset: int, value: int, status: int
) -> None:
    content = sample_image()
    struct.pack_into("<I", content, SUPERBLOCK + offset, value)
    _refresh_crc(content)
    assert _open(runtime, content)[0] == status


def _with_table(table: bytes) -> bytearray:
    content = sample_image()
    content[:BLOCK] = table
    return content


FAT, DATA, PROTECTIVE = 0x0C, 0xDA, 0xEE  # 0xEE: the table is a GPT
DEVICE_BLOCKS = 256
OURS = (DATA, PARTITION_BLOCK, BLOCKS)
NONE = (0, 0, 0)


@pytest.mark.parametrize("place", range(4))
def test_the_partition_may_be_any_entry_of_the_table(runtime: ctypes.CDLL, place: int) -> None:
    table = partition_table(*[NONE] * place, OURS)
    assert _open(runtime, _with_table(table))[0] == OK


def test_what_a_computer_boots_does_not_matter(runtime: ctypes.CDLL) -> None:
    """Windows writes a number of its own there; and no entry but its type says that it is used."""
    entry = bytes([0x80, 1, 2, 3, 0, 4, 5, 6]) + b"\xff" * 8
    table = b"\xfa" * 446 + partition_table(OURS)[446:462] + entry * 3 + b"\x55\xaa"
    assert _open(runtime, _with_table(table))[0] == OK


@pytest.mark.parametrize(
    ("table", "status"),
    [
        (bytes(BLOCK), NO_PARTITION),
        (sample_image()[SUPERBLOCK:][:BLOCK], NO_PARTITION),  # as if there were no table at all
        (partition_table(OURS)[:510] + b"\x55\x00", NO_PARTITION),
        (partition_table(OURS)[:510] + b"\x00\xaa", NO_PARTITION),
        (partition_table(OURS)[:256].ljust(BLOCK, b"\0"), NO_PARTITION),  # cut off
        (partition_table(), NO_PARTITION),
        (partition_table((FAT, PARTITION_BLOCK, BLOCKS)), FOREIGN),
        (partition_table((PROTECTIVE, 1, 2**32 - 1)), FOREIGN),
        (partition_table(OURS, (FAT, 100, 100)), FOREIGN),
        (partition_table((FAT, 100, 100), OURS), FOREIGN),
        (partition_table(OURS, NONE, NONE, (FAT, 100, 100)), FOREIGN),
        (partition_table(OURS, OURS), FOREIGN),
        (partition_table((DATA, 0, BLOCKS)), PARTITION_START),
        (partition_table((DATA, DEVICE_BLOCKS, BLOCKS)), PARTITION_START),
        (partition_table((DATA, 2**32 - 1, BLOCKS)), PARTITION_START),
        (partition_table((DATA, DEVICE_BLOCKS - 1, 1)), ERROR_IMAGE),  # there, but empty
        (partition_table((DATA, PARTITION_BLOCK, DEVICE_BLOCKS - PARTITION_BLOCK)), OK),
        (partition_table((DATA, PARTITION_BLOCK, DEVICE_BLOCKS - PARTITION_BLOCK + 1)),
         PARTITION_END),
        (partition_table((DATA, PARTITION_BLOCK, 2**32 - 1)), PARTITION_END),
        (partition_table((DATA, PARTITION_BLOCK, BLOCKS - 1)), PARTITION_SIZE),
        (partition_table((DATA, PARTITION_BLOCK, 0)), PARTITION_SIZE),
    ],
)  # fmt: skip
def test_a_partition_table_is_ours_or_refused(
    runtime: ctypes.CDLL, table: bytes, status: int
) -> None:
    assert _open(runtime, _with_table(table))[0] == status


def test_a_partition_may_not_end_beyond_the_device(runtime: ctypes.CDLL) -> None:
    blocks = ctypes.c_uint32.in_dll(runtime, "test_device_blocks")
    end = PARTITION_BLOCK + BLOCKS
    for blocks.value, status in (
        (0, ERROR_STORAGE),
        (1, PARTITION_START),
        (PARTITION_BLOCK, PARTITION_START),
        (PARTITION_BLOCK + 1, PARTITION_END),
        (end - 1, PARTITION_END),
        (end, OK),
        (2**32 - 1, OK),
    ):
        assert _open(runtime, sample_image())[0] == status, blocks.value


def test_nothing_is_read_beyond_the_table_of_another(runtime: ctypes.CDLL) -> None:
    runtime.poet_storage_traffic.restype = Traffic
    assert _open(runtime, _with_table(partition_table((FAT, 8, 100))))[0] == FOREIGN
    before = runtime.poet_storage_traffic()
    assert _open(runtime, _with_table(partition_table((FAT, 8, 100))))[0] == FOREIGN
    after = runtime.poet_storage_traffic()
    assert (after.read - before.read, after.written) == (1, before.written)


@pytest.mark.parametrize("transfer", [0, 1])
def test_table_and_superblock_must_be_readable(runtime: ctypes.CDLL, transfer: int) -> None:
    countdown = ctypes.c_uint32.in_dll(runtime, "test_transfers_until_one_fails")
    countdown.value = transfer
    assert _open(runtime, sample_image())[0] == ERROR_STORAGE


@pytest.mark.parametrize(("offset", "records"), [(36, 10), (48, 8)], ids=["training", "evaluation"])
def test_records_may_end_where_the_image_does(
    runtime: ctypes.CDLL, offset: int, records: int
) -> None:
    last = BLOCKS - records * SAMPLE_RECORD_BLOCKS
    for first, status in ((last, OK), (last + 1, ERROR_IMAGE)):
        content = sample_image()
        assert len(content) == (PARTITION_BLOCK + BLOCKS) * BLOCK
        struct.pack_into("<I", content, SUPERBLOCK + offset, first)
        _refresh_crc(content)
        assert _open(runtime, content)[0] == status, first


def test_without_held_out_samples_it_does_not_matter_where_they_are(runtime: ctypes.CDLL) -> None:
    content = sample_image()
    struct.pack_into("<3I", content, SUPERBLOCK + 48, 0xFFFFFFFF, 0, 0)
    _refresh_crc(content)
    assert _open(runtime, content)[0] == OK


def test_one_batch_of_samples_is_enough(runtime: ctypes.CDLL) -> None:
    assert _open(runtime, sample_image(training=SAMPLE_BATCH))[0] == OK


@pytest.mark.parametrize(
    ("offset", "content"),
    [(0, b"POETIMG2"), (16, b"\0\4\0\0")],
    ids=["magic", "block bytes"],
)
def test_the_checksum_is_not_all_that_is_looked_at(
    runtime: ctypes.CDLL, offset: int, content: bytes
) -> None:
    image = sample_image()
    image[SUPERBLOCK + offset : SUPERBLOCK + offset + len(content)] = content
    _refresh_crc(image)
    assert _open(runtime, image)[0] == ERROR_IMAGE


@pytest.mark.parametrize(
    ("payload", "blocks"), [(1, 1), (496, 1), (497, 2), (512, 2), (1008, 2), (1009, 3)]
)
def test_blocks_of_a_slot(runtime: ctypes.CDLL, payload: int, blocks: int) -> None:
    assert runtime.poet_slot_blocks(payload) == blocks
    assert len(slot_bytes(bytes(payload))) == blocks * BLOCK


@pytest.fixture
def opened(runtime: ctypes.CDLL) -> ctypes.CDLL:
    assert _open(runtime, sample_image())[0] == OK
    return runtime


def _page_out(runtime: ctypes.CDLL, slot: str, payload: bytes) -> int:
    status: int = runtime.poet_page_out(SLOT_NUMBERS[slot], payload, len(payload))
    return status


def _page_in(runtime: ctypes.CDLL, slot: str, size: int) -> tuple[int, bytes]:
    buffer = ctypes.create_string_buffer(size)
    status: int = runtime.poet_page_in(SLOT_NUMBERS[slot], buffer, size)
    return status, buffer.raw


def _writable_slot(runtime: ctypes.CDLL, name: str) -> Slot:
    """An entry of the plan's constant table, made writable: one library then does for all sizes."""
    slot = (Slot * len(SLOT_NUMBERS)).in_dll(runtime, "poet_slots")[SLOT_NUMBERS[name]]
    address = ctypes.addressof(slot)
    first = address // mmap.PAGESIZE * mmap.PAGESIZE
    length = address + ctypes.sizeof(slot) - first
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    assert mprotect(ctypes.c_void_p(first), ctypes.c_size_t(length), protection) == 0
    return slot


X_PAYLOAD = np.random.default_rng(3).bytes(X_BYTES)


def test_a_slot_comes_back_and_is_laid_out_as_documented(opened: ctypes.CDLL) -> None:
    opened.poet_slots_begin_step(17, 0)
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    assert _page_in(opened, "x", X_BYTES) == (OK, X_PAYLOAD)
    start = slot_offset(sample_image(), "x")
    expected = slot_bytes(X_PAYLOAD, generation=17)
    assert bytes(_device(opened)[start : start + len(expected)]) == expected


@pytest.mark.parametrize("size", [*range(480, 530), 1007, 1008, 1009, 1024])
def test_slots_of_every_remainder(opened: ctypes.CDLL, size: int) -> None:
    slot = _writable_slot(opened, "x")
    payload = np.random.default_rng(size).bytes(size)
    slot.bytes = size
    try:
        assert _page_out(opened, "x", payload) == OK
        assert _page_in(opened, "x", size) == (OK, payload)
    finally:
        slot.bytes = X_BYTES
    start = slot_offset(sample_image(), "x")
    expected = slot_bytes(payload)
    assert bytes(_device(opened)[start : start + len(expected)]) == expected


@pytest.mark.parametrize("byte", [0, 511, 512, X_BYTES - 1])
def test_one_damaged_byte_of_the_payload_is_noticed(opened: ctypes.CDLL, byte: int) -> None:
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    _device(opened)[slot_offset(sample_image(), "x") + byte] ^= 0x10
    assert _page_in(opened, "x", X_BYTES)[0] == ERROR_CRC


@pytest.mark.parametrize(
    ("byte", "status"), [(-16, ERROR_SLOT), (-12, ERROR_SLOT), (-8, ERROR_LOST), (-4, ERROR_CRC)]
)
def test_a_damaged_trailer_is_noticed(opened: ctypes.CDLL, byte: int, status: int) -> None:
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    end = slot_offset(sample_image(), "x") + SLOT_BLOCKS["x"][1] * BLOCK
    _device(opened)[end + byte] ^= 1
    assert _page_in(opened, "x", X_BYTES)[0] == status


def test_a_slot_never_written_is_an_error(opened: ctypes.CDLL) -> None:
    assert _page_in(opened, "means", 16)[0] == ERROR_SLOT


def test_wrong_sizes_and_slots_are_refused(opened: ctypes.CDLL) -> None:
    assert _page_in(opened, "x", X_BYTES - 4)[0] == ERROR_ARGUMENT
    assert _page_out(opened, "x", X_PAYLOAD[:-4]) == ERROR_ARGUMENT
    # What lies behind the table must not be taken for a slot, whatever it says.
    behind = (Slot * (len(SLOT_NUMBERS) + 1)).in_dll(opened, "poet_slots")[len(SLOT_NUMBERS)]
    for size in (X_BYTES, behind.bytes):
        size = ctypes.c_uint32(size)
        assert opened.poet_page_out(len(SLOT_NUMBERS), X_PAYLOAD, size) == ERROR_ARGUMENT
        assert opened.poet_page_in(len(SLOT_NUMBERS), X_PAYLOAD, size) == ERROR_ARGUMENT


@pytest.mark.parametrize("blocks_written", range(SLOT_BLOCKS["x"][1]))
def test_power_cut_at_every_block_leaves_a_slot_that_is_refused(
    opened: ctypes.CDLL, blocks_written: int
) -> None:
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    power = ctypes.c_uint32.in_dll(opened, "test_blocks_until_power_fails")
    power.value = blocks_written
    other = bytes(byte ^ 0xFF for byte in X_PAYLOAD)
    assert _page_out(opened, "x", other) == ERROR_STORAGE
    power.value = 0xFFFFFFFF
    status, payload = _page_in(opened, "x", X_BYTES)
    if blocks_written == 0:
        assert (status, payload) == (OK, X_PAYLOAD)
    else:
        assert status == ERROR_CRC


@pytest.mark.parametrize(("name", "transfers"), [("x", 2), ("gradient", 1)])
def test_no_transfer_may_fail_unnoticed(opened: ctypes.CDLL, name: str, transfers: int) -> None:
    """Also one after which all goes well again: whole blocks and the last one are moved apart."""
    payload = X_PAYLOAD if name == "x" else b"1234"
    countdown = ctypes.c_uint32.in_dll(opened, "test_transfers_until_one_fails")
    for failing in range(transfers + 1):
        countdown.value = failing
        written = _page_out(opened, name, payload)
        assert written == (ERROR_STORAGE if failing < transfers else OK)
    for failing in range(transfers + 1):
        countdown.value = failing
        status, _ = _page_in(opened, name, len(payload))
        assert status == (ERROR_STORAGE if failing < transfers else OK)


def test_gradients_are_captured_only_when_asked(opened: ctypes.CDLL) -> None:
    gradient = struct.pack("<f", -2.5)
    opened.poet_slots_begin_step(1, 0)
    assert opened.poet_capture(SLOT_NUMBERS["gradient"], gradient, 4) == OK
    assert _page_in(opened, "gradient", 4)[0] == ERROR_SLOT
    opened.poet_slots_begin_step(2, 1)
    assert opened.poet_capture(SLOT_NUMBERS["gradient"], gradient, 4) == OK
    assert _page_in(opened, "gradient", 4) == (OK, gradient)
    opened.poet_slots_open(slot_offset(sample_image(), "means") // BLOCK)
    assert opened.poet_capture(SLOT_NUMBERS["gradient"], bytes(4), 4) == OK
    opened.poet_slots_begin_step(2, 0)
    assert _page_in(opened, "gradient", 4) == (OK, gradient)


def test_what_an_earlier_step_left_is_not_taken_for_what_this_one_wrote(
    opened: ctypes.CDLL,
) -> None:
    opened.poet_slots_begin_step(4, 0)
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    opened.poet_slots_begin_step(5, 0)
    assert _page_in(opened, "x", X_BYTES)[0] == ERROR_LOST
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    assert _page_in(opened, "x", X_BYTES) == (OK, X_PAYLOAD)


def test_traffic_counts_whole_blocks(opened: ctypes.CDLL) -> None:
    opened.poet_storage_traffic.restype = Traffic
    before = opened.poet_storage_traffic()
    assert _page_out(opened, "x", X_PAYLOAD) == OK
    assert _page_in(opened, "x", X_BYTES)[0] == OK
    after = opened.poet_storage_traffic()
    assert after.written - before.written == 5
    assert after.read - before.read == 5
    assert after.requests - before.requests == 4


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5, 16, 17, 255, 1000, 1437])
@pytest.mark.parametrize(("seed", "epoch"), [(0, 0), (7, 3), (0xFFFFFFFF, 1 << 30)])
def test_sample_order_is_a_permutation_and_the_hosts(
    runtime: ctypes.CDLL, samples: int, seed: int, epoch: int
) -> None:
    order = [runtime.poet_sample_at(p, samples, seed, epoch) for p in range(samples)]
    assert sorted(order) == list(range(samples))
    assert order == [permute(p, samples, seed, epoch) for p in range(samples)]


@given(st.integers(1, 2**32 - 1), st.data())
@examples(100)
def test_sample_order_of_any_size_is_the_hosts(
    library: Path, samples: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, samples - 1))
    seed, epoch = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(0, 2**32 - 1))
    sample_at = ctypes.CDLL(str(library)).poet_sample_at
    sample_at.restype = ctypes.c_uint32
    arguments = (position, samples, seed, epoch)
    assert sample_at(*map(ctypes.c_uint32, arguments)) == permute(*arguments)


def test_epochs_are_shuffled_differently() -> None:
    epochs = [
        np.concatenate([sample_order(64, 16, 5, 4 * epoch + step) for step in range(4)])
        for epoch in range(3)
    ]
    for epoch in epochs:
        assert sorted(epoch) == list(range(64))
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(epochs[1], epochs[2])


def test_sample_order_refuses_a_batch_larger_than_the_data() -> None:
    with pytest.raises(ValueError, match="a batch of 5 cannot be taken from 4 samples"):
        sample_order(4, 5, 0, 0)


@pytest.mark.parametrize("step", range(5))
def test_training_batches_are_gathered_in_the_hosts_order(runtime: ctypes.CDLL, step: int) -> None:
    status, image = _open(runtime, sample_image(training=10))
    assert status == OK
    x, y = _load(runtime, "training", image.training, image.seed, step)
    all_x, all_y = sample_data()
    order = sample_order(10, SAMPLE_BATCH, image.seed, step)
    np.testing.assert_array_equal(x, all_x[order])
    np.testing.assert_array_equal(y, all_y[order])


@pytest.mark.parametrize("batch", range(2))
def test_evaluation_batches_are_gathered_as_stored(runtime: ctypes.CDLL, batch: int) -> None:
    status, image = _open(runtime, sample_image(training=10))
    assert status == OK
    x, y = _load(runtime, "evaluation", image.evaluation, batch)
    all_x, all_y = sample_data()
    first = 10 + batch * SAMPLE_BATCH
    np.testing.assert_array_equal(x, all_x[first : first + SAMPLE_BATCH])
    np.testing.assert_array_equal(y, all_y[first : first + SAMPLE_BATCH])


TRAINING, HELD_OUT, EPOCH = 16, 8, 16 // SAMPLE_BATCH


def _damage(runtime: ctypes.CDLL, samples: Samples, sample: int, byte: int = 0) -> None:
    _device(runtime)[(samples.first_block + 2 * sample) * BLOCK + byte] ^= 0x20


def _damaged(runtime: ctypes.CDLL, samples: Samples) -> list[int]:
    number = ctypes.c_uint32()
    count = runtime.poet_data_damaged(ctypes.byref(samples), 0, ctypes.byref(number))
    found = []
    for i in range(count):
        runtime.poet_data_damaged(ctypes.byref(samples), i, ctypes.byref(number))
        found.append(number.value)
    return found


@pytest.mark.parametrize("byte", [0, 599, 600, 603, 604, 607, 608, 611])
def test_a_sample_with_a_damaged_byte_is_skipped_and_named(runtime: ctypes.CDLL, byte: int) -> None:
    """Of its features, its target, or the CRC of either: all of the next is in its place."""
    _, image = _open(runtime, sample_image(training=TRAINING, evaluation=HELD_OUT))
    x, y = sample_data(TRAINING + HELD_OUT)
    _damage(runtime, image.training, 11, byte)
    _damage(runtime, image.evaluation, 7, byte)
    for step in range(3 * EPOCH):
        batch = _load(runtime, "training", image.training, image.seed, step)
        order = sample_order(TRAINING, SAMPLE_BATCH, image.seed, step, {11})
        assert 11 not in order
        for part, all_of_it in zip(batch, (x, y), strict=True):
            np.testing.assert_array_equal(part, all_of_it[order])
    assert (_damaged(runtime, image.training), _damaged(runtime, image.evaluation)) == ([11], [])
    batch = _load(runtime, "evaluation", image.evaluation, 1)
    for part, all_of_it in zip(batch, (x, y), strict=True):
        np.testing.assert_array_equal(part, all_of_it[TRAINING:][[4, 5, 6, 0]])
    assert (_damaged(runtime, image.training), _damaged(runtime, image.evaluation)) == ([11], [7])
    again, _ = _open(runtime, sample_image(training=TRAINING, evaluation=HELD_OUT))
    assert (again, _damaged(runtime, image.training)) == (OK, [])


def test_a_sample_whose_blocks_cannot_be_read_is_skipped(runtime: ctypes.CDLL) -> None:
    for block in (0, 1):
        _, image = _open(runtime, sample_image(training=TRAINING, evaluation=0))
        bad = ctypes.c_uint32.in_dll(runtime, "test_bad_block")
        bad.value = image.training.first_block + 2 * 5 + block
        x, y = sample_data(TRAINING)
        for step in range(EPOCH):
            batch = _load(runtime, "training", image.training, image.seed, step)
            order = sample_order(TRAINING, SAMPLE_BATCH, image.seed, step, {5})
            np.testing.assert_array_equal(batch[0], x[order])
            np.testing.assert_array_equal(batch[1], y[order])
        assert _damaged(runtime, image.training) == [5]
        bad.value = 0xFFFFFFFF


def test_what_is_right_at_the_second_reading_is_not_damaged(runtime: ctypes.CDLL) -> None:
    _, image = _open(runtime, sample_image(training=TRAINING, evaluation=0))
    countdown = ctypes.c_uint32.in_dll(runtime, "test_transfers_until_one_fails")
    for transfer in range(3 * SAMPLE_BATCH):
        countdown.value = transfer
        x, _ = _load(runtime, "training", image.training, image.seed, 0)
        assert countdown.value > 0xFFFF0000, "it has failed"
        order = sample_order(TRAINING, SAMPLE_BATCH, image.seed, 0)
        np.testing.assert_array_equal(x, sample_data(TRAINING)[0][order])
    assert _damaged(runtime, image.training) == []


def _statuses(runtime: ctypes.CDLL, image: Image, steps: int) -> list[int]:
    """What loading the batches of so many steps returns, up to the first that fails."""
    statuses = []
    buffer = ctypes.create_string_buffer(X_BYTES)
    for step in range(steps):
        runtime.poet_data_select_training(ctypes.byref(image.training), image.seed, step)
        status = runtime.poet_data_load_x(buffer)
        statuses.append(status or runtime.poet_data_load_y(buffer))
        if statuses[-1]:
            break
    return statuses


@pytest.mark.parametrize(("training", "most"), [(7, 0), (8, 1), (15, 1), (16, 2), (88, 11)])
def test_one_of_eight_samples_may_be_damaged(
    runtime: ctypes.CDLL, training: int, most: int
) -> None:
    for damaged in (most, most + 1):
        _, image = _open(runtime, sample_image(training=training, evaluation=0))
        for sample in range(damaged):
            _damage(runtime, image.training, sample)
        steps = 4 * (training // SAMPLE_BATCH)
        last = _statuses(runtime, image, steps)[-1]
        assert (last, len(_damaged(runtime, image.training))) == (
            OK if damaged == most else ERROR_DATA,
            most,
        )


def test_a_sample_that_is_damaged_after_its_features_were_taken_ends_the_step(
    runtime: ctypes.CDLL,
) -> None:
    _, image = _open(runtime, sample_image(training=TRAINING, evaluation=0))
    runtime.poet_data_select_training(ctypes.byref(image.training), image.seed, 0)
    buffer = ctypes.create_string_buffer(X_BYTES)
    assert runtime.poet_data_load_x(buffer) == OK
    sample = int(sample_order(TRAINING, SAMPLE_BATCH, image.seed, 0)[2])
    _damage(runtime, image.training, sample, 600)
    assert runtime.poet_data_load_y(buffer) == ERROR_DATA


ERROR_MIXED = -29


def test_a_sample_of_another_image_is_told_from_a_damaged_one(runtime: ctypes.CDLL) -> None:
    """Even if all else is of this one."""
    content = sample_image(training=TRAINING, evaluation=0)
    other = sample_image(training=TRAINING, evaluation=0, identity=0x5EED1235)
    record = (PARTITION_BLOCK + 1 + 2 * 9) * BLOCK
    content[record : record + 2 * BLOCK] = other[record : record + 2 * BLOCK]
    _, image = _open(runtime, content)
    assert _statuses(runtime, image, EPOCH)[-1] == ERROR_MIXED


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_a_record_that_was_erased_is_damaged(runtime: ctypes.CDLL, byte: int) -> None:
    content = sample_image(training=TRAINING, evaluation=0)
    record = (PARTITION_BLOCK + 1 + 2 * 9) * BLOCK
    content[record : record + 2 * BLOCK] = bytes([byte]) * 2 * BLOCK
    _, image = _open(runtime, content)
    assert _statuses(runtime, image, EPOCH) == [OK] * EPOCH
    assert _damaged(runtime, image.training) == [9]


def _load(
    runtime: ctypes.CDLL, kind: str, samples: Samples, *position: int
) -> tuple[np.ndarray, np.ndarray]:
    runtime[f"poet_data_select_{kind}"](ctypes.byref(samples), *map(ctypes.c_uint32, position))
    x = np.zeros((SAMPLE_BATCH, SAMPLE_FEATURES), np.float32)
    y = np.zeros(SAMPLE_BATCH, np.float32)
    assert runtime.poet_data_load_x(x.ctypes.data_as(ctypes.c_void_p)) == OK
    assert runtime.poet_data_load_y(y.ctypes.data_as(ctypes.c_void_p)) == OK
    return x, y


@pytest.mark.parametrize("value", [0, 9, 10, 2**32, 2**64 - 1])
def test_decimal_numbers(runtime: ctypes.CDLL, value: int) -> None:
    runtime.poet_print_decimal(ctypes.c_uint64(value))
    assert _console(runtime) == str(value)


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_signed_numbers(runtime: ctypes.CDLL, value: int) -> None:
    runtime.poet_print_signed(ctypes.c_int32(value))
    assert _console(runtime) == str(value)


@pytest.mark.parametrize("value", [0, 0x1A2B3C4D, 0xFFFFFFFF])
def test_hexadecimal_numbers(runtime: ctypes.CDLL, value: int) -> None:
    runtime.poet_print_hex(ctypes.c_uint32(value))
    assert _console(runtime) == f"{value:08x}"


def _console(runtime: ctypes.CDLL) -> str:
    return (ctypes.c_char * 256).in_dll(runtime, "test_console").value.decode()
