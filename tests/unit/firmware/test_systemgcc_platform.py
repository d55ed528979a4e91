# SPDX-License-Identifier: Apache-2.0
"""A project's own PlatformIO platform: which SCons it builds with, and what it says is missing."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from platformio.exception import PlatformioException
from platformio.project.config import ProjectConfig

from poetfw.common.resources import firmware_templates_dir

FOLDER = firmware_templates_dir() / "platformio/systemgcc"
INI = """\
[toolchain]
cc = no-such-gcc
install = on Debian or Ubuntu: sudo apt-get install gcc-no-such
[env:board]
platform = symlink://./systemgcc
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The platform's code, in a project of a user without packages."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "platformio.ini").write_text(INI)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PLATFORMIO_CORE_DIR", str(tmp_path / "users"))
    monkeypatch.setenv("PLATFORMIO_PACKAGES_DIR", "")  # so that it is restored to none
    monkeypatch.delenv("PLATFORMIO_PACKAGES_DIR")
    spec = importlib.util.spec_from_file_location("systemgcc_platform", FOLDER / "platform.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def platform(module: ModuleType) -> Any:
    platform = module.SystemgccPlatform(str(FOLDER / "platform.json"))
    platform.config = ProjectConfig.get_instance(str(Path.cwd() / "platformio.ini"))
    return platform


def packages() -> Path:
    return Path.cwd() / ".pio/core/packages"


def test_the_scons_of_this_python_becomes_the_projects(module: ModuleType) -> None:
    own = platform(module)
    own.configure_default_packages({}, [])
    assert Path(os.environ["PLATFORMIO_PACKAGES_DIR"]) == packages()
    assert module.get_core_package_dir("tool-scons") == str(packages() / "tool-scons")
    assert (packages() / "tool-scons/local/SCons/Script").is_dir()
    with pytest.raises(module.Missing):
        own.run({}, [], True, False, 1)
    assert (packages() / "tool-scons").is_dir()


def test_a_project_brings_its_scons_to_a_python_without(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.provide_scons(packages())
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    platform(module).configure_default_packages({}, [])
    assert Path(os.environ["PLATFORMIO_PACKAGES_DIR"]) == packages()


def test_the_users_scons_comes_first(module: ModuleType, tmp_path: Path) -> None:
    module.provide_scons(tmp_path / "users/packages")
    platform(module).configure_default_packages({}, [])
    assert "PLATFORMIO_PACKAGES_DIR" not in os.environ
    assert not packages().exists()


def test_the_next_platform_has_the_users_packages_again(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = platform(module)
    own.configure_default_packages({}, [])
    monkeypatch.setattr(module, "find_program", lambda command: command)
    monkeypatch.setattr(module.PlatformBase, "run", lambda *arguments: {"returncode": 0})
    assert own.run({}, [], True, False, 1) == {"returncode": 0}
    assert "PLATFORMIO_PACKAGES_DIR" not in os.environ


def test_without_scons_and_registry_what_to_do_is_said(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(name: str) -> None:
        raise PlatformioException("no route to host")

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(module, "get_core_package_dir", unreachable)
    with pytest.raises(module.Missing) as caught:
        platform(module).configure_default_packages({}, [])
    assert str(caught.value) == (
        "SCons, which PlatformIO builds with, is neither among its packages nor in this project "
        "nor in its Python, and PlatformIO's registry cannot be reached (no route to host). Try "
        "`pip install scons`, or with an internet connection "
        "`pio pkg install --global --tool platformio/tool-scons`, or `poetfw build` again"
    )


def test_without_the_compiler_the_line_that_installs_it_is_said(module: ModuleType) -> None:
    with pytest.raises(module.Missing) as caught:
        platform(module).run({}, [], True, False, 1)
    assert str(caught.value) == (
        "the compiler no-such-gcc is not installed. Install it, "
        "on Debian or Ubuntu: sudo apt-get install gcc-no-such"
    )
