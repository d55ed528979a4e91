# SPDX-License-Identifier: Apache-2.0
"""Which parameters a training step leaves as they are, or treats in another way, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from poetfw.errors import ConfigError
from poetfw.ir import Graph, Role

_NORMS = ("batch_norm", "layer_norm")
_ADDED: dict[str, tuple[int, ...]] = {
    "conv2d": (2,),
    "linear": (2,),
    "add": (0, 1),
    "add_broadcast": (0, 1),
}
"""Ops that add one of their inputs to a result, and at which positions."""

GROUPS = "'bias', 'norm' or 'last:COUNT'"
"""What parameters may be called together, unless one of them has that name."""


def matching_parameters(model: Graph, patterns: Iterable[str]) -> frozenset[str]:
    """The parameters of a model that any pattern matches, by name.

    Args:
        model: whose parameters.
        patterns: names, or with `*`, `?` and `[...]` as in file names; or, for who has no such
            name, `bias` (vectors that an op only adds), `norm` (those of batch, layer, group and
            instance norms), or `last:COUNT` (those of the last ops that have any).

    Raises:
        ConfigError: a pattern matches none; the message names the parameters.
    """
    names = [tensor.name for tensor in model.with_role(Role.PARAMETER)]
    matching: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        found = found or _group(model, names, pattern)
        if not found:
            raise ConfigError(
                f"no parameter of model {model.name!r} is called {pattern!r}",
                "use names or patterns of: " + ", ".join(repr(name) for name in names),
                f"or {GROUPS}",
            )
        matching |= found
    return frozenset(matching)


def other_parameters(model: Graph, patterns: Iterable[str]) -> frozenset[str]:
    """The parameters of a model that no pattern matches; see `matching_parameters`."""
    names = frozenset(tensor.name for tensor in model.with_role(Role.PARAMETER))
    return names - matching_parameters(model, patterns)


def _group(model: Graph, names: Iterable[str], pattern: str) -> set[str]:
    known = set(names)
    if pattern == "bias":
        added = {
            op.inputs[position]
            for op in model.ops
            for position in _ADDED.get(op.kind, ())
            if position < len(op.inputs)
        }
        return {name for name in known & added if sum(e > 1 for e in model.by_name[name].shape) < 2}
    if pattern == "norm":
        return known & {name for op in model.ops if op.kind in _NORMS for name in op.inputs}
    if (last := re.fullmatch(r"last:([1-9]\d{0,8})", pattern)) is not None:
        layers = [op for op in model.ops if not known.isdisjoint(op.inputs)]
        return known & {name for op in layers[-int(last[1]) :] for name in op.inputs}
    return set()
