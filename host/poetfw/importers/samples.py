# SPDX-License-Identifier: Apache-2.0
"""Samples as read from files; `dataset.py` checks them against the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import DataError

Values = NDArray[np.generic]

LARGEST_BYTES = 1 << 28
"""Most bytes of a data set's arrays together, both unpacked and as 32-bit numbers."""

NUMBER_BYTES = 4


@dataclass(frozen=True)
class Samples:
    """Samples as read from a file or folder.

    Attributes:
        x: features [samples, *features], an array for each input of the model.
        y: class numbers [samples], or targets [samples, *outputs], an array for each label.
        x_test, y_test: the held-out samples, where the data say which; None otherwise.
        classes: class numbers [samples] to hold samples out by; None for the first label.
        record: how features were made and what classes are called: JSON values, kept with a build.
    """

    x: tuple[Values, ...]
    y: tuple[Values, ...]
    x_test: tuple[Values, ...] | None = None
    y_test: tuple[Values, ...] | None = None
    classes: NDArray[np.int32] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


def expect_room(where: str, needed: int, room: int = LARGEST_BYTES) -> None:
    """Check that the size limit allows to read some more bytes.

    Raises:
        DataError: The limit is exceeded.
    """
    if needed > room:
        raise DataError(
            f"{where} has {needed:,} bytes, unpacked and as 32-bit numbers, of "
            f"{LARGEST_BYTES:,} that poetfw reads of a file, {room:,} are left",
            "give fewer samples",
        )
