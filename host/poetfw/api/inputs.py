# SPDX-License-Identifier: Apache-2.0
"""Networks and arrays of a Python program as the files that importers read and check."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from poetfw.common.errors import ConfigError, DataError, ModelError, PoetfwError, cut, listed
from poetfw.common.option_values import DEFAULT_BATCH
from poetfw.common.temporary import temporary_directory
from poetfw.importers.weight_files import npz_bytes

Network: TypeAlias = Any
"""A `torch.nn.Module`, a `torch.export.ExportedProgram`, or the name or path of a model."""

Samples: TypeAlias = Any
"""Arrays (x, y), a mapping of arrays by name, or the name or path of a data set."""


@contextmanager
def as_files(
    model: Network,
    data: Samples,
    weights: Mapping[str, Any] | str | os.PathLike[str] | None,
    example: Any,
    batch: int | None,
) -> Iterator[dict[str, str]]:
    """Options `model`, `data` and `weights` for files; those written here exist for the block.

    Args:
        model: network; None for the default.
        data: samples; None for the default.
        weights: initial weights by name, or a file of them; None for the network's own.
        example: input of a module, a tuple of several; None for the first samples.
        batch: samples in an example; None for the default.

    Raises:
        PoetfwError: A module or an array cannot be written. Errors of the block name the files
            without their folder.
    """
    with temporary_directory("poetfw-", ignore_cleanup_errors=True) as folder:
        try:
            options = {}
            if data is not None:
                arrays = _named(data)
                options["data"] = _path(data) if arrays is None else _npz(folder, "data", arrays)
            if model is not None:
                inputs = example if example is not None else data
                options["model"] = _model(folder, model, inputs, example is None, batch)
            if isinstance(weights, Mapping):
                options["weights"] = _npz(folder, "weights", weights)
            elif weights is not None:
                options["weights"] = _path(weights)
            yield options
        except PoetfwError as error:
            error.message = error.message.replace(f"{folder}{os.sep}", "")
            error.args = (error.message,)
            raise


def _path(value: Any) -> str:
    try:
        return str(os.fspath(value))
    except TypeError:
        raise ConfigError(
            f"{type(value).__name__} is no model and no data set",
            "give a name, a path, arrays (x, y), or a torch.nn.Module",
        ) from None


def _named(data: Samples) -> Mapping[str, Any] | None:
    """Arrays by name; None for a name or path."""
    if isinstance(data, Mapping):
        return data
    if isinstance(data, Sequence) and not isinstance(data, str):
        if len(data) != 2:
            raise ConfigError(
                f"data has {len(data)} items: (x, y) was expected",
                'give held-out samples by name: {"x": …, "y": …, "x_test": …, "y_test": …}',
            )
        return dict(zip(("x", "y"), data, strict=True))
    return None


def _array(name: str, values: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of an array, a list of numbers or a tensor, on whatever device.

    Raises:
        DataError: It does not consist of numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name}: this is not an array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: an array of numbers was expected, not of {array.dtype}")
    return array


def _npz(folder: str, name: str, arrays: Mapping[str, Any]) -> str:
    path = Path(folder, f"{name}.npz")
    path.write_bytes(npz_bytes({each: _array(each, values) for each, values in arrays.items()}))
    return str(path)


def _model(folder: str, model: Any, inputs: Any, are_samples: bool, batch: int | None) -> str:
    """Path of a network; a module or an exported program is written as a `.pt2` file."""
    torch = sys.modules.get("torch")  # who has a module has imported PyTorch
    if torch is None or not isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        return _path(model)
    path = Path(folder, f"{type(model).__name__}.pt2")
    if isinstance(model, torch.nn.Module):
        if not model.training:
            raise ModelError(
                f"{type(model).__name__} is in evaluation mode: without dropout, with fixed norms",
                "call its train() first; then, of modules that shall stay fixed, eval()",
            )
        if are_samples:
            inputs = _first_samples(model, inputs, batch or DEFAULT_BATCH)
        else:
            inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        try:
            tensors = tuple(map(torch.as_tensor, inputs))
            model = torch.export.export(model, tensors)
        except Exception as error:  # whatever PyTorch finds in the network
            said = [line for line in str(error).splitlines() if line.strip()]
            raise ModelError(
                f"torch.export cannot export {path.stem}: {type(error).__name__}: "
                f"{cut(said[0] if said else '', 300)}",
                "give an `example` input of the shape that it takes",
                said=said[1:6],
            ) from error
    torch.export.save(model, path)
    return str(path)


def _first_samples(model: Any, data: Samples, batch: int) -> list[np.ndarray[Any, Any]]:
    """Arguments of a module's `forward`, from the first samples of some arrays.

    Raises:
        ConfigError: The samples are no arrays, or lack an argument.
    """
    arrays = _named(data)
    if arrays is None:
        raise ConfigError(
            "a module needs an example input, and data are no arrays", "give `example`, a batch"
        )
    wanted = [
        name
        for name, one in inspect.signature(model.forward).parameters.items()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if not set(wanted) <= set(arrays):  # forward may call x and y as it likes
        wanted = [name for name, _ in zip(("x", "y"), wanted, strict=False)] or ["x"]
    if not set(wanted) <= set(arrays):
        raise ConfigError(
            f"forward takes {listed(wanted, ' and ')}, and data hold {listed(list(arrays))}",
            "give `example`, a tuple of its arguments",
        )
    first = [_array(name, arrays[name])[:batch] for name in wanted]
    return [part.astype(np.float32) if part.dtype == np.float64 else part for part in first]
