# SPDX-License-Identifier: Apache-2.0
"""`build --watchdog`: what the application is told, and what no watchdog can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poetfw import pipeline
from poetfw.boards import family_watchdog
from poetfw.common.errors import BoardError, ConfigError
from poetfw.costs import CostTable, OpCost, analytic_costs
from poetfw.firmware.library import HEADER
from poetfw.planning import Build, BuildSettings

SETTINGS = BuildSettings(
    board="nrf52840", model="mlp", batch=4, ram_bytes=200_000, scheduler="checkpoint-all"
)


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "draw_pictures", lambda *_: {})


def build(watchdog_s: float | None, **changes: object) -> Build:
    settings = replace(SETTINGS, watchdog_s=watchdog_s, **changes)
    return pipeline.plan_build(settings, lambda text: None)


def test_it_changes_a_line_of_the_header_and_nothing_else() -> None:
    files, plain = build(8.0004).project.files, build(None).project.files
    assert [path for path in plain if files[path] != plain[path]] == [HEADER]
    added = set(files[HEADER].decode().splitlines()) - set(plain[HEADER].decode().splitlines())
    assert added == {"#define POETFW_WATCHDOG_MS 8000u /* that the application may take unfed */"}


def test_families_that_have_one() -> None:
    assert family_watchdog("nrf52840") == family_watchdog("nrf52840_qspi") == (1, 131_072_000)
    assert family_watchdog("samd21") == (4, 127_000)
    assert family_watchdog("mps2") is family_watchdog("none") is None


@pytest.mark.parametrize("board", ["stm32f405", "linux"])
def test_a_board_without_one_is_refused(board: str) -> None:
    with pytest.raises(
        BoardError, match=f"poetfw has no driver for a watchdog of the board '{board}'"
    ):
        build(8.0, board=board)


@pytest.mark.parametrize(
    ("board", "watchdog_s", "counts"),
    [
        ("nrf52840", 0.0009, r"0\.001 to 131,072"),
        ("nrf52840", 131_072.1, r"0\.001 to 131,072"),
        ("mkr1000", 0.003, r"0\.004 to 127"),
        ("mkr1000", 128.0, r"0\.004 to 127"),
    ],
)
def test_a_time_that_the_chip_cannot_count_is_refused(
    board: str, watchdog_s: float, counts: str
) -> None:
    with pytest.raises(ConfigError, match=f"watchdog of the board '{board}' supports {counts}"):
        build(watchdog_s, board=board)


@pytest.mark.parametrize(
    ("step", "slow"), [("training", "hidden1.weight.update"), ("evaluation", "hidden2")]
)
def test_a_time_that_an_op_takes_is_refused(step: str, slow: str) -> None:
    """The same op is in both steps: it may be slow in one of them alone."""

    def costs(graph, board) -> CostTable:
        table = analytic_costs(graph, board)
        found = {op: OpCost(30.0, 1.0) for op in table.ops if op == slow and step in graph.name}
        return replace(table, ops={**table.ops, **found})

    def built(watchdog_s: float) -> Build:
        settings = replace(SETTINGS, watchdog_s=watchdog_s)
        return pipeline.plan_build(settings, lambda text: None, costs)

    message = f"--watchdog is 30 seconds, and the op '{slow}' takes 30 by the board's costs"
    with pytest.raises(ConfigError, match=message):
        built(30.0)
    assert built(30.1).project.files


def test_a_time_that_the_storage_takes_is_refused() -> None:
    """Saving writes the tensors, and reads them back."""
    with pytest.raises(ConfigError, match=r"saving the tensors to storage takes 1\.47 by"):
        build(1.4, board="nrf52840:qspi")
    assert build(1.5, board="nrf52840:qspi").project.files
