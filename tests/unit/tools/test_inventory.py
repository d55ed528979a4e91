# SPDX-License-Identifier: Apache-2.0
"""What `poetfw doctor` looks for."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from poetfw.cli.main import cli
from poetfw.common.errors import ToolError
from poetfw.common.resources import firmware_templates_dir, platformio_ini
from poetfw.tools import inventory, upload_firmware
from poetfw.tools.inventory import take_inventory
from poetfw.tools.uploaders import UPLOADERS, require_uploader
from sshd import needs_ssh


def test_the_chips_models_are_listed() -> None:
    found = {finding.name: finding for finding in take_inventory()}["unicorn"]
    assert found.found == importlib.metadata.version("unicorn")
    assert found.fix is None


@needs_ssh
def test_the_ssh_client_is_listed() -> None:
    found = {finding.name: finding for finding in take_inventory()}["ssh"]
    assert found.found is not None
    assert re.fullmatch(r"\d+\.\d+", found.found)


def test_a_missing_ssh_client_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    found = {finding.name: finding for finding in take_inventory()}["ssh"]
    assert (found.found, found.fix) == (None, "sudo apt-get install openssh-client")


def test_a_package_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    fixes = {finding.name: finding.fix for finding in take_inventory() if finding.found is None}
    assert fixes["unicorn"] == "pip install 'poetfw[unicorn]'"
    assert fixes["onnx"] == "pip install onnx"


def test_optional_parts_that_are_missing_do_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {"nrfjprog", "bossac", "openocd", "dfu-util", "ssh"}
    monkeypatch.setattr(
        shutil, "which", lambda name, path=None: None if name in lacking else f"/usr/bin/{name}"
    )
    monkeypatch.setattr(inventory, "run_tool", lambda *_: "version 1.2\n")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    parts = {finding.name: finding for finding in take_inventory()}
    assert {name for name, part in parts.items() if part.found is None} == lacking
    assert parts["bossac"].fix == "sudo apt-get install bossa-cli"
    result = CliRunner().invoke(cli, ["doctor", "--json"], standalone_mode=False)
    assert (json.loads(result.stdout)["ok"], result.return_value) == (True, 0)
    shown = CliRunner().invoke(cli, ["doctor"], standalone_mode=False)
    assert shown.return_value == 0
    assert "Optional parts that are missing: " in shown.stdout
    assert lacking <= {*re.findall(r"[\w-]+", shown.stdout.partition("are missing:")[2])}
    lacking |= {"arm-none-eabi-gcc", "gcc", "aarch64-linux-gnu-gcc"}
    assert CliRunner().invoke(cli, ["doctor"], standalone_mode=False).return_value == 0
    lacking |= {"zig", "clang"}
    assert CliRunner().invoke(cli, ["doctor"], standalone_mode=False).return_value == 3
    lacking -= {"zig", "clang"}
    lacking |= {"qemu-system-arm", "qemu-aarch64"}
    assert CliRunner().invoke(cli, ["doctor"], standalone_mode=False).return_value == 0
    monkeypatch.setitem(sys.modules, "unicorn", None)
    assert CliRunner().invoke(cli, ["doctor"], standalone_mode=False).return_value == 3


@pytest.mark.parametrize(
    ("environment", "program"),
    [
        ("nrf52840-system", "nrfjprog"),
        ("mkr1000-system", "bossac"),
        ("stm32f405-system", "openocd"),
        ("nrf52840", None),
        ("linux", None),
    ],
)
def test_an_upload_without_its_program_says_which_to_install(
    environment: str, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    if program is None:
        require_uploader(platformio_ini(), environment)
        return
    with pytest.raises(ToolError, match=f"{program} is not installed") as raised:
        upload_firmware(platformio_ini().parent, environment, None)
    assert "install" in raised.value.try_next[0]


def test_the_protocol_that_a_project_is_set_to_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = platformio_ini().read_text()
    own = tmp_path / "platformio.ini"
    line = "[env:stm32f405-system]\n"
    assert line in text
    own.write_text(text.replace(line, f"{line}upload_protocol = dfu\n"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match="dfu-util is not installed"):
        require_uploader(own, "stm32f405-system")


def test_every_program_that_the_platform_calls_is_known() -> None:
    builder = (firmware_templates_dir() / "platformio/systemgcc/builder/main.py").read_text()
    table = builder[builder.index("UPLOADS = {") : builder.index("\ndef find_bootloader")]
    protocols = re.findall(r'^    "([\w-]+)": \(', table, re.M)
    assert set(protocols) == set(UPLOADERS)
    for uploader in UPLOADERS.values():
        assert re.search(rf"[\"']{uploader.name} ", table), uploader
