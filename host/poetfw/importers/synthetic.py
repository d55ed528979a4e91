# SPDX-License-Identifier: Apache-2.0
"""The built-in data set `synthetic`: generated data that fit any model and can be learned.

For a classifier, a sample is the pattern of its class plus noise of the same strength (for ids, a
share is redrawn). For the loss mse, the target is the input if the output has its shape, as for an
auto-encoder, else a linear function of the input. It replaces data that are too large for a
package: it shows that a network trains, not how well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.samples import Samples, Values
from poetfw.ir import Dtype, Tensor
from poetfw.models import Model

_SEED = 0
_SAMPLES = 640
_LARGEST_BYTES = 1 << 26  # above, the number of samples is reduced, but not below 4 batches
_RANK = 8
_SAMPLES_OF_A_CLASS = 8  # at least; with few samples, only the first classes occur
_SHARE_OF_IDS = 0.25


def make_synthetic(model: Model) -> Samples:
    """Features [samples, *features] of each input, and class numbers or targets of each label."""
    random = np.random.Generator(np.random.PCG64(_SEED))
    fitting = _LARGEST_BYTES // model.x.size_bytes
    samples = max(min(_SAMPLES, fitting), 4 * model.batch)
    counts = [count for count, _ in map(model.label_classes, model.y.members) if count]
    classes = min(*(counts or [_RANK]), max(1, samples // _SAMPLES_OF_A_CLASS))
    labels = np.arange(samples, dtype=np.int32) % classes
    x = tuple(_features(random, labels, tensor, model) for tensor in model.x.members)
    return Samples(x, tuple(_targets(random, labels, x, tensor) for tensor in model.y.members))


def _features(
    random: np.random.Generator, labels: NDArray[np.int32], tensor: Tensor, model: Model
) -> Values:
    samples, shape = len(labels), tensor.shape[1:]
    if tensor.dtype is Dtype.F32:
        patterns = random.standard_normal((int(labels.max()) + 1, *shape), np.float32)
        noise = random.standard_normal((samples, *shape), np.float32)
        features: Values = patterns[labels] + noise
        return features
    ids = model.ids(tensor)
    x = random.integers(0, ids, (int(labels.max()) + 1, *shape), np.int32)[labels]
    drawn = random.random(x.shape) < _SHARE_OF_IDS
    return np.where(drawn, random.integers(0, ids, x.shape, np.int32), x)


def _targets(
    random: np.random.Generator, labels: NDArray[np.int32], x: Sequence[Values], tensor: Tensor
) -> Values:
    """Class numbers; else an input of the target's shape; else a linear function of all inputs."""
    samples, outputs = len(labels), tensor.shape[1:]
    if tensor.dtype is Dtype.I32:
        return np.broadcast_to(labels.reshape(-1, *(1,) * len(outputs)), (samples, *outputs))
    for features in x:
        if features.shape[1:] == outputs and features.dtype == np.float32:
            return features
    rows = np.concatenate([each.reshape(samples, -1).astype(np.float32) for each in x], axis=1)
    matrix = random.standard_normal((rows.shape[1], math.prod(outputs)), np.float32)
    return (rows @ matrix / math.sqrt(len(matrix))).reshape(samples, *outputs)
