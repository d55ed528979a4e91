# SPDX-License-Identifier: Apache-2.0
"""Initial weights: given arrays, or random weights that are drawn when first read.

A network that is only scheduled never needs its weights; drawing those of a large one takes seconds
and hundreds of megabytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Weights = Mapping[str, NDArray[np.float32]]
"""Values of persistent tensors, by name."""


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A tensor of the author's state dict, and its location in a tensor of the graph.

    Attributes:
        name: name in the author's network.
        tensor: name of the graph's persistent tensor that holds it.
        shape: shape in the author's network.
        first: flat index of its first element in the graph's tensor.
        transposed: True if the graph's tensor holds the transposed matrix.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    first: int = 0
    transposed: bool = False

    def of(self, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
        """Extract the author's tensor, in its own shape, from the graph's tensor."""
        if self.transposed:
            tensor = tensor.T
        return tensor.reshape(-1)[self.first :][: math.prod(self.shape)].reshape(self.shape)

    def put(self, tensor: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Write values of the author's shape into the graph's tensor, which must be contiguous."""
        if self.transposed:
            tensor.T[...] = values
        else:
            tensor.reshape(-1)[self.first :][: values.size] = values.reshape(-1)


@dataclass(frozen=True, slots=True)
class Initializer:
    """Distribution of a tensor's initial values.

    Attributes:
        shape: shape of the tensor.
        draw: function that draws finite float32 values from a random generator.
    """

    shape: tuple[int, ...]
    draw: Callable[[np.random.Generator], NDArray[np.float32]]


def normal(shape: tuple[int, ...], std: float) -> Initializer:
    """Normal distribution with mean 0, rounded to float32."""
    return Initializer(shape, lambda random: random.normal(0.0, std, shape).astype(np.float32))


def he_normal(shape: tuple[int, ...]) -> Initializer:
    """Normal distribution with variance 2 / fan_in (He, Zhang, Ren, Sun, ICCV 2015, eq. 10)."""
    return normal(shape, math.sqrt(2 / math.prod(shape[1:])))


def rows(length: int, *values: float) -> Initializer:
    """Constant rows, [len(values), length]: row i is filled with values[i]."""
    column = np.array(values, np.float32)[:, np.newaxis]
    return Initializer((len(values), length), lambda random: np.repeat(column, length, axis=1))


def zeros(*shape: int) -> Initializer:
    """Zeros."""
    return Initializer(shape, lambda random: np.zeros(shape, np.float32))


class DrawnWeights(Weights):
    """Random weights, all drawn when the first of them is read.

    They come from NumPy's PCG64 in the initializers' order: the same seed gives the same bits,
    whichever tensor is read first.
    """

    def __init__(self, initializers: Mapping[str, Initializer], seed: int) -> None:
        self._initializers = dict(initializers)
        self._seed = seed

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the tensors by name, without drawing."""
        return {name: initializer.shape for name, initializer in self._initializers.items()}

    @cached_property
    def _values(self) -> dict[str, NDArray[np.float32]]:
        random = np.random.Generator(np.random.PCG64(self._seed))
        return {name: each.draw(random) for name, each in self._initializers.items()}

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._initializers

    def __iter__(self) -> Iterator[str]:
        return iter(self._initializers)

    def __len__(self) -> int:
        return len(self._initializers)
