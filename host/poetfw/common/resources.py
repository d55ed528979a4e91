# SPDX-License-Identifier: Apache-2.0
"""Paths of the files that are not Python: boards, firmware templates, platformio.ini.

In a checkout they are the folders at its top; in a wheel they travel in `poetfw/data`. A user's own
are in the system's folders for configuration and data (`platformdirs`): on Linux those of the XDG
Base Directory Specification.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platformdirs import PlatformDirs

_PACKAGE = Path(__file__).resolve().parents[1]
_PACKAGED = _PACKAGE / "data"
_CHECKOUT = _PACKAGE.parent.parent


def _root() -> Path:
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def boards_dir() -> Path:
    """The folder of `<board>.toml` files."""
    return _root() / "boards"


def cores_dir() -> Path:
    """The folder of `<core>.toml` files: what operators take on a core."""
    return boards_dir() / "cores"


def user_boards_dir() -> Path:
    """The folder of a user's own `<board>.toml` files; it may not exist."""
    return _dirs().user_config_path / "boards"


def user_data_dir() -> Path:
    """The folder of poetfw's data of a user; it may not exist."""
    return _dirs().user_data_path


def _dirs() -> PlatformDirs:
    from platformdirs import PlatformDirs

    return PlatformDirs("poetfw", appauthor=False)


def firmware_templates_dir() -> Path:
    """The folder of C sources and Jinja templates that firmware projects are made from."""
    return _root() / "firmware_templates"


def profiler_sketches_dir() -> Path:
    """Folder of the measuring firmware's sources beside the library."""
    return _root() / "profiler_sketches"


def platformio_ini() -> Path:
    """The file that holds every PlatformIO environment."""
    return _root() / "platformio.ini"
