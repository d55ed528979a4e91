# SPDX-License-Identifier: Apache-2.0
"""Selections of what is trained, as `--train` takes them: patterns, shares and files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, PositiveInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from poetfw.common.errors import ConfigError
from poetfw.common.reading import first_flaw, read_bytes
from poetfw.ir import Graph, Role
from poetfw.training.freezing import input_channels, matching_parameters

_ENDING = ".json"
_EVERYTHING = "*"
AS_FILED = ("**",)
"""Selection of all parameters, and of all that a file leaves in doubt as the file has it.

For commands that train nothing.
"""
_LARGEST_FILE_BYTES = 2**24
_SHARE = re.compile(r"(?P<pattern>.+)@(?P<above>\d{1,9}(\.\d{1,9})?)(/(?P<below>[1-9]\d{0,8}))?")


@dataclass(frozen=True)
class Selection:
    """The trained parts of a model.

    Attributes:
        parameters: names of the trained parameters.
        channels: for each weight that is trained in part, how many of its first input channels.
    """

    parameters: frozenset[str]
    channels: Mapping[str, int] = field(default_factory=dict)

    def to_json(self, model: Graph) -> dict[str, Any]:
        """The selection as the file that `--train` takes."""
        train: list[dict[str, Any]] = []
        for tensor in model.with_role(Role.PARAMETER):
            if tensor.name in self.channels:
                part = {"channels": self.channels[tensor.name], "of": tensor.shape[1]}
                train.append({"parameter": tensor.name, **part})
            elif tensor.name in self.parameters:
                train.append({"parameter": tensor.name})
        return {"schema_version": 1, "model": model.name, "train": train}


@dataclass(frozen=True)
class TrainedNames:
    """Statements of `--train` and `--freeze` about tensors by name, before a graph exists.

    Groups of `matching_parameters` state nothing: they need a graph.

    Attributes:
        train: patterns of `--train`; empty if all parameters are trained.
        freeze: patterns of `--freeze`.
    """

    train: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()

    @staticmethod
    def of(train: Iterable[str], freeze: Iterable[str]) -> TrainedNames:
        """Read patterns as `select` and `matching_parameters` take them.

        Raises:
            ConfigError: A file is malformed.
        """
        patterns: list[str] = []
        for pattern in train:
            share = _SHARE.fullmatch(pattern)
            if pattern.endswith(_ENDING) and Path(pattern).is_file():
                patterns += [entry.parameter for entry in _entries(Path(pattern)).train]
            else:
                patterns.append(share["pattern"] if share else pattern)
        return TrainedNames(tuple(patterns), tuple(freeze))

    def says(self, *names: str, one_by_one: bool = False) -> bool | None:
        """True if a tensor of any of these names trains, False if it stays, None if neither.

        Args:
            names: names of the tensor.
            one_by_one: True if `*` alone, which names every tensor, is to say nothing of it.
        """
        train = [each for each in self.train if not (one_by_one and each == _EVERYTHING)]
        for patterns, trains in ((self.freeze, False), (train, True)):
            if any(name == each or fnmatchcase(name, each) for name in names for each in patterns):
                return trains
        return False if self.train and len(train) == len(self.train) else None


def select(model: Graph, patterns: Iterable[str]) -> Selection:
    """Select the trained parts of a model.

    Args:
        model: whose parameters.
        patterns: as `matching_parameters` takes them, each maybe with `@` and a share behind it,
            such as `@1/4` or `@0.25`: so many of the input channels are trained, the first ones,
            rounded up; or paths of files that end in .json, which name all that is trained. Of what
            several say of a parameter, the most holds.

    Raises:
        ConfigError: A pattern matches nothing, a share is invalid or of something that has no input
            channels, or a file is malformed or of another model.
    """
    counts: dict[str, int | None] = {}
    for pattern in patterns:
        for name, count in _read(model, pattern):
            before = counts.get(name, 0)
            counts[name] = None if count is None or before is None else max(count, before)
    parts = {name: count for name, count in counts.items() if count is not None}
    return Selection(frozenset(counts), parts)


def _read(model: Graph, pattern: str) -> Iterable[tuple[str, int | None]]:
    """The parameters that a pattern names, each with its channels; None for all of it."""
    names = {tensor.name for tensor in model.with_role(Role.PARAMETER)}
    if pattern.endswith(_ENDING) and pattern not in names:
        return _read_file(model, Path(pattern))
    share = _SHARE.fullmatch(pattern)
    if share is None or pattern in names:
        return [(name, None) for name in sorted(matching_parameters(model, (pattern,)))]
    part = Fraction(share["above"]) / int(share["below"] or 1)
    if not 0 < part <= 1:
        raise ConfigError(
            f"{pattern!r}: a share of the input channels is above 0, and 1 at most",
            "write it as NAME@1/4 or NAME@0.25",
        )
    matching = sorted(matching_parameters(model, (share["pattern"],)))
    return [(name, _checked(model, name, part)) for name in matching]


def _checked(model: Graph, name: str, part: Fraction) -> int | None:
    channels = input_channels(model, name)
    if channels is None:
        raise ConfigError(
            f"parameter {name!r} can only be trained as a whole: weights of convolutions without "
            "groups and of linear layers can be trained in part",
            f"leave out the share: {name}",
        )
    count = math.ceil(part * channels)
    return None if count == channels else count


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class _Entry:
    parameter: str
    channels: PositiveInt | None = None
    of: PositiveInt | None = None


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class _File:
    schema_version: Literal[1]
    model: str
    train: tuple[_Entry, ...]


def _entries(path: Path) -> _File:
    """Content of a file that names at least one parameter."""
    try:
        content = read_bytes(path, _LARGEST_FILE_BYTES)
        if not content.strip():
            raise ConfigError(f"{path} is empty", "write it with `poetfw plan-update`")
        file = TypeAdapter(_File).validate_json(content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(
            f"{path} does not say what is trained: {first_flaw(error)}",
            "write it with `poetfw plan-update`",
        ) from error
    if not file.train:
        raise ConfigError(f"{path} names no parameter to train")
    return file


def _read_file(model: Graph, path: Path) -> Iterable[tuple[str, int | None]]:
    file = _entries(path)
    names = {tensor.name for tensor in model.with_role(Role.PARAMETER)}
    found: list[tuple[str, int | None]] = []
    for entry in file.train:
        if (entry.channels is None) != (entry.of is None):
            given, missing = ("of", "channels") if entry.channels is None else ("channels", "of")
            raise ConfigError(
                f"{path} has {given!r} without {missing!r} for parameter {entry.parameter!r:.80}: "
                "it takes both, so many input channels of so many, or neither for all",
                "write it with `poetfw plan-update`",
            )
        known = input_channels(model, entry.parameter) if entry.parameter in names else None
        fits = entry.channels is None or (entry.of == known and entry.channels <= (known or 0))
        if entry.parameter not in names or not fits:
            part = "" if entry.channels is None else f" with {entry.of} input channels"
            raise ConfigError(
                f"{path} was written for model {file.model!r:.80}: model {model.name!r} has no "
                f"parameter {entry.parameter!r:.80}{part} of which {entry.channels or 'all'} could "
                "be trained",
                "write it anew with `poetfw plan-update`",
            )
        found.append((entry.parameter, None if entry.channels == entry.of else entry.channels))
    return found
