# SPDX-License-Identifier: Apache-2.0
"""No kernel takes more instructions than the kept figures say, nor leaves other bits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from system.commands import benchmark
from workloads.kernels import measuring as kernels
from workloads.kernels.cases import CASES, FAST, surveyed

needs_tools = pytest.mark.skipif(
    shutil.which("qemu-system-arm") is None or shutil.which("arm-none-eabi-gcc") is None,
    reason="needs qemu-system-arm and arm-none-eabi-gcc",
)


@needs_tools
@pytest.mark.emulator
@pytest.mark.parametrize("board", ["nrf52840", pytest.param("mkr1000", marks=pytest.mark.slow)])
def test_no_kernel_is_worse_than_its_kept_figures(board: str, tmp_path: Path) -> None:
    compiler, kept = kernels.load()
    if kernels.compiler_version(board) != compiler:
        pytest.skip(f"the kept figures are those of {compiler}")
    cases = [case for case in CASES[board] if case.name in FAST]
    now = kernels.measure(board, cases, tmp_path)
    assert set(now) <= set(kept[board])
    assert kernels.worse(kept[board], now) == []
    assert kernels.changed(kept[board], now) == []


def test_every_case_has_a_kept_figure() -> None:
    _, kept = kernels.load()
    for board, cases in CASES.items():
        assert set(kept[board]) == {case.key for case in cases}
        assert len(kept[board]) == len(cases), "two cases of one name"
    assert {case.name for cases in CASES.values() for case in cases} >= set(FAST)


def test_every_goal_is_reached_by_the_kept_figures() -> None:
    _, kept = kernels.load()
    for board, cases in CASES.items():
        assert [case.key for case in cases if kernels.misses(case, kept[board][case.key])] == []


def test_every_replaced_kernel_has_a_case() -> None:
    known = {case.key for case in (*surveyed(), *CASES["nrf52840"])}
    assert len(kernels.replaced()) > 1_700
    assert not kernels.replaced().keys() - known


def test_a_pass_is_compared_with_the_kernel_that_it_replaced() -> None:
    before = {
        "dense 3>3 x1, dX": (1000, "0"),
        "dense 3>64 x1, dX": (1000, "0"),
        "conv 3x3 1>8 8x8 stride 2 x1, dW": (400, "0"),
    }
    cycles = dict(zip(before, (1200, 300, 480), strict=True))
    now = {key: kernels.Measured(1, count, 0, "0") for key, count in cycles.items()}
    now["dense 3>64 x1, dX"] = replace(now["dense 3>64 x1, dX"], crc32="1")
    assert list(kernels.beside_replaced(before, now))[2:] == [
        "| conv 3x3 stride 2 | 1 | 1.20 | 1.20 | conv 3x3 1>8 8x8 stride 2 x1, dW |",
        "| dense dX | 2 | 0.60 | 1.20 | dense 3>3 x1, dX |",
        "slower: 1.20 dense 3>3 x1, dX",
        "other bits: dense 3>64 x1, dX",
    ]


def test_worse_means_three_percent() -> None:
    one = kernels.Measured(1000, 2000, 0, "00000000")
    kept = {"a": one, "b": one, "only kept": one}
    now = {"a": replace(one, instructions=1030), "b": replace(one, instructions=1031), "new": one}
    assert kernels.worse(kept, now) == ["b: 1,031 instructions, +3.1% of the kept 1,000"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--only depthwize", "--only 'depthwize': no such case; there is 'conv 3x3 "),
        ("--survey --only depthwize", "--only 'depthwize': no such case; there is '"),
        ("--record --only dense", "--record keeps the figures of all cases: leave out --only and"),
        ("--record --survey", "--record keeps the figures of all cases: leave out --only and"),
    ],
)
def test_flags_that_would_measure_nothing_or_lose_figures_are_refused(
    flags: str, said: str
) -> None:
    refused = benchmark("kernels", *flags.split(), code=2)
    assert said in refused.stderr
