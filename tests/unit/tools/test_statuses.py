# SPDX-License-Identifier: Apache-2.0
"""Every status that firmware may end with is explained, here and in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poetfw.common.errors import DeviceError
from poetfw.common.resources import firmware_templates_dir
from poetfw.tools import run_firmware
from poetfw.tools.statuses import STATUSES

REPOSITORY = Path(__file__).parents[3]


def statuses_of_the_firmware() -> list[tuple[str, str]]:
    """Number and comment of each negative value of an enum, in every header."""
    headers = sorted(firmware_templates_dir().rglob("*.h"))
    row = re.compile(r"^ +POET_\w+ = (-\d+), +/\* (.*) \*/$", re.MULTILINE)
    return [match for header in headers for match in row.findall(header.read_text())]


def test_every_status_has_its_headers_words() -> None:
    statuses = statuses_of_the_firmware()
    assert len(statuses) == len(dict(statuses))  # no number twice
    assert dict(statuses) == STATUSES


def test_every_status_is_documented() -> None:
    page = (REPOSITORY / "docs/storage-and-console.md").read_text()
    rows = re.findall(r"^\| (-\d+) \| (.*?) \|$", page, re.MULTILINE)
    assert dict(rows) == STATUSES


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("-8", "status=-8 at=image: the partition table is another's"),
        ("-99", r"status=-99 at=image \(exit code 1\)"),
    ],
)
def test_an_error_says_what_its_status_means(tmp_path: Path, status: str, said: str) -> None:
    script = f"echo '@error status={status} at=image'; exit 1"
    with pytest.raises(DeviceError, match=f"the firmware stopped with an error: {said}"):
        run_firmware(["/bin/sh", "-c", script], tmp_path, 10.0, steps=1, evaluations=0)
