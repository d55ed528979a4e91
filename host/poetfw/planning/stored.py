# SPDX-License-Identifier: Apache-2.0
"""Effect of a smaller form of activations: bytes that wait, and the error of the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from poetfw.common.option_values import FLOAT16_FORM
from poetfw.importers import DataSet
from poetfw.ir import Graph
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning.choices import unordered_program
from poetfw.report import StoredAs
from poetfw.settings import BuildSettings
from poetfw.training import Program, Reference


def effect_of_storing(settings: BuildSettings, model: Model, data: DataSet) -> StoredAs | None:
    """Effect of the form in the settings; None for float32.

    Args:
        settings: settings of the build.
        model: the model with its initial weights.
        data: data set, whose first batch gives the gradients.
    """
    if settings.store_as is None:
        return None
    floats, stored = (
        unordered_program(replace(settings, store_as=form), model, fuse_updates=False)
        for form in (None, settings.store_as)
    )
    error = 0.0
    if settings.store_as == FLOAT16_FORM:
        exact, rounded = (_gradients(program, model, data) for program in (floats, stored))
        size = _norm(exact)
        distance = _norm({name: rounded[name] - value for name, value in exact.items()})
        error = distance / size if size else 0.0
    before, after = _waiting_bytes(floats.training), _waiting_bytes(stored.training)
    return StoredAs(settings.store_as, before, after, error)


def _gradients(program: Program, model: Model, data: DataSet) -> Mapping[str, Array]:
    ran = Reference(program, model.weights, np.float32)
    ran.step(data.x_train[: program.batch], data.y_train[: program.batch])
    return ran.gradients


def _norm(gradients: Mapping[str, Array]) -> float:
    return float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())))


def _waiting_bytes(graph: Graph) -> int:
    """Bytes of outputs of forward ops that backward ops read."""
    forward = {op.output for op in graph.ops if not op.backward}
    waiting = {
        name for op in graph.ops if op.backward for name in graph.reads(op) if name in forward
    }
    return sum(graph.by_name[name].size_bytes for name in waiting)
