# SPDX-License-Identifier: Apache-2.0
"""Tiles are chosen the same way each time, share blocks, and cover what the definition says."""

from __future__ import annotations

from collections import defaultdict

import pytest

from emulator.drawn_convolutions import drawn
from poetfw.kernels import (
    Convolution,
    ConvolutionPass,
    InnerBlock,
    Pass,
    Task,
    TiledPass,
    tiling,
    tilings,
)

SHAPES = [*drawn(25, 3)]


def test_dx_meets_what_forward_meets() -> None:
    for shape in SHAPES:
        for axis, transposed in zip(shape.axes(), shape.axes(transposed=True), strict=True):
            pairs = {(tap, at, i) for i in range(axis.results) for tap, at in axis.inside(i)}
            back = {(tap, i, at) for i in range(axis.sources) for tap, at in transposed.inside(i)}
            assert pairs == back, shape


def test_taps_are_summed_in_order() -> None:
    for shape in SHAPES:
        for axis in (*shape.axes(), *shape.axes(transposed=True)):
            for i in range(axis.results):
                taps = [tap for tap, _ in axis.met(i)]
                assert taps == sorted(taps), shape


def test_equal_names_are_equal_blocks() -> None:
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for shape in SHAPES:
        for which in Pass:
            one = tiling(ConvolutionPass(shape, which))
            for block in one.blocks if one is not None else ():
                texts[block.name].add(block.text())
    assert len(texts) > len(SHAPES)
    assert all(len(found) == 1 for found in texts.values())


def network() -> list[tuple[Task, int]]:
    """Three stages of equal layers, as a residual network has them."""
    same = (1, 1, 1, 1)
    layers = [
        Convolution(1, 8 << i, 24 >> i, 24 >> i, 8 << i, (3, 3), (1, 1), same) for i in range(3)
    ]
    layers += [Convolution(1, 8, 24, 24, 16, (3, 3), (2, 2), same)]
    return [(ConvolutionPass(layer, which), 2) for layer in layers for which in Pass]


def price(found: list[TiledPass | None], byte: float) -> float:
    """Cycles of two runs of each, and bytes at a price."""
    tiles = [one for one in found if one is not None]
    blocks: dict[InnerBlock, int] = {
        block: block.size_bytes for one in tiles for block in one.blocks
    }
    tables = sum(one.table_bytes for one in tiles)
    return 2 * sum(one.cycles for one in tiles) + byte * (sum(blocks.values()) + tables)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
def test_together_is_not_worse_than_alone(share: float) -> None:
    ops = network()
    alone = [tiling(task) for task, _ in ops]
    together = tilings(ops, share)
    byte = share * 2 * sum(one.cycles for one in alone if one is not None) / 1000
    assert price(together, byte) <= price(alone, byte)
    assert together == tilings(ops, share)


def test_flash_that_costs_more_is_less() -> None:
    sizes = []
    for share in (0.0001, 0.01, 0.3):
        found = [one for one in tilings(network(), share) if one is not None]
        sizes.append(sum({b: b.size_bytes for one in found for b in one.blocks}.values()))
    assert sizes[0] > sizes[1] > sizes[2]


def test_a_table_names_what_it_points_to() -> None:
    one = tiling(network()[-1][0])
    assert one is not None
    text = one.table("TABLE")
    assert "static const struct poet_tiles TABLE[] = {" in text
    assert all(block.name in text for block in one.blocks)


def test_nothing_fits_a_kernel_wider_than_the_registers() -> None:
    shape = Convolution(1, 1, 1, 80, 1, (1, 40), (1, 1), (0, 0, 0, 0))
    task = ConvolutionPass(shape, Pass.FORWARD)
    assert tiling(task) is None
    assert tilings([(task, 1)]) == [None]
