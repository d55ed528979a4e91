# SPDX-License-Identifier: Apache-2.0
"""What a build would train can be measured: the same options make the same ops."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poetfw.boards import load_board
from poetfw.cli.main import cli
from poetfw.common.errors import DeviceError, OutputError, PortError
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.profiling import ProfileSettings, cases_of


def test_a_profile_is_of_what_a_build_with_the_same_options_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[ProfileSettings] = []

    def measured(settings: ProfileSettings, *others: Any) -> None:
        seen.append(settings)
        raise DeviceError("enough")

    monkeypatch.setattr("poetfw.profiling.profile", measured)
    command = "profile --board nrf52840 --model mlp --emulator qemu --batch 4 --micro-batch 2"
    command += (
        " --optimizer adam --betas 0.8,0.99 --schedule cosine:9 --clip-value 1 --train last:2"
    )
    with pytest.raises(DeviceError, match="enough"):
        cli(command.split(), standalone_mode=False)
    wanted = BuildSettings(
        "nrf52840",
        model="mlp",
        batch=4,
        micro_batch=2,
        optimizer="adam",
        optimizer_settings=(("betas", (0.8, 0.99)),),
        schedule="cosine:9",
        clip_value=1.0,
        train=("last:2",),
    )
    (settings,) = seen
    programs = [derive_program(some, load_model(some)) for some in (settings.build, wanted)]
    cases = [cases_of(program.training, load_board("nrf52840")) for program in programs]
    assert cases[0] == cases[1]
    assert "linear_backward_weight_adam" in {case.kind for case in cases[0]}


def test_a_profile_in_which_nothing_was_measured_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = SimpleNamespace(board="nrf52840", machine="mps2")
    found = SimpleNamespace(setup=setup, measured=(), fresh=0, left_out=(), metering=None)
    monkeypatch.setattr("poetfw.profiling.profile", lambda *_: found)
    cli(["profile", "--board", "nrf52840", "--emulator", "qemu"], standalone_mode=False)
    assert "nrf52840 on its twin mps2: 0 were known, 0 to measure" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["file/report", "file"])
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setattr("poetfw.profiling.profile", None)
    (tmp_path / "file").touch()
    command = ["profile", "--board", "nrf52840", "--emulator", "qemu"]
    with pytest.raises(OutputError, match=f"folder {tmp_path / place}: Not a directory"):
        cli([*command, "--report", str(tmp_path / place)], standalone_mode=False)


def test_without_a_board_a_twin_is_what_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poetfw.tools.link.port.usb_ports", list)
    with pytest.raises(PortError, match="no serial port") as error:
        cli(["profile", "--board", "nrf52840"], standalone_mode=False)
    assert error.value.try_next[-1] == (
        "or measure on a twin with --emulator qemu or --emulator mps2 or --emulator unicorn"
    )
