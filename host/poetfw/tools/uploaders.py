# SPDX-License-Identifier: Apache-2.0
"""Programs that upload firmware to boards and that PlatformIO does not install."""

from __future__ import annotations

import configparser
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from poetfw.common.errors import ToolError
from poetfw.common.resources import firmware_templates_dir

_PLATFORM = Path("platformio/systemgcc/boards")


@dataclass(frozen=True, slots=True)
class Uploader:
    """A program that uploads firmware.

    Attributes:
        name: name of the program.
        fix: command or page that installs it.
    """

    name: str
    fix: str


UPLOADERS: Mapping[str, Uploader] = {
    "nrfjprog": Uploader(
        "nrfjprog",
        "install Nordic's nRF Command Line Tools: https://www.nordicsemi.com/Products/"
        "Development-tools/nrf-command-line-tools",
    ),
    "sam-ba": Uploader("bossac", "sudo apt-get install bossa-cli"),
    "stlink": Uploader("openocd", "sudo apt-get install openocd"),
    "dfu": Uploader("dfu-util", "sudo apt-get install dfu-util"),
}
"""Uploaders by PlatformIO `upload_protocol`; `systemgcc/builder/main.py` holds their commands."""


def uploaders_of(platformio_ini: Path, environment: str) -> list[Uploader]:
    """Uploaders of which an environment needs one; that of its chosen protocol comes first."""
    protocols = _protocols(platformio_ini, environment)
    return [UPLOADERS[name] for name in protocols if name in UPLOADERS]


def require_uploader(platformio_ini: Path, environment: str) -> None:
    """Check that the uploader of an environment is installed.

    Raises:
        ToolError: The uploader is missing.
    """
    for uploader in uploaders_of(platformio_ini, environment)[:1]:
        if shutil.which(uploader.name) is not None:
            return
        raise ToolError(
            f"{uploader.name} is not installed, which uploads the firmware of {environment}",
            uploader.fix,
            "or build with --toolchain stock: PlatformIO then brings an uploader",
        )


def _protocols(platformio_ini: Path, environment: str) -> list[str]:
    """Upload protocols of an environment: the chosen one, then the others its board knows."""
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    settings.read(platformio_ini, encoding="utf-8")
    section = f"env:{environment}"
    if not settings.get(section, "platform", fallback="").endswith("systemgcc"):
        return []
    board = settings.get(section, "board", fallback="")
    file = firmware_templates_dir() / _PLATFORM / f"{board}.json"
    if not file.is_file():
        return []
    upload = json.loads(file.read_text(encoding="utf-8")).get("upload", {})
    chosen = settings.get(section, "upload_protocol", fallback=upload.get("protocol"))
    known = [chosen, *upload.get("protocols", [])] if chosen else []
    return list(dict.fromkeys(known))
