# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import DeviceError
from poetfw.firmware import (
    RunRequest,
    SlotPurpose,
    assign_slots,
    image_blocks,
    read_request,
    read_samples,
    read_slots,
    set_request,
    write_image,
)
from poetfw.models import build_model
from poetfw.training import Program, make_program

BATCH = 4
START = 8 * 512
"""Of the partition."""


@pytest.fixture(scope="module")
def program() -> Program:
    model = build_model("mlp", BATCH, 0)
    return make_program(model.graph, model.loss, model.optimizer)


@pytest.fixture
def image(tmp_path: Path, program: Program) -> Path:
    random = np.random.default_rng(0)
    features = program.x.members[0].shape[1:]
    samples = [
        (random.normal(size=(n, *features)).astype(np.float32), np.arange(n, dtype=np.int32) % 10)
        for n in (9, 8)
    ]
    weights = build_model("mlp", BATCH, 0).weights
    path = tmp_path / "storage.img"
    request = RunRequest(steps=7, seed=3)
    path.write_bytes(
        write_image(program, "1a2b3c4d", assign_slots(program, ()), weights, *samples, request)
    )
    return path


def test_what_is_written_is_read(program: Program, image: Path) -> None:
    random = np.random.default_rng(0)
    samples = read_samples(image, program)
    expected = random.normal(size=(9, *program.x.members[0].shape[1:])).astype(np.float32)
    np.testing.assert_array_equal(samples.training[0], expected)
    np.testing.assert_array_equal(samples.held_out[1], np.arange(8))
    slots = assign_slots(program, ())
    tensors = {tensor.name: tensor for tensor in program.persistent}
    values = read_slots(image, [s for s in slots if s.tensor in tensors], tensors)
    for name, value in build_model("mlp", BATCH, 0).weights.items():
        np.testing.assert_array_equal(values[name, SlotPurpose.PERSISTENT], value)


def test_request_can_be_changed_in_place(image: Path) -> None:
    before = image.read_bytes()
    assert read_request(image) == RunRequest(steps=7, seed=3)
    set_request(image, RunRequest(steps=2, seed=9, capture=True, evaluate=False))
    assert read_request(image) == RunRequest(steps=2, seed=9, capture=True, evaluate=False)
    after = image.read_bytes()
    assert after[:START] == before[:START]
    assert after[START + 512 :] == before[START + 512 :]


def test_what_a_computer_wrote_before_the_partition_does_not_matter(image: Path) -> None:
    """Windows writes a number of its own into the table's block."""
    content = image.read_bytes()
    image.write_bytes(b"\xff" * 446 + content[446:512] + b"\xff" * (START - 512) + content[START:])
    assert read_request(image) == RunRequest(steps=7, seed=3)
    assert image_blocks(image) == len(content) // 512


@pytest.mark.parametrize(
    "position", [*range(446, 512), *(START + i for i in (0, 9, 13, 30, 66, 70, 74, 78, 82))]
)
def test_damaged_first_blocks_are_refused(image: Path, position: int) -> None:
    content = bytearray(image.read_bytes())
    content[position] ^= 0x10
    image.write_bytes(content)
    with pytest.raises(DeviceError, match="not a storage image of poetfw"):
        read_request(image)


def test_damaged_slot_is_refused(program: Program, image: Path) -> None:
    content = bytearray(image.read_bytes())
    crc = content.index(b"SLOT") + 12
    content[crc] ^= 1
    image.write_bytes(content)
    tensors = {tensor.name: tensor for tensor in program.persistent}
    slots = [s for s in assign_slots(program, ()) if s.purpose is SlotPurpose.PERSISTENT]
    with pytest.raises(DeviceError, match="no commit that is whole"):
        read_slots(image, slots, tensors)
