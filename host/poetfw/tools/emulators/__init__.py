# SPDX-License-Identifier: Apache-2.0
"""Emulators, one file each. Importing the package registers all of them."""

from importlib import import_module
from pkgutil import iter_modules

from poetfw.tools.emulators.base import EMULATORS, Emulator, default_twin, emulator_of

__all__ = ["EMULATORS", "Emulator", "default_twin", "emulator_of"]

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
