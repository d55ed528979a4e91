# SPDX-License-Identifier: Apache-2.0
"""The power goes while a device takes samples, labels them and learns from them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from network import (
    BATCH,
    CLASSES,
    FAULTS,
    OUTCOMES,
    SIDE,
    STEPS_PER_EPOCH,
    TRAINING,
    Harness,
    compile_harness,
    project,
)

from emulator.firmware_tools import BLOCK
from poetfw.firmware import (
    Ring,
    RingRegion,
    RingSamples,
    append_samples,
    read_commit,
    read_ring,
    read_samples,
    ring_region,
    sample_order,
)
from poetfw.firmware.sample_order import permute

RING = Ring(samples=9, share=2)
STEPS, EVERY = 4, 2


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("ring"), "nrf52840", RING)


@pytest.fixture
def learner(library: Path) -> Harness:
    return Harness(library, project("nrf52840", RING).image(STEPS, EVERY))


def held(harness: Harness, folder: Path) -> tuple[Path, RingRegion, RingSamples]:
    """The storage as a file, and what is in its ring."""
    path = folder / "storage.img"
    content = harness.storage
    path.write_bytes(content)
    made = project("nrf52840", RING)
    region = ring_region(path, made.slots, made.program)
    return path, region, read_ring(region, lambda block: content[block * BLOCK :][:BLOCK])


def test_cuts_of_every_block_of_samples_labels_and_commits(learner: Harness) -> None:
    for seeds, depth in ((2, 1), (1, 3)):
        bad, table = learner.cuts(0, learner.cases(seeds), seeds, depth)
        assert {outcome for *_, outcome in table} == {"same"}, (bad, seeds, depth)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_storage_that_fails_or_lies(learner: Harness, fault: str) -> None:
    for for_ever in (False, True):
        found = {learner.fault(call, fault, for_ever) for call in range(learner.calls)}
        assert not found & set(OUTCOMES[1:]), found
        assert found - {"same"}


def test_the_host_reads_what_the_device_took(learner: Harness, tmp_path: Path) -> None:
    path, region, samples = held(learner, tmp_path)
    assert region.samples == RING.samples
    taken = 3 + STEPS
    assert len(samples.ids) == taken
    assert samples.labelled.tolist() == [True] * (1 + STEPS) + [False] * 2
    number = np.arange(taken)[:, None] * 37 + np.arange(region.x_bytes // 4) * 11
    wanted = (number % 19).astype("f4") / np.float32(19) - np.float32(0.5)
    assert (samples.x.view("<f4") == wanted).all()
    labels = samples.y.view("<i4").ravel()
    assert labels.tolist() == [*(np.arange(1 + STEPS) % CLASSES), 0, 0]
    commit = read_commit(path, project("nrf52840", RING).slots)
    assert commit.ring == samples.events == taken + 1 + STEPS


def test_the_device_goes_on_from_what_the_host_appended(
    library: Path, learner: Harness, tmp_path: Path
) -> None:
    """It does not take again what is there, and learns from it: other weights come of it."""
    image = project("nrf52840", RING).image(STEPS, EVERY)
    path = tmp_path / "fresh.img"
    path.write_bytes(image)
    made = project("nrf52840", RING)
    region = ring_region(path, made.slots, made.program)
    empty = read_ring(region, lambda block: image[block * BLOCK :][:BLOCK])
    assert (len(empty.ids), empty.events) == (0, 0)
    x = np.ones((3, region.x_bytes // 4), "<f4").view(np.uint8)
    y = np.array([[2], [1], [0]], "<i4").view(np.uint8)
    content = bytearray(image)
    blocks = append_samples(region, empty, 0, x, y, np.array([True, False, True]))
    for block, data in blocks.items():
        content[block * BLOCK : (block + 1) * BLOCK] = data
    taught = Harness(library, bytes(content))
    _, _, samples = held(taught, tmp_path)
    assert samples.ids[:3].tolist() == [1, 3, 4]
    assert (samples.x[:3] == x).all()
    assert (samples.y[[0, 2]] == y[[0, 2]]).all()
    assert len(samples.ids) == 3 + STEPS
    assert (
        taught.storage[: region.first_block * BLOCK]
        != learner.storage[: region.first_block * BLOCK]
    )


def test_a_batch_has_its_share_from_the_ring(learner: Harness, tmp_path: Path) -> None:
    """What the firmware gathers for a step, against the orders that the host knows."""
    samples = held(learner, tmp_path)[2]
    image = project("nrf52840", RING).image(STEPS, EVERY)
    path = tmp_path / "fresh.img"
    path.write_bytes(image)
    card = read_samples(path, project("nrf52840", RING).program).training
    drawn = samples.x[samples.labelled], samples.y[samples.labelled]
    seed, n = 5, len(drawn[0])
    for step in range(2 * STEPS_PER_EPOCH):
        of_card = sample_order(len(card[0]), BATCH, seed, step)[: BATCH - RING.share]
        draws = range(step * RING.share, (step + 1) * RING.share)
        of_ring = [permute(draw % n, n, ~seed & 0xFFFFFFFF, draw // n) for draw in draws]
        x, y = learner.batch(step, seed, len(card[0]))
        assert x == card[0][of_card].tobytes() + drawn[0][of_ring].tobytes()
        assert y == card[1][of_card].tobytes() + drawn[1][of_ring].tobytes()


def test_the_oldest_make_room(library: Path, learner: Harness, tmp_path: Path) -> None:
    _, region, samples = held(learner, tmp_path)
    more = 4
    x = np.zeros((more, region.x_bytes), np.uint8)
    y = np.zeros((more, region.y_bytes), np.uint8)
    content = bytearray(learner.storage)
    has_label = np.array([True, False, False, True])
    blocks = append_samples(region, samples, 40, x, y, has_label)
    for block, data in blocks.items():
        content[block * BLOCK : (block + 1) * BLOCK] = data
    now = read_ring(region, lambda block: bytes(content[block * BLOCK :][:BLOCK]))
    assert now.ids.tolist() == [*samples.ids[2:], 41, 43, 44, 45]
    assert now.events == 46
    labelled = int(now.labelled.sum())
    assert labelled == samples.labelled[2:].sum() + 2
    counts = Harness(library, bytes(content)).ring_counts()
    assert counts == (RING.samples, labelled, samples.labelled[2:].sum(), samples.ids[-2])


# An error, and what it leaves ------------------------------------------------------------------


class Application:
    """Who uses the ring, from a start on."""

    def __init__(self, library: Path, image: bytes) -> None:
        self.harness = Harness(library, image)
        self.net = (ctypes.c_uint32 * 32)()
        assert self.call("open") == self.call("load") == 0

    def call(self, name: str, *arguments: object) -> int:
        return self.harness.call(f"poetfw_{name}", self.net, *arguments)

    def append(self, number: int, label: int | None) -> int:
        x = np.full(SIDE * SIDE, number, "<f4").tobytes()
        y = None if label is None else ctypes.byref(ctypes.c_int32(label))
        return self.call("append", x, len(x), y, 4, ctypes.byref(ctypes.c_uint32()))

    def label(self, sample: int, label: int) -> int:
        return self.call("label", sample, ctypes.byref(ctypes.c_int32(label)), 4)

    @property
    def draws(self) -> tuple[object, ...]:
        """What is in the ring, and the next batches."""
        counts = (ctypes.c_uint32 * 5)()
        assert self.call("ring", counts) == 0
        return *counts, *(self.harness.batch(step, 5, TRAINING) for step in range(STEPS, 3 * STEPS))


@pytest.fixture(scope="module")
def full(library: Path) -> bytes:
    """A storage whose ring is full, with two samples that wait for a label."""
    device = Application(library, project("nrf52840", RING).image(STEPS, EVERY))
    assert [device.append(i, i % CLASSES) for i in range(3)] == [0] * 3
    assert device.call("save") == 0
    return device.harness.storage


@pytest.mark.parametrize("does", ["append", "append without a label", "label"])
@pytest.mark.parametrize(
    ("fault", "for_ever"),
    [
        ("done all the same", False),
        *(pytest.param(fault, True, marks=pytest.mark.slow) for fault in FAULTS),
        *(pytest.param(fault, False, marks=pytest.mark.slow) for fault in FAULTS[:-1]),
    ],
)
def test_what_fails_is_there_or_not_for_this_start_and_for_the_next(
    library: Path, full: bytes, does: str, fault: str, for_ever: bool
) -> None:
    """At each call of the storage: what is drawn from then on, before and after the next commit."""
    failures = 0
    for call in range(12):
        device = Application(library, full)
        waiting = device.harness.ring_counts()[3]
        assert waiting > 0
        device.harness.disturb(call, fault, for_ever)
        if does == "label":
            status = device.label(waiting, 1)
        else:
            status = device.append(7, 2 if does == "append" else None)
        failures += status < 0
        device.harness.leave_alone()
        for name in ("train", "save", "train"):
            assert device.call(name) == 0
            after = Application(library, device.harness.storage)
            assert after.draws == device.draws, (call, name, status)
            if name == "save":  # the next takes the same place
                assert after.append(8, 0) == device.append(8, 0) == 0
                assert after.draws == device.draws, (call, status)
    assert failures or fault in ("old data", "flipped bit")


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.slow) for fault in FAULTS[:-1]] + [FAULTS[-1]]
)
def test_a_commit_that_fails_counts_for_this_start_as_for_the_next(
    library: Path, full: bytes, fault: str
) -> None:
    """From the record on, whose block is the last to be written."""
    for call in range(22, 30):
        device = Application(library, full)
        assert device.append(7, 2) == 0
        device.harness.disturb(call, fault, False)
        status = device.call("save")
        device.harness.leave_alone()
        for name in ("train", "save"):
            assert device.call(name) == 0
            after = Application(library, device.harness.storage)
            assert after.draws == device.draws, (call, name, status)


@pytest.mark.parametrize(
    "fault", ["done all the same", pytest.param("time-out", marks=pytest.mark.slow)]
)
def test_what_failed_can_be_done_again(library: Path, full: bytes, fault: str) -> None:
    """In the same place, and once."""
    for call in range(8):
        device = Application(library, full)
        before = device.draws
        device.harness.disturb(call, fault, False)
        status = device.append(7, 2)
        device.harness.leave_alone()
        assert status == 0 or device.append(7, 2) == 0
        samples, labelled, _, waiting = device.draws[:4]
        assert samples == before[0] == RING.samples
        assert labelled == before[1] or waiting == before[3]
        again = Application(library, full)
        again.harness.disturb(call, fault, False)
        status = again.label(int(str(before[3])), 1)
        again.harness.leave_alone()
        assert status == 0 or again.label(int(str(before[3])), 1) == 0
        assert again.draws[1] == int(str(before[1])) + 1
