# SPDX-License-Identifier: Apache-2.0
"""How much of what a network's ops read is 0: without an FPU, a zero takes less time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from poetfw.costs import Case, case_of
from poetfw.errors import DataError
from poetfw.firmware.sketch import Zeros
from poetfw.importers import load_data
from poetfw.ir import Dtype
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning import BuildSettings
from poetfw.training import Program, Reference


def zeros_of(program: Program, model: Model, settings: BuildSettings) -> Zeros:
    """The share of zeros in each input of each case, in the first training step from its weights.

    Of a case that occurs several times it is the mean. Parameters and state count as without
    zeros, which is what they are but for the first step. The step is of the data's first batch;
    where the model takes no such data, of random numbers.
    """
    x, y = _first_batch(program, model, settings)
    with np.errstate(all="ignore"):
        values = Reference(program, model.weights, np.float32).values(x, y)
    seen: dict[Case, list[list[float]]] = defaultdict(list)
    for op in program.training.ops:
        shares = [
            1 - np.count_nonzero(values[name]) / values[name].size if name in values else 0.0
            for name in op.inputs
        ]
        seen[case_of(op, program.training)].append([float(share) for share in shares])
    return {case: tuple(np.mean(shares, axis=0)) for case, shares in seen.items() if shares[0]}


def _first_batch(program: Program, model: Model, settings: BuildSettings) -> tuple[Array, Array]:
    try:
        data = load_data(settings.data, model, settings.features)
        return data.x_train[: program.batch], data.y_train[: program.batch]
    except DataError:
        random = np.random.default_rng(settings.seed)
        x = random.standard_normal(program.input.shape, np.float32)
        return x, np.zeros(
            program.label.shape, np.int64 if program.label.dtype is Dtype.I32 else np.float32
        )
