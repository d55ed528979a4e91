# SPDX-License-Identifier: Apache-2.0
"""Effect of a smaller form of activations: bytes that wait, and the error of the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from poetfw.importers import DataSet
from poetfw.ir import Graph
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.planning.choices import derive_program
from poetfw.report import StoredAs
from poetfw.settings import BuildSettings
from poetfw.training import Program, Reference


def effect_of_storing(
    settings: BuildSettings, model: Model, data: DataSet, program: Program
) -> StoredAs | None:
    """Effect of the form in the settings; None for float32.

    Args:
        settings: settings of the build.
        model: the model with its initial weights.
        data: data set, whose first batch gives the gradients.
        program: the program with activations in the chosen form.
    """
    if settings.store_as is None:
        return None
    error = 0.0
    if settings.store_as == "float16":
        exact, rounded = (
            _gradients(replace(settings, store_as=form), model, data)
            for form in (None, settings.store_as)
        )
        differences = {name: rounded[name] - value for name, value in exact.items()}
        size = _norm(exact)
        error = _norm(differences) / size if size else 0.0
    floats = derive_program(replace(settings, store_as=None), model)
    return StoredAs(
        settings.store_as,
        _waiting_bytes(floats.training),
        _waiting_bytes(program.training),
        error,
    )


def _gradients(settings: BuildSettings, model: Model, data: DataSet) -> Mapping[str, Array]:
    program = derive_program(settings, model, fuse_updates=False)
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
