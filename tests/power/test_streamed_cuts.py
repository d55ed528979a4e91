# SPDX-License-Identifier: Apache-2.0
"""The power goes, and the storage fails, while streamed weights are written in every step.

A set is being written all the time, not only during commits. So there are three, and the host
writes the first commit twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from network import FAULTS, STEPS_PER_EPOCH, Harness, compile_harness, project, trained
from test_power_cuts import check, outcomes

from emulator.firmware_tools import BLOCK
from poetfw.firmware import places

BOARD = "nrf52840"
SETS = 3
STEPS = STEPS_PER_EPOCH + 1


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("streamed"), BOARD, streamed=True)


def run(library: Path, every: int, steps: int = STEPS) -> Harness:
    """Training with a commit after every so many steps."""
    return Harness(library, project(BOARD, streamed=True).image(steps, every, SETS))


def test_streamed_weights_have_the_bits_of_weights_in_ram(
    library: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    both = []
    for streamed in (True, False):
        made = project(BOARD, streamed=streamed)
        if not streamed:
            library = compile_harness(tmp_path_factory.mktemp("resident"), BOARD)
        harness = Harness(library, made.image(STEPS, 2, SETS))
        both.append(trained(made, harness, tmp_path, STEPS))
    ours, theirs = both
    streamed = set(project(BOARD, streamed=True).program.streamed)
    assert streamed >= {"conv1.weight", "conv1.weight.momentum", "logits.weight", "bn1.running"}
    assert streamed >= {"bn1.affine", "bn1.affine.momentum", "logits.bias"}
    assert ours.keys() == theirs.keys()
    assert all(ours[name].any() for name in ("conv1.weight", "logits.weight.momentum"))
    for name, value in ours.items():
        assert value.tobytes() == theirs[name].tobytes(), name


@pytest.mark.parametrize(("every", "depth"), [(1, 1), (2, 3), (0, 2)])
def test_power_cuts_at_each_write(library: Path, every: int, depth: int) -> None:
    harness = run(library, every)
    check(harness, harness.cases(1), 1, depth)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_storage_that_fails_or_lies_while_it_is_trained_in(library: Path, fault: str) -> None:
    harness = run(library, 2, steps=2)
    for for_ever in (False, True):
        outcomes(harness, fault, for_ever)


def test_a_card_whose_last_commit_is_damaged_boots_from_the_one_before(
    library: Path, tmp_path: Path
) -> None:
    """Even when the power has gone while the set of the oldest one was being written."""
    made = project(BOARD, streamed=True)
    image = made.image(STEPS, 1, SETS)
    path = tmp_path / "card.img"
    path.write_bytes(image)
    where = places(path, made.slots)
    damaged = bytearray(image)
    damaged[where.set_blocks[0] * BLOCK] ^= 1  # the first commit; its copy is in the last set
    next_set = slice(where.set_blocks[1] * BLOCK, where.record_blocks[1] * BLOCK)
    damaged[next_set] = bytes(b ^ 0x5A for b in damaged[next_set])
    whole, harness = Harness(library, image), Harness(library, bytes(damaged))
    losses = [
        [line.split()[:3] for line in each.console.splitlines() if line.startswith("@step")]
        for each in (whole, harness)
    ]
    assert losses[0] == losses[1]
