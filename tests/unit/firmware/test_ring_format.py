# SPDX-License-Identifier: Apache-2.0
"""The ring in storage as the host reads it: bytes of it are nobody's word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import poetfw
from poetfw.common.errors import ConfigError
from poetfw.firmware import RingRegion, append_samples, read_ring
from poetfw.firmware.ring import _sealed
from poetfw.planning.choices import make_ring
from poetfw.runs.execution import open_project
from poetfw.runs.ring_files import pull_from_image, push_to_image
from poetfw.settings import BuildSettings

IDENTITY = 0x1A2B3C4D
REGION = RingRegion(0, 2, 8, 4, IDENTITY)
NOTHING = bytes(512)


def held(blocks: dict[int, bytes]):
    return read_ring(REGION, lambda block: blocks.get(block, NOTHING))


def test_a_count_of_events_that_never_was_is_not_the_rings() -> None:
    blocks = {REGION.x_blocks(0).start: _sealed(b"features", IDENTITY, 1, 1)}
    assert held(blocks).ids.tolist() == [1]
    blocks[REGION.x_blocks(1).start] = _sealed(b"features", IDENTITY, 2, 0xFFFFFFFF)
    samples = held(blocks)
    assert (samples.ids.tolist(), samples.events) == ([1], 1)
    one = np.zeros((1, 8), np.uint8), np.zeros((1, 4), np.uint8), np.array([True])
    assert held(dict(append_samples(REGION, samples, 0, *one)) | blocks).events == 3


@pytest.mark.parametrize(("batch", "share"), [(16, 8), (3, 1), (2, 1)])
def test_half_of_a_training_step_is_the_rings(batch: int, share: int) -> None:
    ring = make_ring(BuildSettings("linux", ring=8), batch)
    assert ring is not None
    assert ring.share == share


def test_all_of_a_step_is_the_rings_only_when_asked_for() -> None:
    with pytest.raises(ConfigError, match="one sample"):
        make_ring(BuildSettings("linux", ring=8), 1)
    ring = make_ring(BuildSettings("linux", ring=8, ring_share=1), 1)
    assert ring is not None
    assert ring.share == 1
    with pytest.raises(ConfigError, match="a training step has 4 samples"):
        make_ring(BuildSettings("linux", ring=8, ring_share=5), 4)


def test_samples_pushed_into_an_image_are_pulled_from_it(tmp_path: Path) -> None:
    plan = poetfw.plan("mlp", board="linux", ram=200_000, scheduler="checkpoint-all", ring=4)
    project = open_project(plan.compile(tmp_path / "build").folder)
    x = np.arange(3 * 64, dtype="f4").reshape(3, 64) / 192
    np.savez(tmp_path / "own.npz", x=x, y=[1, 2, 3], labelled=[True, False, True])
    assert push_to_image(project, project.image, tmp_path / "own.npz") == 3
    assert pull_from_image(project, project.image, tmp_path / "all.npz") == 3
    held = np.load(tmp_path / "all.npz")
    np.testing.assert_array_equal(held["x"], x)
    assert held["y"][held["labelled"]].tolist() == [1, 3]
