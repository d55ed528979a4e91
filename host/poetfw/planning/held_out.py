# SPDX-License-Identifier: Apache-2.0
"""The held-out samples, as batches that a device evaluates."""

from __future__ import annotations

import numpy as np

from poetfw.importers import DataSet
from poetfw.models import Model
from poetfw.ops import Array


def held_out_batches(data: DataSet, model: Model) -> tuple[Array, Array]:
    """The held-out samples as whole batches.

    Where the model classifies, the last batch is filled up with samples of class -1, which no
    answer matches; otherwise it is left out.
    """
    x, y = data.x_test, data.y_test
    if model.classes is None:
        whole = len(x) // model.batch * model.batch
        return x[:whole], y[:whole]
    missing = -len(x) % model.batch
    blank = np.zeros((missing, *x.shape[1:]), x.dtype)
    return np.concatenate([x, blank]), np.concatenate([y, np.full(missing, -1, y.dtype)])
