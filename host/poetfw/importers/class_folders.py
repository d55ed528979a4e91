# SPDX-License-Identifier: Apache-2.0
"""Folders of files with one folder per class, for image and sound data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError, listed
from poetfw.importers.samples import NUMBER_BYTES, Samples, Values, expect_room
from poetfw.ir import Dtype
from poetfw.models import Model

PARTS = ("train", "test")
"""Folders of training and test classes, in a folder that holds exactly these two."""

ReadFile = Callable[[Path], NDArray[np.float32]]


@dataclass(frozen=True)
class ClassFolders:
    """Files and classes of a folder.

    Attributes:
        path: the folder.
        classes: class names in order of class numbers, that is, sorted.
        parts: files with class numbers: of all samples, or of training and test samples.
    """

    path: Path
    classes: tuple[str, ...]
    parts: tuple[tuple[tuple[Path, int], ...], ...]

    @property
    def first(self) -> Path:
        """First file."""
        return self.parts[0][0][0]

    def read(self, model: Model, read_file: ReadFile, record: Mapping[str, Any]) -> Samples:
        """Read the features of all files.

        Raises:
            DataError: The model has fewer classes, the features are too large, or a file cannot be
                read.
        """
        if model.classes is None or model.input.dtype is not Dtype.F32:
            raise DataError(
                f"{self.path}: a folder of classes needs a model that classifies numbers, which "
                f"model {model.name!r} does not"
            )
        if len(self.classes) > model.classes:
            raise DataError(
                f"{self.path}: there are {len(self.classes)} classes "
                f"({listed([repr(name) for name in self.classes])}), but model {model.name!r} has "
                f"{model.classes}"
            )
        shape = model.input.shape[1:]
        files = sum(len(part) for part in self.parts)
        expect_room(str(self.path), files * math.prod(shape) * NUMBER_BYTES)
        arrays: list[Values] = []
        for part in self.parts:
            x = np.empty((len(part), *shape), np.float32)
            for index, (path, _) in enumerate(part):
                try:
                    x[index] = read_file(path).reshape(shape)
                except OSError as error:
                    raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
            arrays += [x, np.array([number for _, number in part], np.int32)]
        train_x, train_y, *held_out = [(array,) for array in arrays]
        x_test, y_test = held_out or (None, None)
        record = {"classes": list(self.classes), **record}
        return Samples(train_x, train_y, x_test, y_test, record=record)


def list_classes(path: Path, suffixes: Sequence[str]) -> ClassFolders:
    """List the classes in a folder, and their files. Names that begin with a dot are ignored.

    Raises:
        DataError: There are no classes, a file has another suffix, or an entry is a link, which
            might lead out of the folder.
    """
    names = _folders(path)
    if sorted(names) == sorted(PARTS):
        classes = _folders(path / PARTS[0])
        beyond = set(_folders(path / PARTS[1])) - set(classes)
        if beyond:
            raise DataError(f"{path / PARTS[1]}: class {min(beyond)!r} is not in {path / PARTS[0]}")
        parts = [_files(path / part, classes, suffixes) for part in PARTS]
    else:
        classes = names
        parts = [_files(path, classes, suffixes)]
    if not all(parts):
        raise DataError(
            f"{path}: there are no files in folders of classes, as in CLASS/FILE{suffixes[0]}"
        )
    empty = set(range(len(classes))) - {number for _, number in parts[0]}
    if empty:
        raise DataError(
            f"{path}: there is nothing to train with in the folder of class "
            f"{classes[min(empty)]!r}",
            "remove it: the folders' names, sorted, are the classes 0, 1, 2, …",
        )
    return ClassFolders(path, tuple(classes), tuple(map(tuple, parts)))


def _folders(path: Path) -> list[str]:
    return [entry.name for entry in _entries(path) if entry.is_dir()]


def _files(path: Path, classes: Sequence[str], suffixes: Sequence[str]) -> list[tuple[Path, int]]:
    found = []
    for number, name in enumerate(classes):
        if not (path / name).is_dir():  # a class without test samples
            continue
        for entry in _entries(path / name):
            if entry.suffix.lower() not in suffixes or not entry.is_file():
                raise DataError(f"{entry}: it is not a file that ends in {listed(list(suffixes))}")
            found.append((entry, number))
    return found


def _entries(path: Path) -> list[Path]:
    """Entries of a folder in order of name."""
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        for entry in entries:
            if entry.is_symlink():
                raise DataError(f"{entry}: it is a link, which is not followed: copy the files")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    return entries
