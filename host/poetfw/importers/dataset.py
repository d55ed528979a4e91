# SPDX-License-Identifier: Apache-2.0
"""Data sets: the built-in digits and NPZ files, checked against the model they are to train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from poetfw.errors import DataError
from poetfw.importers.digits import load_digits
from poetfw.importers.npz import read_npz
from poetfw.importers.split import split
from poetfw.ir import Dtype
from poetfw.models import Model
from poetfw.ops.base import LARGEST_INTEGER

Features = NDArray[np.float32] | NDArray[np.int32]
Targets = NDArray[np.int32] | NDArray[np.float32]

BUILT_IN: Mapping[str, Callable[[Model], tuple[Features, NDArray[np.int32]]]] = MappingProxyType(
    {"digits": load_digits}
)
"""Every built-in data set, by name."""


@dataclass(frozen=True)
class DataSet:
    """Samples that fit a model.

    Attributes:
        name: what it was asked for by.
        x_train, x_test: features, float32 [samples, *features], or int32 ids.
        y_train, y_test: int32 class numbers [samples], or float32 targets [samples, *outputs].
    """

    name: str
    x_train: Features
    y_train: Targets
    x_test: Features
    y_test: Targets


def load_data(spec: str | Path, model: Model) -> DataSet:
    """A data set for a model.

    Args:
        spec: a key of `BUILT_IN`, or the path of an `.npz` file with arrays `x`, `y` and, if it
            is split already, `x_test`, `y_test`. Unless it is, every fifth sample is held out.
        model: decides the shapes, and whether `y` holds class numbers (integers in
            [0, classes)) or, for the loss mse, targets of the shape of the model's output.

    Raises:
        DataError: there is no such data set, its file is malformed, or it does not fit the model.
    """
    text = str(spec)
    if text in BUILT_IN:
        data = _built_in(text, model)
    elif isinstance(spec, Path) or text.endswith(".npz"):
        data = _npz(Path(spec), model)
    else:
        raise DataError(
            f"no data set is called {text!r}",
            "use one of: " + ", ".join(BUILT_IN),
            "or give the path of an .npz file with arrays x and y",
        )
    if len(data.x_train) < model.batch:
        raise DataError(
            f"{text}: there are {len(data.x_train)} samples to train with, fewer than the batch "
            f"of {model.batch}",
            "give more samples, or choose a smaller batch",
        )
    return data


def _built_in(name: str, model: Model) -> DataSet:
    x, labels = BUILT_IN[name](model)
    y = _built_in_targets(name, labels, model)
    train, test = split(labels, len(labels))
    return DataSet(name, x[train], y[train], x[test], y[test])


def _npz(path: Path, model: Model) -> DataSet:
    arrays = read_npz(path, required=("x", "y"), optional=("x_test", "y_test"))
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{path}: x_test and y_test must come together, or not at all")
    # What has been converted is let go of: a data set may be as large as half of the memory.
    x = _features(path, "x", arrays.pop("x"), model)
    y = _targets(path, "y", arrays.pop("y"), len(x), model)
    if "x_test" not in arrays:
        train, test = split(y, len(x))
        return DataSet(str(path), x[train], y[train], x[test], y[test])
    x_test = _features(path, "x_test", arrays.pop("x_test"), model)
    y_test = _targets(path, "y_test", arrays.pop("y_test"), len(x_test), model)
    return DataSet(str(path), x, y, x_test, y_test)


def _built_in_targets(name: str, labels: NDArray[np.int32], model: Model) -> Targets:
    """Class numbers; for the loss mse, 1 at the class and 0 elsewhere."""
    needed = int(labels.max()) + 1
    outputs = model.output.shape[1:]
    if len(outputs) != 1 or outputs[0] < needed:
        raise DataError(
            f"data set {name!r} has {needed} classes, but model {model.name!r} gives an output "
            f"of shape {list(model.output.shape)}",
            "give your own data as an .npz file",
        )
    if model.classes is not None:
        return labels
    return np.eye(outputs[0], dtype=np.float32)[labels]


def _features(path: Path, key: str, array: NDArray[np.generic], model: Model) -> Features:
    wanted = model.input.shape[1:]
    if array.shape[1:] != wanted or array.ndim == 0:
        raise DataError(
            f"{path}: {key} has shape {list(array.shape)}, but model {model.name!r} needs "
            f"[samples, {', '.join(map(str, wanted))}]"
        )
    if model.input.dtype is Dtype.F32:
        return _floats(path, key, array)
    return _ids(path, key, array, model)


def _ids(path: Path, key: str, array: NDArray[np.generic], model: Model) -> NDArray[np.int32]:
    """Ids that each table that they are looked up in has."""
    if array.dtype.kind not in "iu":
        raise DataError(f"{path}: {key} holds {array.dtype}, but the model reads integer ids")
    if not len(array):
        raise DataError(f"{path}: {key} holds no samples")
    readers = model.graph.consumers[model.input.name]
    rows = [model.graph.by_name[op.inputs[1]].shape[0] for op in readers if op.kind == "embedding"]
    last = min(rows, default=LARGEST_INTEGER) - 1
    if int(array.min()) < 0 or int(array.max()) > last:
        raise DataError(
            f"{path}: {key} holds ids from {array.min()} to {array.max()}, but model "
            f"{model.name!r} has 0 to {last}"
        )
    return array.astype(np.int32, copy=False)


def _targets(
    path: Path, key: str, array: NDArray[np.generic], samples: int, model: Model
) -> Targets:
    wanted = (samples,) if model.classes is not None else (samples, *model.output.shape[1:])
    if array.shape != wanted:
        raise DataError(
            f"{path}: {key} has shape {list(array.shape)}, but {samples} samples and the loss "
            f"{model.loss} need {list(wanted)}"
        )
    if model.classes is None:
        return _floats(path, key, array)
    if array.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {key} holds {array.dtype}, but class numbers must be integers",
            "or train with the loss mse",
        )
    if array.size and not (0 <= int(array.min()) and int(array.max()) < model.classes):
        raise DataError(
            f"{path}: {key} holds labels from {array.min()} to {array.max()}, but model "
            f"{model.name!r} has classes 0 to {model.classes - 1}"
        )
    return array.astype(np.int32, copy=False)


def _floats(path: Path, key: str, array: NDArray[np.generic]) -> NDArray[np.float32]:
    if array.dtype.kind not in "fiu":
        raise DataError(f"{path}: {key} holds {array.dtype}, not numbers")
    if not len(array):
        raise DataError(f"{path}: {key} holds no samples")
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused below
        values = array.astype(np.float32, copy=False)
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{path}: {key} holds NaN, infinity or numbers beyond float32 in sample "
            f"{int(np.argmin(finite))}"
        )
    return values
