# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of every operator that is read: each passes, or is refused with the reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.importers.onnx.file import OPSETS
from poetfw.importers.onnx.rules import RULES
from poetfw.models import Model
from poetfw.ops import kind_of
from poetfw.training import Sgd, make_program

RANDOM = "training_dropout"
"""In the names of tests whose results are drawn: of those, only some can be compared."""
PASS_AT_LEAST = 215


def cases():
    from onnx.backend.test.case.node import collect_testcases  # which takes 20 seconds

    for case in collect_testcases(None):
        kinds = [node.op_type for node in case.model.graph.node]
        if (
            len(kinds) == 1
            and kinds[0] in RULES
            and "" in (o.domain for o in case.model.opset_import)
        ):
            yield case


def infer(model: Model, x: np.ndarray, *, training: bool) -> np.ndarray:
    """The model's answer, in float64: as in training, or in evaluation."""
    values = {name: np.asarray(value, np.float64) for name, value in model.weights.items()}
    ops = model.graph.ops
    if training:
        ops = make_program(model.graph, "mse", Sgd(), fuse_updates=False).training.ops[1:]
    values[model.input.name] = x if x.dtype.kind == "i" else x.astype(np.float64)
    for op in ops:
        inputs, updates = ([values[name] for name in names] for names in (op.inputs, op.updates))
        result = kind_of(op).compute(op, inputs, updates)
        if op.output is not None:
            values[op.output] = result
        if op.output == model.graph.output:
            break
    return values[model.graph.output]


def outcome(case, path: Path) -> str:
    """ "passed", or why it was refused; "different" where the answer is another one."""
    ((inputs, outputs), *_) = case.data_sets
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for entry in model.opset_import:
        entry.version = min(entry.version, OPSETS[-1])
    graph = model.graph
    names = [value.name for value in graph.input]
    if not inputs or len(names) != len(inputs):
        return "it has no input"
    if not all(isinstance(value, np.ndarray) for value in (*inputs, outputs[0])):
        return "its inputs are no tensors"
    graph.initializer.extend(
        numpy_helper.from_array(value, name)
        for name, value in zip(names[1:], inputs[1:], strict=True)
    )
    del graph.input[1:], graph.output[1:]
    path.write_bytes(model.SerializeToString())
    x = inputs[0]
    try:
        imported = import_onnx(path, max(x.shape[0], 1) if x.ndim else 1, "mse")
    except ModelError as error:
        reason = error.message.partition(": poetfw cannot train")
        return reason[2].partition("): ")[2] or error.message
    if RANDOM in case.name and any(op.kind == "dropout" for op in imported.graph.ops):
        return "its result is drawn"
    answer = infer(imported, x, training="training_mode" in case.name)
    close = np.allclose(answer, outputs[0], rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5))
    return "passed" if answer.shape == outputs[0].shape and close else "different"


@pytest.mark.slow
def test_onnx_s_own_tests_pass_or_are_refused(tmp_path: Path) -> None:
    outcomes = {case.name: outcome(case, tmp_path / "case.onnx") for case in cases()}
    different = sorted(name for name, word in outcomes.items() if word == "different")
    assert different == []
    assert all(outcomes.values())
    counts = Counter(word == "passed" for word in outcomes.values())
    assert counts[True] >= PASS_AT_LEAST, counts
