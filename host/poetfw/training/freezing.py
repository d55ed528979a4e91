# SPDX-License-Identifier: Apache-2.0
"""Selection of parameters by patterns of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from poetfw.common.errors import ConfigError
from poetfw.ir import Graph, Role

_NORMS = ("batch_norm", "layer_norm")
_ADDED: dict[str, tuple[int, ...]] = {
    "conv2d": (2,),
    "linear": (2,),
    "add": (0, 1),
    "add_broadcast": (0, 1),
}
"""Positions of the additive inputs (biases) of each kind of op."""

GROUPS = "'bias', 'norm' or 'last:COUNT'"
"""Names for several parameters together, unless a parameter has that name."""


def matching_parameters(
    model: Graph, patterns: Iterable[str], constants: Iterable[str] = ()
) -> frozenset[str]:
    """The parameters of a model that any pattern matches, by name.

    Args:
        model: whose parameters.
        patterns: names, or with `*`, `?` and `[...]` as in file names; or, unless one has that
            name, `bias` (vectors that an op only adds), `norm` (those of batch, layer, group and
            instance norms), or `last:COUNT` (those of the last ops that have any).
        constants: names of tensors that are no parameters, and that patterns may match, too.

    Raises:
        ConfigError: A pattern matches none, or more ops are asked for than have parameters; the
            message names what there is.
    """
    names = [tensor.name for tensor in model.with_role(Role.PARAMETER)]
    matching: set[str] = set()
    others = tuple(constants)
    for pattern in patterns:
        found = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        found = found or _group(model, names, pattern)
        if not found and not any(fnmatchcase(name, pattern) for name in others):
            raise ConfigError(
                f"no parameter of model {model.name!r} is called {pattern!r}",
                "use names or patterns of: " + ", ".join(repr(name) for name in names),
                f"or {GROUPS}",
            )
        matching |= found
    return frozenset(matching)


def input_channels(model: Graph, parameter: str) -> int | None:
    """Number of input channels of a weight; None for one that can only be trained as a whole.

    Only the weights [O, C, ...] of ungrouped convolutions and of linear layers have input channels.
    """
    readers = [op for op in model.ops if parameter in op.inputs]
    for op in readers:
        weighs = op.kind in ("conv2d", "linear") and op.inputs.index(parameter) == 1
        if not weighs or op.inputs.count(parameter) > 1 or op.attributes.get("groups", 1) != 1:
            return None
    return model.by_name[parameter].shape[1] if readers else None


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
        if int(last[1]) > len(layers):
            raise ConfigError(
                f"{pattern!r}: model {model.name!r} has {len(layers)} ops with parameters",
                f"use last:1 to last:{len(layers)}",
            )
        return known & {name for op in layers[-int(last[1]) :] for name in op.inputs}
    return set()
