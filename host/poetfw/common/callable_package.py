# SPDX-License-Identifier: Apache-2.0
"""A package that can be called, where a function of the interface has the name of a package."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(package: str, function: str) -> None:
    """Have calls of a package call a function, which is imported then.

    Args:
        package: name of the package, which is being imported.
        function: name of the function, with that of its module.
    """
    module, _, name = function.rpartition(".")

    class CallablePackage(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(import_module(module), name)(*arguments, **options)

    sys.modules[package].__class__ = CallablePackage
