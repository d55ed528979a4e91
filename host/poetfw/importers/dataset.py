# SPDX-License-Identifier: Apache-2.0
"""Data sets, built in or read from files, checked against the model to train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError, listed
from poetfw.common.option_values import FEATURES
from poetfw.importers.csv_table import read_csv
from poetfw.importers.digits import load_digits
from poetfw.importers.images import read_images
from poetfw.importers.npz import read_arrays
from poetfw.importers.samples import Samples, Values
from poetfw.importers.sounds import SUFFIXES as SOUNDS
from poetfw.importers.sounds import read_sounds
from poetfw.importers.split import split
from poetfw.importers.synthetic import make_synthetic
from poetfw.ir import Dtype, Tensor, array_names
from poetfw.models import Model
from poetfw.ops.objective import OWN_LOSS

Features = NDArray[Any]
Targets = NDArray[Any]


@dataclass(frozen=True)
class DataSet:
    """Samples that fit a model.

    Attributes:
        name: name or path of the data set.
        x_train, x_test: features, float32 or int32 ids [samples, *features]; with several inputs,
            records of them (`poetfw.ir.Record`).
        y_train, y_test: class numbers, int32 [samples], or targets, float32 [samples, *outputs].
        record: settings of the features and names of classes, as JSON values.
    """

    name: str
    x_train: Features
    y_train: Targets
    x_test: Features
    y_test: Targets
    record: Mapping[str, Any] = field(default_factory=dict)


def load_data(spec: str | Path, model: Model, features: str | None = None) -> DataSet:
    """Load a data set for a model.

    If the data do not mark held-out samples, every fifth is held out.

    Args:
        spec: a key of `BUILT_IN`, or a path: an `.npz` file with arrays `x`, `y` and, if split
            already, `x_test`, `y_test`, or with the names of the model's inputs and labels if there
            are several; a folder with an `.npy` file for each of these; a `.csv` file; a folder of
            images or WAV files in one folder per class.
        model: determines the shapes, and whether `y` holds class numbers (integers in [0, classes))
            or, for the loss mse, targets of the shape of the model's output.
        features: features computed from sounds, one of `poetfw.common.option_values.FEATURES`; None
            for the first of these.

    Raises:
        DataError: The data set does not exist, is malformed or does not fit the model, or features
            are requested of data that are not sounds.
        ToolError: A package that reads the data is missing.
    """
    text = str(spec)
    samples = BUILT_IN[text](model) if text in BUILT_IN else _read(spec, model, features)
    if features is not None and "features" not in samples.record:
        raise DataError(f"{text}: there are no sounds to calculate {features} of")
    data = _data_set(text, samples, model)
    if len(data.x_train) < model.batch:
        raise DataError(
            f"{text}: there are {len(data.x_train)} samples to train with, fewer than the batch "
            f"of {model.batch}",
            "give more samples, or choose a smaller batch",
        )
    return data


def _read(spec: str | Path, model: Model, features: str | None) -> Samples:
    path = Path(spec)
    try:
        is_folder, holds_arrays = path.is_dir(), (path / "x.npy").exists()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    if is_folder:
        if holds_arrays:
            return read_arrays(path, *_names(model))
        _expect_one_array(path, model)
        if _holds_sounds(path):
            return read_sounds(path, model, features or FEATURES[0])
        return read_images(path, model)
    if path.suffix == ".csv":
        _expect_one_array(path, model)
        return read_csv(path, model)
    if isinstance(spec, Path) or path.suffix == ".npz":
        return read_arrays(path, *_names(model))
    raise DataError(
        f"no data set is called {str(spec)!r}",
        "use one of: " + ", ".join(BUILT_IN),
        "or give the path of an .npz or .csv file, or of a folder of images or sounds",
    )


def _names(model: Model) -> tuple[Sequence[str], Sequence[str]]:
    """Names of the arrays of a model's inputs, and of its labels."""
    names = array_names(model.x, model.y)
    inputs = len(model.x.members)
    return names[:inputs], names[inputs:]


def _expect_one_array(source: str | Path, model: Model) -> None:
    """Check that a model has a single input and a single label, as some formats of data require.

    Raises:
        DataError: The model has several inputs or labels.
    """
    names = array_names(model.x, model.y)
    if len(model.x.members) != 1 or len(model.y.members) != 1:
        raise DataError(
            f"{source}: it has one array of samples and one of labels, but model {model.name!r} "
            f"needs {listed(names, ' and ')}",
            f"write an NPZ file: numpy.savez(path, {', '.join(f'{n}={n}' for n in names)})",
            "or use `--data synthetic`",
        )


def _holds_sounds(path: Path) -> bool:
    """True if a folder contains WAV files at depth 2 or 3."""
    files = (file for depth in ("*/*", "*/*/*") for file in path.glob(depth))
    return any(file.suffix.lower() in SOUNDS for file in files)


def _data_set(name: str, samples: Samples, model: Model) -> DataSet:
    x, y = _part(name, "", samples.x, samples.y, model)
    if samples.x_test is None or samples.y_test is None:
        first = model.y.split(y)[0] if model.y.members else x
        train, test = split(first if samples.classes is None else samples.classes, len(x))
        return _judged(DataSet(name, x[train], y[train], x[test], y[test], samples.record), model)
    held_out = _part(name, "_test", samples.x_test, samples.y_test, model)
    return _judged(DataSet(name, x, y, *held_out, samples.record), model)


def _part(
    path: str, suffix: str, x: Sequence[Values], y: Sequence[Values], model: Model
) -> tuple[Features, Targets]:
    """Features and targets of one part of a data set, training or held-out samples.

    Raises:
        DataError: An array does not fit the model, or has another number of samples than the first.
    """
    inputs, labels = _names(model)
    first, samples = f"{inputs[0]}{suffix}", len(x[0]) if x[0].ndim else 0
    features = []
    for name, array, tensor in zip(inputs, x, model.x.members, strict=True):
        features.append(_features(path, f"{name}{suffix}", array, tensor, model))
        if len(array) != samples:
            raise DataError(
                f"{path}: {name}{suffix} has {len(array):,} samples, but {first} has {samples:,}"
            )
    targets = [
        _targets(path, f"{name}{suffix}", array, samples, tensor, model)
        for name, array, tensor in zip(labels, y, model.y.members, strict=True)
    ]
    return model.x.join(features, samples), model.y.join(targets, samples)


def _judged(data: DataSet, model: Model) -> DataSet:
    """Leave out held-out samples with the ignored label, which has no right answer."""
    ignored = model.loss_options.ignore_index
    if ignored is None or model.classes is None:
        return data
    counted = data.y_test != ignored
    if not counted.any():
        raise DataError(f"{data.name}: the label of every held-out sample is the ignored {ignored}")
    return replace(data, x_test=data.x_test[counted], y_test=data.y_test[counted])


def _digits(model: Model) -> Samples:
    """The digits with class numbers or, for the loss mse, one-hot targets."""
    _expect_one_array("data set 'digits'", model)
    x, labels = load_digits(model)
    needed = int(labels.max()) + 1
    outputs = model.output.shape[1:]
    if len(outputs) != 1 or outputs[0] < needed:
        raise DataError(
            f"data set 'digits' has {needed} classes, but model {model.name!r} gives an output "
            f"of shape {list(model.output.shape)}",
            "give your own data, or `--data synthetic`",
        )
    if model.target.dtype is Dtype.I32:
        return Samples((x,), (labels,), classes=labels)
    y = np.eye(outputs[0], dtype=np.float32)[labels]
    return Samples((x,), (y,), classes=labels)


def _synthetic(model: Model) -> Samples:
    return make_synthetic(model)


BUILT_IN: Mapping[str, Callable[[Model], Samples]] = MappingProxyType(
    {"digits": _digits, "synthetic": _synthetic}
)
"""Built-in data sets by name."""


def _features(
    path: str, key: str, array: NDArray[np.generic], tensor: Tensor, model: Model
) -> Features:
    wanted = tensor.shape[1:]
    if array.shape[1:] != wanted or array.ndim == 0:
        raise DataError(
            f"{path}: {key} has shape {list(array.shape)}, but model {model.name!r} needs "
            f"[{', '.join(map(str, ('samples', *wanted)))}]"
        )
    if tensor.dtype is Dtype.F32:
        return _floats(path, key, array)
    return _ids(path, key, array, model.ids(tensor), model)


def _ids(
    path: str, key: str, array: NDArray[np.generic], count: int, model: Model
) -> NDArray[np.int32]:
    """Check that ids exist in every embedding table that they index."""
    if array.dtype.kind not in "iu":
        raise DataError(f"{path}: {key} holds {array.dtype}, but the model reads integer ids")
    if not len(array):
        raise DataError(f"{path}: {key} holds no samples")
    last = count - 1
    if int(array.min()) < 0 or int(array.max()) > last:
        raise DataError(
            f"{path}: {key} holds ids from {array.min()} to {array.max()}, but model "
            f"{model.name!r} has 0 to {last}"
        )
    return array.astype(np.int32, copy=False)


def _targets(
    path: str,
    key: str,
    array: NDArray[np.generic],
    samples: int,
    tensor: Tensor,
    model: Model,
) -> Targets:
    wanted, own = (samples, *tensor.shape[1:]), model.loss == OWN_LOSS
    if array.shape != wanted:
        raise DataError(
            f"{path}: {key} has shape {list(array.shape)}, but {samples} samples and "
            f"{'the loss of the network' if own else f'the loss {model.loss}'} need {list(wanted)}"
        )
    if tensor.dtype is Dtype.F32:
        return _floats(path, key, array)
    if array.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {key} holds {array.dtype}, but class numbers must be integers",
            *([] if own else ["or train with the loss mse"]),
        )
    classes, ignored = model.label_classes(tensor)
    counted = array[array != ignored]
    if counted.size and classes and not (0 <= int(counted.min()) and int(counted.max()) < classes):
        raise DataError(
            f"{path}: {key} holds labels from {counted.min()} to {counted.max()}, but model "
            f"{model.name!r} has classes 0 to {classes - 1}"
        )
    return array.astype(np.int32, copy=False)


def _floats(path: str, key: str, array: NDArray[np.generic]) -> NDArray[np.float32]:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{path}: {key} holds {array.dtype}, not numbers")
    if not len(array):
        raise DataError(f"{path}: {key} holds no samples")
    with np.errstate(over="ignore"):  # an overflow gives infinity, which is refused below
        values = array.astype(np.float32, copy=False)
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{path}: {key} holds NaN, infinity or numbers beyond float32 in sample "
            f"{int(np.argmin(finite))}"
        )
    return values
