# SPDX-License-Identifier: Apache-2.0
"""Kept features: the same bits as without, and at every cut, fault and damage of their records."""

from __future__ import annotations

import ctypes
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from network import (
    FAULTS,
    OUTCOMES,
    STEPS_PER_EPOCH,
    TRAINING,
    Harness,
    Project,
    compile_harness,
    project,
    trained,
)

from emulator.firmware_tools import BLOCK
from poetfw.firmware import Ring, places

STEPS, EVERY = 3 * STEPS_PER_EPOCH, 2
KEPT = {"frozen": True, "keeps": True}
IN_RAM = {**KEPT, "in_ram": True}
RING = Ring(samples=14, share=2)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("kept"), "nrf52840", **KEPT)


@pytest.fixture
def made() -> Project:
    return project("nrf52840", **KEPT)


@pytest.fixture
def keeper(library: Path, made: Project) -> Harness:
    return Harness(library, made.image(STEPS, EVERY))


def records(made: Project, image: bytes, folder: Path) -> range:
    """Bytes of the storage that the kept features take."""
    path = folder / "layout.img"
    path.write_bytes(image)
    where = places(path, made.slots)
    assert made.kept is not None
    first = -(-where.samples_end // 8) * 8
    return range(first * BLOCK, (first + TRAINING * made.kept.record_blocks) * BLOCK)


def with_records(made: Project, keeper: Harness, folder: Path) -> tuple[bytearray, range]:
    """A fresh image with the records of a run that kept features, and their bytes in it."""
    image = bytearray(made.image(STEPS, EVERY))
    part = records(made, bytes(image), folder)
    image[part.start : part.stop] = keeper.storage[part.start : part.stop]
    return image, part


def losses(harness: Harness) -> list[str]:
    lines = [line.split() for line in harness.console.splitlines() if line.startswith("@step")]
    return [" ".join(words[2:] or words) for words in lines]


def test_weights_and_losses_are_those_without(
    keeper: Harness, made: Project, tmp_path: Path
) -> None:
    assert made.kept is not None
    assert made.kept.tensor == "conv1"
    other = project("nrf52840", frozen=True)
    built = compile_harness(tmp_path / "without", "nrf52840", frozen=True)
    without = Harness(built, other.image(STEPS, EVERY))
    assert losses(keeper) == losses(without)
    found, expected = (
        trained(*each, tmp_path, STEPS) for each in ((made, keeper), (other, without))
    )
    for name, value in expected.items():
        assert np.array_equal(found[name], value), name


def test_from_the_second_epoch_on_features_are_read_and_not_inputs(
    keeper: Harness, made: Project, library: Path, tmp_path: Path
) -> None:
    """A run on a storage that has them all gives the same, and writes none again."""
    image, part = with_records(made, keeper, tmp_path)
    again = Harness(library, bytes(image))
    assert losses(again) == losses(keeper)
    assert again.blocks_written <= keeper.blocks_written - TRAINING
    other = bytearray(image)
    other[part.start + 8] ^= 1  # which a CRC tells
    third = Harness(library, bytes(other))
    assert losses(third) == losses(keeper)
    assert third.blocks_written > again.blocks_written


def test_features_that_are_intact_are_those_that_a_step_uses(
    keeper: Harness, made: Project, library: Path, tmp_path: Path
) -> None:
    """Records with other values and right CRCs change the losses: they are what is read."""
    image, part = with_records(made, keeper, tmp_path)
    assert made.kept is not None
    size = made.kept.sample_bytes + made.kept.target_bytes
    for start in range(part.start, part.stop, made.kept.record_blocks * BLOCK):
        before = crc32(image[start : start + size])
        mark = int.from_bytes(image[start + size : start + size + 4], "little") ^ before
        image[start + 3] ^= 0x80  # the sign of a feature
        crc = crc32(image[start : start + size]) ^ mark
        image[start + size : start + size + 4] = crc.to_bytes(4, "little")
    assert losses(Harness(library, bytes(image))) != losses(keeper)


def test_cuts_at_every_block(keeper: Harness) -> None:
    for seeds, depth in ((1, 1), (1, 3)):
        bad, table = keeper.cuts(0, keeper.cases(seeds), seeds, depth)
        assert {outcome for *_, outcome in table} == {"same"}, (bad, seeds, depth, keeper.console)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_storage_that_fails_or_lies(keeper: Harness, fault: str) -> None:
    for for_ever in (False, True):
        found = {keeper.fault(call, fault, for_ever) for call in range(keeper.calls)}
        assert not found & set(OUTCOMES[1:]), found


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_blank_records_are_calculated(
    keeper: Harness, made: Project, library: Path, tmp_path: Path, byte: int
) -> None:
    image = bytearray(made.image(STEPS, EVERY))
    part = records(made, bytes(image), tmp_path)
    image[part.start : part.stop] = bytes([byte]) * len(part)
    assert losses(Harness(library, bytes(image))) == losses(keeper)


# In RAM, and of the device's own samples -------------------------------------------------------


@pytest.mark.parametrize("ring", [None, RING], ids=["card", "ring"])
@pytest.mark.parametrize("kept", [KEPT, IN_RAM], ids=["storage", "RAM"])
def test_features_of_all_samples_give_the_bits_of_calculating(
    kept: dict[str, bool], ring: Ring | None, tmp_path: Path
) -> None:
    made, other = (project("nrf52840", ring, **each) for each in (kept, {"frozen": True}))
    keeper, without = (
        Harness(
            compile_harness(tmp_path / each.plan_id, "nrf52840", ring, **features),
            each.image(STEPS, EVERY),
        )
        for each, features in ((made, kept), (other, {"frozen": True}))
    )
    assert losses(keeper) == losses(without)
    found, expected = (
        trained(*each, tmp_path, STEPS) for each in ((made, keeper), (other, without))
    )
    for name, value in expected.items():
        assert np.array_equal(found[name], value), name
    if kept is IN_RAM:
        assert keeper.blocks_written == without.blocks_written
        assert keeper.calls < without.calls, "inputs are not read again"


@pytest.mark.parametrize(
    ("kept", "ring"), [(IN_RAM, None), (IN_RAM, RING), (KEPT, RING)], ids=["RAM", "both", "ring"]
)
def test_cuts_of_features_in_ram_and_of_a_ring(
    kept: dict[str, bool], ring: Ring | None, tmp_path: Path
) -> None:
    made = project("nrf52840", ring, **kept)
    keeper = Harness(
        compile_harness(tmp_path, "nrf52840", ring, **kept), made.image(2 * STEPS_PER_EPOCH, EVERY)
    )
    bad, table = keeper.cuts(0, keeper.cases(1), 1, 1)
    assert {outcome for *_, outcome in table} == {"same"}, (bad, keeper.console)


class Record(ctypes.Structure):
    """A record's number, and the version of its sample."""

    _fields_ = (("number", ctypes.c_uint32), ("version", ctypes.c_uint32))


@pytest.mark.parametrize("kept", [KEPT, IN_RAM], ids=["storage", "RAM"])
def test_a_record_is_of_one_version_of_a_sample(kept: dict[str, bool], tmp_path: Path) -> None:
    """A place of the ring takes another sample, or another label: its record is stale."""
    made = project("nrf52840", RING, **kept)
    library = compile_harness(tmp_path, "nrf52840", RING, **kept)
    firmware = Harness(library, made.image(STEPS, EVERY))._library
    assert made.kept is not None
    features = ctypes.create_string_buffer(b"7" * made.kept.sample_bytes)
    target = ctypes.create_string_buffer(b"1234", made.kept.target_bytes)
    read = ctypes.create_string_buffer(made.kept.sample_bytes)
    place = TRAINING + 3
    first, second, other = Record(place, 5), Record(place, 8), Record(place + 1, 5)
    assert firmware.poet_kept_write(ctypes.byref(first), features, target) == 0
    assert firmware.poet_kept_read(ctypes.byref(first), read, target) == 0
    assert read.raw == features.raw[: len(read)]
    for record in (second, other):
        assert firmware.poet_kept_read(ctypes.byref(record), read, target) < 0
    assert firmware.poet_kept_write(ctypes.byref(second), features, target) == 0
    assert firmware.poet_kept_read(ctypes.byref(first), read, target) < 0
