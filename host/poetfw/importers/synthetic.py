# SPDX-License-Identifier: Apache-2.0
"""The built-in data set `synthetic`: generated data that fit any model and can be learned.

For a classifier, a sample is the pattern of its class plus noise of the same strength (for ids, a
share is redrawn). For the loss mse, the target is the input if the output has its shape, as for an
auto-encoder, else a linear function of the input. It replaces data that are too large for a
package: it shows that a network trains, not how well.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poetfw.ir import Dtype
from poetfw.models import Model

_SEED = 0
_SAMPLES = 640
_LARGEST_BYTES = 1 << 26  # above, the number of samples is reduced, but not below 4 batches
_RANK = 8
_SAMPLES_OF_A_CLASS = 8  # at least; with few samples, only the first classes occur
_SHARE_OF_IDS = 0.25


def make_synthetic(model: Model) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Features [samples, *features], and class numbers or targets [samples, *outputs]."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    shape = model.input.shape[1:]
    fitting = _LARGEST_BYTES // (4 * math.prod(shape))
    samples = max(min(_SAMPLES, fitting), 4 * model.batch)
    classes = min(
        model.classes or model.own_classes or _RANK, max(1, samples // _SAMPLES_OF_A_CLASS)
    )
    labels = np.arange(samples, dtype=np.int32) % classes
    x: NDArray[np.generic]
    if model.input.dtype is Dtype.F32:
        patterns = random.standard_normal((int(labels.max()) + 1, *shape), np.float32)
        noise = random.standard_normal((samples, *shape), np.float32)
        x = patterns[labels] + noise
    else:
        ids = model.ids
        x = random.integers(0, ids, (int(labels.max()) + 1, *shape), np.int32)[labels]
        drawn = random.random(x.shape) < _SHARE_OF_IDS
        x = np.where(drawn, random.integers(0, ids, x.shape, np.int32), x)
    outputs = model.target.shape[1:]
    if model.target.dtype is Dtype.I32:
        return x, np.broadcast_to(labels.reshape(-1, *(1,) * len(outputs)), (samples, *outputs))
    if outputs == shape:
        return x, x
    rows = x.reshape(samples, -1).astype(np.float32)
    matrix = random.standard_normal((rows.shape[1], math.prod(outputs)), np.float32)
    return x, (rows @ matrix / math.sqrt(len(matrix))).reshape(samples, *outputs)
