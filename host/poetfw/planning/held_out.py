# SPDX-License-Identifier: Apache-2.0
"""Held-out samples: batches for evaluation, and the effect of a format of frozen weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poetfw.importers import DataSet
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning.choices import unordered_program
from poetfw.report import FrozenAs
from poetfw.settings import BuildSettings
from poetfw.training import Program, Reference

_SAMPLES = 1000
"""Maximum number of held-out samples that are evaluated on this computer."""


def held_out_batches(data: DataSet, model: Model) -> tuple[Array, Array]:
    """Held-out samples in whole batches.

    The last batch of a classifier is padded with samples of class -1, which never count as correct;
    for other models a partial last batch is left out.
    """
    x, y = data.x_test, data.y_test
    if model.classes is None:
        whole = len(x) // model.batch * model.batch
        return x[:whole], y[:whole]
    missing = -len(x) % model.batch
    blank = np.zeros((missing, *x.shape[1:]), x.dtype)
    return np.concatenate([x, blank]), np.concatenate([y, np.full(missing, -1, y.dtype)])


def effect_of_format(
    settings: BuildSettings, model: Model, data: DataSet, program: Program
) -> FrozenAs | None:
    """Accuracy or loss of held-out samples with frozen weights in float32 and in another format.

    Evaluated before training, on at most the first 1,000 held-out samples.

    Args:
        settings: settings of the build.
        model: the model with its initial weights.
        data: data set with the held-out samples.
        program: the program with frozen weights in the chosen format.
    """
    if settings.frozen_as is None:
        return None
    x, y = held_out_batches(
        replace(data, x_test=data.x_test[:_SAMPLES], y_test=data.y_test[:_SAMPLES]), model
    )
    floats = unordered_program(replace(settings, frozen_as=None), model)
    samples = min(len(data.x_test), _SAMPLES) if model.classes is not None else len(x)
    before, after = (
        _measure(Reference(each, model.weights, np.float32), x, y, model, samples)
        for each in (floats, program)
    )
    return FrozenAs(settings.frozen_as, before, after, samples)


def _measure(ran: Reference, x: Array, y: Array, model: Model, samples: int) -> float:
    starts = range(0, len(x), model.batch)
    found = [ran.evaluate(x[i : i + model.batch], y[i : i + model.batch]) for i in starts]
    return sum(found) / samples if model.classes is not None else float(np.mean(found))
