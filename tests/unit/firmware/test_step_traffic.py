# SPDX-License-Identifier: Apache-2.0
"""Storage traffic of pages at sizes around a block and around the room beside a trailer."""

from __future__ import annotations

import pytest

from poetfw.common.transfer import page_bytes
from poetfw.firmware import BLOCK_BYTES, Slot, SlotPurpose, Traffic, captured_traffic


@pytest.mark.parametrize(
    ("size_bytes", "requests"),
    [(4, 1), (496, 1), (497, 2), (511, 2), (512, 2), (1008, 2), (1009, 3), (2400, 2)],
)
def test_a_page_is_whole_blocks_its_rest_and_a_trailer(size_bytes: int, requests: int) -> None:
    """As `slots.c` asks for them: 512 bytes are a whole block, and one of the trailer alone."""
    slot = Slot("x", SlotPurpose.CAPTURE, 0, size_bytes)
    moved = page_bytes(size_bytes, BLOCK_BYTES)
    assert captured_traffic([slot]) == Traffic(requests, 0, moved)
    assert slot.blocks == captured_traffic([slot]).blocks


def test_only_gradients_are_captured() -> None:
    slots = [Slot("x", purpose, 0, 4) for purpose in SlotPurpose]
    assert captured_traffic(slots) == Traffic(1, 0, BLOCK_BYTES)
    assert captured_traffic([]) == Traffic()
