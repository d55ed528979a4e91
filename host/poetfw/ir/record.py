# SPDX-License-Identifier: Apache-2.0
"""Samples as records: the tensors of a sample are stored one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.ir.graph import Dtype, Graph, Role, Tensor

NUMPY_TYPES: Mapping[Dtype, str] = MappingProxyType({Dtype.F32: "<f4", Dtype.I32: "<i4"})
"""NumPy types of stored elements."""

Head = tuple[str, tuple[int, ...]]
"""Name and shape [batch, ...] of one of several outputs of a network."""


@dataclass(frozen=True)
class Record:
    """Layout of a sample's features, or of its targets.

    Samples of a record with one member are a plain array [samples, *features]; those of several
    members are a structured array [samples] with one field per member.

    Attributes:
        members: tensors of a batch; axis 0 is the sample.
    """

    members: tuple[Tensor, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members, in order."""
        return tuple(tensor.name for tensor in self.members)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each member of one sample."""
        return tuple(tensor.size_bytes // tensor.shape[0] for tensor in self.members)

    @property
    def size_bytes(self) -> int:
        """Bytes of one sample."""
        return sum(self.sizes)

    @property
    def firsts(self) -> tuple[int, ...]:
        """Offset in bytes of each member within one sample."""
        return tuple(sum(self.sizes[:i]) for i in range(len(self.members)))

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of one sample: of its elements, or a structured one for several members."""
        if len(self.members) == 1:
            return np.dtype(NUMPY_TYPES[self.members[0].dtype])
        return np.dtype([(t.name, NUMPY_TYPES[t.dtype], t.shape[1:]) for t in self.members])

    def join(self, columns: Sequence[NDArray[Any]], samples: int) -> NDArray[Any]:
        """Combine an array [samples, *features] per member into samples."""
        if len(columns) == 1:
            return columns[0]
        joined = np.zeros(samples, self.dtype)
        for name, column in zip(self.names, columns, strict=True):
            joined[name] = column
        return joined

    def split(self, samples: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Split samples into an array [samples, *features] per member."""
        if len(self.members) == 1:
            return (samples,)
        return tuple(samples[name] for name in self.names)

    def loaded(self, samples: NDArray[Any], first: int) -> NDArray[Any]:
        """Values of the member at an offset, for a batch of samples, in the member's shape."""
        index = self.firsts.index(first)
        return self.split(samples)[index].reshape(self.members[index].shape)

    def rows(self, samples: NDArray[Any]) -> NDArray[np.uint8]:
        """Samples as bytes [samples, size_bytes]."""
        if self.size_bytes == 0:
            return np.zeros((len(samples), 0), np.uint8)
        whole = np.ascontiguousarray(samples, self.dtype).reshape(-1)
        return whole.view(np.uint8).reshape(len(samples), self.size_bytes)

    def samples(self, rows: NDArray[np.uint8]) -> NDArray[Any]:
        """Samples from their bytes; inverse of `rows`."""
        if self.size_bytes == 0:
            return np.zeros(len(rows), self.dtype)
        whole = np.ascontiguousarray(rows).view(self.dtype)
        if len(self.members) == 1:
            return whole.reshape(len(rows), *self.members[0].shape[1:])
        return whole.reshape(len(rows))


def array_names(x: Record, y: Record) -> tuple[str, ...]:
    """Names of the arrays of a data set: `x` and `y`, or those of the members if there are several.

    Args:
        x: layout of a sample's features.
        y: layout of its targets.
    """
    if len(x.members) == 1 and len(y.members) <= 1:
        return ("x", "y")[: 1 + len(y.members)]
    return (*x.names, *y.names)


def label_name(model: Graph) -> str:
    """Name of a built-in loss's target that differs from the names of the network's inputs."""
    names = [tensor.name for tensor in model.with_role(Role.INPUT)]
    return "load y" if len(names) == 1 else "labels" if "y" in names else "y"
