# SPDX-License-Identifier: Apache-2.0
"""PlatformIO platform that builds with compilers on PATH or in Python packages."""

import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from platformio.dependencies import get_core_dependencies
from platformio.exception import PlatformioException, UserSideException
from platformio.package.manager.core import get_core_package_dir
from platformio.package.manager.tool import ToolPackageManager
from platformio.package.meta import PackageSpec
from platformio.public import PlatformBase

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import find_program

SCONS = "tool-scons"
OWNER = "platformio"
PACKAGES_VARIABLE = "PLATFORMIO_PACKAGES_DIR"

START = """\
import os
import sys

try:
    import SCons.Script
except ModuleNotFoundError:
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "local"))
    import SCons.Script

if __name__ == "__main__":
    SCons.Script.main()
"""


class Missing(UserSideException):
    """A program that a build needs."""


class SystemgccPlatform(PlatformBase):
    """Embedded, so that PlatformIO asks for a board."""

    def is_embedded(self):
        """Whether environments must name a board."""
        return True

    @property
    def own_packages(self):
        """Folder of the project's own packages."""
        return os.path.join(self.config.get("platformio", "workspace_dir"), "core", "packages")

    def configure_default_packages(self, options, targets):
        """Find SCons, which PlatformIO asks for next: the user's, or else the project's."""
        if find_scons(ToolPackageManager()) is None:
            if find_scons(ToolPackageManager(self.own_packages)) is None:
                provide_scons(Path(self.own_packages))
            if find_scons(ToolPackageManager(self.own_packages)) is None:
                fetch_scons()
            else:
                os.environ[PACKAGES_VARIABLE] = self.own_packages
        return super().configure_default_packages(options, targets)

    def run(self, *arguments, **options):
        """Build; other platforms of the same `pio run` have the user's packages again."""
        toolchain = dict(self.config.items("toolchain"))
        if find_program(toolchain["cc"]) is None:
            raise Missing(
                f"the compiler {toolchain['cc']} is not installed. Install it, "
                f"{toolchain['install']}"
            )
        try:
            return super().run(*arguments, **options)
        finally:
            if os.environ.get(PACKAGES_VARIABLE) == self.own_packages:
                del os.environ[PACKAGES_VARIABLE]


def find_scons(packages):
    """The package of the version that PlatformIO wants; None where there is none."""
    requirements = get_core_dependencies()[SCONS]
    return packages.get_package(PackageSpec(owner=OWNER, name=SCONS, requirements=requirements))


def fetch_scons():
    """Have PlatformIO install its SCons, as it does for any other platform."""
    try:
        get_core_package_dir(SCONS)
    except PlatformioException as error:
        raise Missing(
            f"SCons, which PlatformIO builds with, is neither among its packages nor in this "
            f"project nor in its Python, and PlatformIO's registry cannot be reached ({error}). "
            f"Try `pip install scons`, or with an internet connection "
            f"`pio pkg install --global --tool {OWNER}/{SCONS}`, or `poetfw build` again"
        ) from error


def provide_scons(packages):
    """Make a package of the SCons that pip installed; a copy goes along for a Python without.

    PlatformIO accepts a package folder whose `.piopm` names it, its owner and a version that
    satisfies its own requirement.
    """
    spec = find_spec("SCons")
    if spec is None:
        return
    version = get_core_dependencies()[SCONS].lstrip("~^=")
    folder = packages / SCONS
    names = {"owner": OWNER, "id": None, "name": SCONS, "requirements": None, "uri": None}
    package = {"type": "tool", "name": SCONS, "version": version, "spec": names}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scons.py").write_text(START, encoding="utf-8", newline="\n")
    shutil.copytree(
        Path(spec.origin).parent,
        folder / "local/SCons",
        ignore=lambda _, names: [name for name in names if "." in name and name[-3:] != ".py"],
        dirs_exist_ok=True,
    )
    manifest = {"name": SCONS, "version": version, "system": "*"}
    (folder / "package.json").write_text(json.dumps(manifest), encoding="utf-8", newline="\n")
    (folder / ".piokeep").touch()
    (folder / ".piopm").write_text(json.dumps(package), encoding="utf-8", newline="\n")
