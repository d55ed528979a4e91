# SPDX-License-Identifier: Apache-2.0
"""Published pictures and tables show what the code computes today."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from docs.pages import PAGES, REPOSITORY, read
from system.commands import needs_twin

sys.path.append(str(REPOSITORY / "benchmarks"))

from figures import FIGURES, IMAGES, data_of, digest_of, named, with_table

REMEDY = "run `python benchmarks/figures.py`, and look at what is different"


def close(recorded: object, now: object) -> bool:
    """True for equal values, numbers to a relative difference of 1e-9."""
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        return recorded.keys() == now.keys() and all(close(recorded[k], now[k]) for k in now)
    if isinstance(recorded, Sequence) and isinstance(now, Sequence) and not isinstance(now, str):
        return len(recorded) == len(now) and all(map(close, recorded, now))
    if isinstance(recorded, float) and isinstance(now, float):
        return recorded == pytest.approx(now, rel=1e-9)
    return recorded == now


def test_every_picture_is_a_figure_and_is_on_a_page() -> None:
    drawn = [picture for figure in FIGURES.values() for picture in figure.pictures]
    shown = {name for page in PAGES for name in re.findall(r"img/([\w-]+\.png)\)", read(page))}
    assert sorted(drawn) == sorted(shown) == sorted(path.name for path in IMAGES.glob("*.png"))
    assert {path.stem for path in IMAGES.glob("*.json")} == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_pictures_and_tables_are_of_the_recorded_data(name: str) -> None:
    figure = FIGURES[name]
    for picture in figure.pictures:
        assert f"Data\0{digest_of(name)}".encode() in (IMAGES / picture).read_bytes(), REMEDY
    for mark, (page, lines) in figure.tables.items():
        assert read(page) == with_table(read(page), mark, lines(data_of(name))), REMEDY


@pytest.mark.parametrize("name", FIGURES)
def test_the_code_computes_a_part_of_the_recorded_data(name: str) -> None:
    pairs = FIGURES[name].check(data_of(name))
    assert pairs
    for recorded, now in pairs:
        assert close(recorded, now), f"{name}: {recorded}, now {now}: {REMEDY}"


@needs_twin
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FIGURES if FIGURES[name].pictures])
def test_the_code_computes_all_of_the_recorded_data(name: str) -> None:
    recorded, now = data_of(name), FIGURES[name].make().data
    assert [key for key in now if not close(recorded[key], now[key])] == [], REMEDY


def test_a_picture_with_its_data_s_name_is_still_a_picture(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (name, figure), *_ = FIGURES.items()
    path = tmp_path / "named.png"
    path.write_bytes(named((IMAGES / figure.pictures[0]).read_bytes(), "f" * 64))
    with image.open(path) as picture:
        picture.load()
        assert picture.text["Data"] in ("f" * 64, digest_of(name))


def test_a_table_takes_the_place_of_the_one_behind_its_mark() -> None:
    page = "text\n\n<!-- figures: a -->\n| old |\n|---|\n| 1 |\n\nmore\n\n| other |\n"
    new = page.replace("old", "new")
    assert with_table(page, "a", ["| new |", "|---|", "| 1 |"]) == new
    with pytest.raises(ValueError, match="no line `<!-- figures: b -->`"):
        with_table(page, "b", [])
