# SPDX-License-Identifier: Apache-2.0
"""A HAL family may take files of others: they are in the project, and their variables count."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from poetfw.boards import hal, load_board, with_used
from poetfw.firmware import Project, hal_families
from poetfw.tools import static_ram_bytes


def test_what_the_stm32f405s_twin_uses_is_in_the_project() -> None:
    assert hal_families(load_board("stm32f405")) == {
        *("cortex_m", "mps2", "netduinoplus2", "stm32f405"),
    }
    assert with_used(["nrf52840", "nowhere"]) == {"nrf52840", "nowhere"}


def test_what_is_used_may_use_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for family, used in (("a", '["b"]'), ("b", '["c", "d"]'), ("c", '["a"]')):
        (tmp_path / "hal" / family).mkdir(parents=True)
        (tmp_path / "hal" / family / "hal.toml").write_text(f"uses = {used}\n")
    monkeypatch.setattr(hal, "firmware_templates_dir", lambda: tmp_path)
    hal._said.cache_clear()
    try:
        assert with_used(["a"]) == {"a", "b", "c", "d"}
        assert hal.family_transfers("a") == 0
    finally:
        hal._said.cache_clear()


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
def test_the_variables_of_what_is_used_count() -> None:
    """The twin, with what it uses, needs more than the board; what both share counts once."""
    sizes = {"runtime": 8, "hal/cortex_m": 24, "hal/stm32f405": 104, "hal/netduinoplus2": 16}
    sizes["hal/mps2"] = 1000
    project = Project(
        {f"src/{path}/a.c": f"char a[{size}];\n".encode() for path, size in sizes.items()}
    )
    assert static_ram_bytes(project, load_board("stm32f405")) == sum(sizes.values())
