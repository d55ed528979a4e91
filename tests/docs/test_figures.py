# SPDX-License-Identifier: Apache-2.0
"""The pictures and tables of the docs show what the code computes (see benchmarks/figures.py)."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import PAGES, REPOSITORY, read
from system.commands import benchmark, needs_twin
from workloads.tables import named, with_table

IMAGES = REPOSITORY / "docs/img"
NAMES = sorted(path.stem for path in IMAGES.glob("*.json"))
PICTURES = sorted(path.name for path in IMAGES.glob("*.png"))


def test_every_picture_is_on_a_page_and_every_figure_has_data() -> None:
    shown = {name for page in PAGES for name in re.findall(r"img/([\w-]+\.png)\)", read(page))}
    assert sorted(shown) == PICTURES
    known = re.findall(r"\n  NAME +(.+?)\n\n", benchmark("figures", "--help").stdout, re.DOTALL)
    assert sorted("".join(known[0].split()).split(",")) == NAMES


def test_pictures_and_tables_are_of_data_that_the_code_computes() -> None:
    """A part of the data is computed anew, to a relative difference of 1e-9."""
    benchmark("figures", "--check")


@needs_twin
@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "demo", "devices"])
def test_the_code_computes_all_of_the_recorded_data(name: str) -> None:
    benchmark("figures", "--check-all", name)


def test_other_pictures_tables_and_data_are_told(tmp_path: Path) -> None:
    for folder in ("docs", "benchmarks"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    page, image, data = (
        tmp_path / "docs" / name for name in ("memory.md", "img/memory.png", "img/demo.json")
    )
    before = data.read_text()
    image.write_bytes(named(image.read_bytes(), "f" * 64))
    page.write_text(page.read_text().replace("| + scheduled |", "| + planned |"))
    data.write_text(before.replace('"recomputes": ', '"recomputes": 1'))
    assert page.read_text() != read("docs/memory.md")
    assert data.read_text() != before
    command = [sys.executable, tmp_path / "benchmarks/figures.py", "--check", "demo"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "demo: docs/img/memory.png shows other data" in ran.stdout
    assert "demo: docs/memory.md has another table demo" in ran.stdout
    assert "demo: recorded {" in ran.stdout


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_name_their_data_and_are_still_pictures(picture: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in IMAGES.glob("*.json")]
    path = tmp_path / "named.png"
    path.write_bytes(named((IMAGES / picture).read_bytes(), "f" * 64))
    with image.open(path) as opened:
        opened.load()
        assert opened.text["Data"] in ("f" * 64, *digests)


def test_a_table_takes_the_place_of_the_one_behind_its_mark() -> None:
    page = "text\n\n<!-- figures: a -->\n| old |\n|---|\n| 1 |\n\nmore\n\n| other |\n"
    new = page.replace("old", "new")
    assert with_table(page, "a", ["| new |", "|---|", "| 1 |"]) == new
    with pytest.raises(ValueError, match="no line `<!-- figures: b -->`"):
        with_table(page, "b", [])
