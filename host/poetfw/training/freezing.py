# SPDX-License-Identifier: Apache-2.0
"""Frozen layers: which parameters a training step leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from poetfw.errors import ConfigError
from poetfw.ir import Graph, Role


def matching_parameters(model: Graph, patterns: Iterable[str]) -> frozenset[str]:
    """The parameters of a model that any pattern matches, by name.

    Args:
        model: whose parameters.
        patterns: names, or with `*`, `?` and `[...]` as in file names.

    Raises:
        ConfigError: a pattern matches none; the message names the parameters.
    """
    names = [tensor.name for tensor in model.with_role(Role.PARAMETER)]
    matching: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        if not found:
            raise ConfigError(
                f"no parameter of model {model.name!r} is called {pattern!r}",
                "use names or patterns of: " + ", ".join(repr(name) for name in names),
            )
        matching |= found
    return frozenset(matching)
