# SPDX-License-Identifier: Apache-2.0
"""Cards that one image was not wholly written to, over an older one; that rot; or are blank.

`dd` writes a card from its first block on. Where it writes large blocks and the card is pulled
out, any of them may have reached it.
"""

from __future__ import annotations

import ctypes
import re
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
import pytest
from network import (
    BATCH,
    CLASSES,
    HELD_OUT,
    SIDE,
    STEPS_PER_EPOCH,
    TRAINING,
    Harness,
    Project,
    compile_harness,
    project,
)

from emulator.firmware_tools import BLOCK
from poetfw.common.errors import MixedImagesError
from poetfw.firmware import (
    PARTITION_BLOCK,
    Ring,
    RunRequest,
    read_commit,
    read_committed,
    read_ring,
    ring_region,
    write_image,
)

STEPS = 2 * STEPS_PER_EPOCH
MIXED = "@error status=-29 "
NOT_FINITE, NO_SAMPLES = -137, -139
SUPERBLOCK = PARTITION_BLOCK * BLOCK


def image(made: Project, seed: int, order: int = 5, weights: float = 1.0) -> bytes:
    """An image of samples and weights of one's own."""
    rng = np.random.default_rng(seed)
    shape = made.program.x.members[0].shape[1:]
    training, held_out = (
        (rng.normal(size=(n, *shape)).astype("f4"), rng.integers(0, CLASSES, n).astype("i4"))
        for n in (TRAINING, HELD_OUT)
    )
    initial = {name: value * np.float32(weights) for name, value in made.weights.items()}
    request = RunRequest(STEPS, seed=order, checkpoint_every=1)
    places = 0 if made.ring is None else made.ring.samples
    return write_image(
        made.program, made.plan_id, made.slots, initial, training, held_out, request, 2, places
    )


class Boot:
    """What comes of a card."""

    def __init__(self, made: Project, library: Path, content: bytes, folder: Path) -> None:
        self._made, self._folder = made, folder
        self.header = b""
        self.harness = Harness(library, content, may_fail=True)
        self.lines = self.harness.console.splitlines()
        self.failed = self.harness.code != 0
        self.is_mixed = any(line.startswith(MIXED.strip()) for line in self.lines)
        self.damaged = [line.split()[1] for line in self.lines if line.startswith("@damaged")]

    @cached_property
    def weights(self) -> bytes:
        """What it committed at the end."""
        path = self._folder / "booted.img"
        path.write_bytes(self.header + self.harness.storage[len(self.header) :])
        made = self._made
        tensors = {t.name: t for t in (*made.program.training.tensors, made.program.metric)}
        values = read_committed(path, made.slots, tensors)
        return b"".join(values[name].tobytes() for name in sorted(values))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("cards"), "nrf52840")


@pytest.fixture(scope="module")
def made() -> Project:
    return project("nrf52840")


OTHERS = {
    "data": {"seed": 3},
    "seed": {"seed": 2, "order": 6},
    "build": {"seed": 2, "weights": 0.5},
}


@pytest.mark.parametrize("differ", OTHERS)
def test_what_dd_left_at_any_block_is_refused(
    made: Project, library: Path, tmp_path: Path, differ: str
) -> None:
    """Over a card that was trained. Else the card is one of them: the rest was no part of it."""
    older = Boot(made, library, image(made, **OTHERS[differ]), tmp_path)
    new = image(made, 2)
    wanted = {Boot(made, library, new, tmp_path).weights, older.weights}
    old, blocks = older.harness.storage, len(new) // BLOCK
    assert len(old) == len(new)
    refused = 0
    for cut in range(blocks + 1):
        boot = Boot(made, library, new[: cut * BLOCK] + old[cut * BLOCK :], tmp_path)
        if boot.failed:
            assert boot.is_mixed, (cut, boot.lines[-1])
            refused += 1
        else:
            assert boot.weights in wanted, cut
            assert not boot.damaged, cut
    assert refused > 0.9 * (blocks - PARTITION_BLOCK)
    for share in (0.1, 0.5, 0.8):
        cut = PARTITION_BLOCK + int(share * (blocks - PARTITION_BLOCK))
        assert Boot(made, library, new[: cut * BLOCK] + old[cut * BLOCK :], tmp_path).is_mixed


def test_no_mix_of_two_cards_is_trained_on(made: Project, library: Path, tmp_path: Path) -> None:
    """Whichever blocks came: one of the two comes of it, or it ends with an error."""
    older = Boot(made, library, image(made, 3), tmp_path)
    new, old = image(made, 2), older.harness.storage
    wanted = {Boot(made, library, new, tmp_path).weights, older.weights}
    random = Random(0)
    mixed = refused = 0
    for _ in range(300):
        share = random.random()
        mix = b"".join(
            (new if random.random() < share else old)[at : at + BLOCK]
            for at in range(0, len(new), BLOCK)
        )
        boot = Boot(made, library, mix, tmp_path)
        mixed += boot.is_mixed
        refused += boot.failed
        assert boot.failed or boot.weights in wanted
    assert mixed > 100
    assert refused > 250


def test_a_card_with_one_record_of_another_image_is_refused(
    made: Project, library: Path, tmp_path: Path
) -> None:
    new, old = image(made, 2), image(made, 3)
    for sample in range(TRAINING):
        at = SUPERBLOCK + (1 + sample) * BLOCK
        boot = Boot(made, library, new[:at] + old[at : at + BLOCK] + new[at + BLOCK :], tmp_path)
        assert boot.is_mixed, sample


def test_the_host_refuses_what_the_firmware_does(
    made: Project, library: Path, tmp_path: Path
) -> None:
    older = Boot(made, library, image(made, 3), tmp_path)
    new, old = image(made, 2), older.harness.storage
    half = len(new) // 2 // BLOCK * BLOCK
    path = tmp_path / "half.img"
    path.write_bytes(new[:half] + old[half:])
    with pytest.raises(MixedImagesError, match=r"half.img|the storage"):
        read_committed(path, made.slots, {})


# Cards that rot -------------------------------------------------------------------------------


def test_nothing_of_300_flipped_bits_is_silent(
    made: Project, library: Path, tmp_path: Path
) -> None:
    """A card in the middle of its training: the same weights, or it is said what was wrong."""
    whole = image(made, 2)
    at_end = Boot(made, library, whole, tmp_path)
    random = Random(1)
    told = 0
    for _ in range(300):
        content = bytearray(whole)
        place = random.randrange(len(content))
        content[place] ^= 1 << random.randrange(8)
        boot = Boot(made, library, bytes(content), tmp_path)
        is_told = boot.failed or bool(boot.damaged)
        told += is_told
        if place < SUPERBLOCK + BLOCK:  # the host is stricter with what says nothing there
            boot.header = whole[: SUPERBLOCK + BLOCK]
        assert is_told or boot.weights == at_end.weights, place
        if boot.damaged:
            sample = place // BLOCK - PARTITION_BLOCK - 1
            kind, number = boot.damaged[0].split("=")
            first = {"training": 0, "held_out": TRAINING}[kind]
            assert (len(boot.damaged), int(number)) == (1, sample - first)
    assert told > 10


def test_a_rotten_sample_is_named_and_training_goes_on(
    made: Project, library: Path, tmp_path: Path
) -> None:
    whole = image(made, 2)
    seen = set()
    for sample in range(TRAINING):
        content = bytearray(whole)
        content[SUPERBLOCK + (1 + sample) * BLOCK + 3] ^= 4
        boot = Boot(made, library, bytes(content), tmp_path)
        assert not boot.failed
        assert len([line for line in boot.lines if line.startswith("@step")]) == STEPS
        assert set(boot.damaged) <= {f"training={sample}"}
        seen |= set(boot.damaged)
    assert len(seen) > TRAINING - BATCH  # an epoch leaves one out
    content = bytearray(whole)
    for sample in range(TRAINING // 8 + 1):
        content[SUPERBLOCK + (1 + sample) * BLOCK + 3] ^= 4
    boot = Boot(made, library, bytes(content), tmp_path)
    assert boot.failed
    assert re.search(r"@error status=-14 at=train", boot.lines[-1])


# The ring -------------------------------------------------------------------------------------

RING = Ring(samples=9, share=2)


@pytest.fixture(scope="module")
def ring_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("ring cards"), "nrf52840", RING)


def test_a_ring_of_another_image_is_refused(ring_library: Path, tmp_path: Path) -> None:
    made = project("nrf52840", RING)
    older = Boot(made, ring_library, image(made, 3), tmp_path)
    assert not older.failed
    new, old = image(made, 2), older.harness.storage
    blocks = len(new) // BLOCK
    wanted = {Boot(made, ring_library, new, tmp_path).weights, older.weights}
    last_part = max(b for b in range(blocks) if any(old[b * BLOCK :][:BLOCK]))
    for cut in range(PARTITION_BLOCK + 1, blocks + 1):
        boot = Boot(made, ring_library, new[: cut * BLOCK] + old[cut * BLOCK :], tmp_path)
        assert boot.is_mixed if cut <= last_part else boot.weights in wanted, cut


def test_a_rotten_sample_of_the_ring_is_drawn_no_more(ring_library: Path, tmp_path: Path) -> None:
    """While the device runs as at its next start, which then takes the same batches."""
    made = project("nrf52840", RING)
    content = Boot(made, ring_library, image(made, 2), tmp_path).harness.storage
    device = Harness(ring_library, content)
    counts = device.ring_counts()
    batches = [device.batch(step, 5, TRAINING) for step in range(STEPS)]
    first = len(content) // BLOCK - RING.samples * 16
    for part in (0, 8):
        rotten = bytearray(content)
        rotten[(first + part) * BLOCK + 1] ^= 1
        running = Harness(ring_library, content)
        assert running.ring_counts() == counts
        running.replace(bytes(rotten))
        for step in range(STEPS):
            running.batch(step, 5, TRAINING)  # until one has drawn it
        now = [running.batch(step, 5, TRAINING) for step in range(STEPS)]
        assert now != batches
        assert running.ring_counts()[2] == counts[2] - 1
        restarted = Harness(ring_library, bytes(rotten))
        assert [restarted.batch(step, 5, TRAINING) for step in range(STEPS)] == now
        assert running.damaged_in_ring() == restarted.damaged_in_ring() == [0]


# Cards that the device formats itself -----------------------------------------------------------


class Device:
    """A device whose application begins by itself, and its calls."""

    def __init__(self, harness: Harness) -> None:
        self.harness, self.net = harness, (ctypes.c_uint32 * 22)()

    def do(self, call: str, *arguments: object) -> int:
        return self.harness.call(f"poetfw_{call}", self.net, *arguments)

    def append(self, number: int, value: float = 0.0) -> int:
        x = np.random.default_rng(number).normal(size=SIDE * SIDE).astype("f4")
        x[3] += np.float32(value)
        y, name = (ctypes.c_int32 * 1)(number % CLASSES), ctypes.c_uint32()
        given = (ctypes.c_void_p(x.ctypes.data), x.nbytes, y, 4, ctypes.byref(name))
        return self.do("append", *given)

    @property
    def loss(self) -> bytes:
        metrics = (ctypes.c_uint32 * 10)()
        assert self.do("metrics", metrics) == 0
        return bytes(metrics)[4:8]


def test_all_of_a_batch_comes_from_the_ring_where_the_card_has_none(
    ring_library: Path, tmp_path: Path
) -> None:
    """And goes on after a cut as it would have gone on, though a new start knows no more of it."""
    made = project("nrf52840", RING)
    content = image(made, 2)
    device = Device(Harness(ring_library, content))
    assert device.do("open") == device.do("load") == 0
    device.harness.replace(bytes(len(content)))
    assert device.do("format", 3, 2) == 0
    assert device.do("train") == NO_SAMPLES
    assert [device.append(number) for number in range(BATCH + 1)] == [0] * (BATCH + 1)
    assert device.append(7, np.nan) == device.append(8, np.inf) == NOT_FINITE
    assert device.do("train") == NO_SAMPLES  # none that the last commit knew
    assert device.do("save") == device.do("train") == device.do("save") == 0
    again = Device(Harness(ring_library, content))
    again.harness.replace(device.harness.storage)
    assert again.do("open") == again.do("load") == 0
    for _ in range(3):
        assert device.do("train") == again.do("train") == 0
        assert device.loss == again.loss
    path = tmp_path / "card.img"
    path.write_bytes(device.harness.storage)
    assert read_commit(path, made.slots).step == STEPS + 1  # what was loaded stays
    content = path.read_bytes()
    region = ring_region(path, made.slots, made.program)
    samples = read_ring(region, lambda block: content[block * BLOCK :][:BLOCK])
    assert len(samples.ids) == BATCH + 1
