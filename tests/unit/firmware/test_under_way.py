# SPDX-License-Identifier: Apache-2.0
"""Where generated code waits for transfers."""

import re

import pytest

from poetfw.firmware.under_way import UnderWay
from poetfw.memory.plan import Allocation
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings


def stay(offset: int, size_bytes: int = 64) -> Allocation:
    return Allocation("t", False, 0, 1, offset, size_bytes)


def wait(slot: str) -> str:
    return f"POET_TRY(poet_page_wait({slot}));"


HERE = stay(128)
BESIDE = [stay(64), stay(192), stay(0, 128)]
TOUCHING = [stay(128), stay(65), stay(191), stay(140, 4), stay(0, 1000)]


@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_beside_a_transfer_waits_for_nothing(arrives: bool) -> None:
    under_way = UnderWay()
    under_way.begin("A", HERE, arrives=arrives)
    assert under_way.waits(BESIDE, BESIDE) == ()
    assert under_way.end() == (wait("A"),)


@pytest.mark.parametrize("other", TOUCHING)
def test_what_touches_a_transfer(other: Allocation) -> None:
    """Nothing may be written where one is; what goes out may be read."""
    for arrives in (True, False):
        under_way = UnderWay()
        under_way.begin("A", HERE, arrives=arrives)
        assert under_way.waits([other], []) == ((wait("A"),) if arrives else ())
        assert under_way.waits([], [other]) == (() if arrives else (wait("A"),))
        assert under_way.end() == ()


def test_a_wait_is_for_all_transfers_of_a_slot_and_for_no_other() -> None:
    under_way = UnderWay()
    under_way.begin("A", stay(0), arrives=False)
    under_way.begin("B", stay(64), arrives=False)
    under_way.begin("A", stay(128), arrives=True)
    assert under_way.waits([stay(128)], []) == (wait("A"),)
    assert under_way.waits([stay(128)], [stay(0)]) == ()
    assert under_way.end() == (wait("B"),)


@pytest.mark.parametrize(("board", "overlap"), [("rpi4", True), ("linux", False)])
def test_a_board_overlaps_or_waits(board: str, overlap: bool) -> None:
    settings = BuildSettings(
        board=board, model="mlp", ram_bytes=76_000, scheduler="swap-on-demand", batch=32
    )
    files = plan_build(settings, progress=lambda text: None).project.files
    step = files["lib/poetfw/generated/train_step.c"].decode()
    calls = re.findall(r"poet_page_(\w+)\((\w+)", step)
    plan = files["lib/poetfw/generated/plan.h"].decode()
    assert ("#define POET_TRANSFERS 16u" in plan) is overlap
    assert {name for name, _ in calls} == (
        {"out_begin", "in_begin", "wait"} if overlap else {"out", "in"}
    )
    if overlap:  # nothing is under way at the end
        last = {slot: name for name, slot in calls}
        assert set(last.values()) == {"wait"}
