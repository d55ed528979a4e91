# SPDX-License-Identifier: Apache-2.0
"""Rated endurance of a storage: what a board file may say, and how much training it allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from poetfw.boards import load_board
from poetfw.cli.build import _endurance_row
from poetfw.common.errors import BoardError
from poetfw.firmware import BLOCK_BYTES
from poetfw.pipeline import plan_build
from poetfw.planning import Build, BuildSettings, report_build
from poetfw.report import EnduranceReport

LINUX = Path(__file__).parents[3] / "boards/linux.toml"
NRF52840 = Path(__file__).parents[3] / "boards/nrf52840.toml"
RATED = 'endurance_bytes = { value = %s, source = "data sheet" }\n[storage.page_in]\n'


def rated(folder: Path, value: str, board: Path = LINUX, table: str = "storage") -> str:
    """A board file of storage with a rated endurance."""
    text, before = board.read_text(), f"[{table}.page_in]\n"
    assert before in text
    path = folder / "rated.toml"
    path.write_text(text.replace(before, (RATED % value).replace("storage", table, 1), 1))
    return str(path)


def planned(board: str, **settings: object) -> Build:
    given = {"batch": 4, "data": "synthetic", "ram_bytes": 10**7, **settings}
    return plan_build(BuildSettings(board, "mlp", **given), lambda stage: None)


def test_the_training_that_an_endurance_allows(tmp_path: Path) -> None:
    """In RAM in plenty, only checkpoints write: every persistent tensor, and a record.

    Weights of 64 x 64, 32 x 64 and 10 x 32 floats take 33, 17 and 3 blocks with their trailers, and
    their momenta as many; three biases with momenta, the loss and the metric take one block each.
    """
    blocks = 2 * (33 + 17 + 3) + 2 * 3 + 2 + 1
    build = planned(rated(tmp_path, "1_000_000_000"), checkpoint_every=10)
    endurance = report_build(build, tmp_path).endurance
    assert endurance is not None
    assert (endurance.rated_bytes, endurance.step_bytes) == (10**9, blocks * BLOCK_BYTES / 10)
    steps = 10**9 / (blocks * 51.2)
    assert endurance.steps == int(steps) == 169_836
    assert endurance.epochs == pytest.approx(steps / (512 // 4))
    assert endurance.days == pytest.approx(steps * build.plan.training.time_s / 86_400)


def test_what_steps_write_counts(tmp_path: Path) -> None:
    """Streamed weights are written in every step, beside what checkpoints write."""
    build = planned(rated(tmp_path, "1_000_000_000"), ram_bytes=24 * 1024, work_limit=1.0)
    report = report_build(build, tmp_path)
    assert report.streaming is not None
    assert report.endurance is not None
    pages = report.schedule.page_outs
    assert report.endurance.step_bytes >= report.streaming.written_bytes > 0
    assert (report.endurance.step_bytes == report.streaming.written_bytes) == (pages == 0)
    every = report_build(replace(build, checkpoint_every=1), tmp_path).endurance
    assert every is not None
    kept = sum(t.size_bytes for t in build.program.resident)
    more = every.step_bytes - report.endurance.step_bytes
    assert kept < more < kept + (len(build.program.resident) + 1) * 2 * BLOCK_BYTES


def test_without_a_rating_or_writes_there_is_none(tmp_path: Path) -> None:
    assert report_build(planned("linux", checkpoint_every=1), tmp_path).endurance is None
    assert report_build(planned(rated(tmp_path, "1_000_000_000")), tmp_path).endurance is None


def test_the_row_of_an_endurance() -> None:
    endurance = EnduranceReport(
        rated_bytes=20 * 10**12, step_bytes=656_384.0, steps=30_469_969, epochs=609.4, days=17.23
    )
    assert _endurance_row(endurance) == (
        "rated endurance",
        "20,000,000,000,000 B written, at 656,384 a step: 30,469,969 steps, 609 epochs, or "
        "17.2 days without a pause",
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("20", "storage.endurance_bytes.value"),
        ("-1", "storage.endurance_bytes.value"),
        ("2_000_000_000_000_000_000", "storage.endurance_bytes.value"),
        ("20e12", "storage.endurance_bytes.value.*integer"),
        ('"20 TB"', "storage.endurance_bytes.value.*integer"),
    ],
)
def test_an_endurance_that_cannot_be(tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(BoardError, match=message):
        load_board(rated(tmp_path, value))


def test_a_flash_that_is_erased_has_no_total(tmp_path: Path) -> None:
    path = rated(tmp_path, "1_000_000_000", NRF52840, "other_storage")
    with pytest.raises(BoardError, match="endurance_bytes is of storage that spreads its writes"):
        load_board(path)


def test_shipped_boards_name_no_card() -> None:
    for name in ("linux", "nrf52840", "mkr1000", "stm32f405"):
        storage = load_board(name).storage
        assert storage is not None
        assert storage.endurance_bytes is None
