# SPDX-License-Identifier: Apache-2.0
"""A graph with the single op of a measurement case, to run it or to look up its cost."""

from __future__ import annotations

from poetfw.common.errors import ModelError
from poetfw.costs.measurement import Case
from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.ops import infer_output, kind_of


def alone(case: Case) -> tuple[Op, Graph]:
    """Create the op of a case, and a graph with nothing else.

    Raises:
        ModelError: The case is a transfer, or no operator has such operands.
    """
    inputs = [
        Tensor(f"in{i}", shape, dtype, Role.INPUT) for i, (shape, dtype) in enumerate(case.inputs)
    ]
    updates = [
        Tensor(f"state{i}", shape, dtype, Role.STATE)
        for i, (shape, dtype) in enumerate(case.updates)
    ]
    names = tuple(tensor.name for tensor in inputs)
    updated = tuple(tensor.name for tensor in updates)
    op = Op("op", case.kind, names, "out", case.attributes, updated)
    output = infer_output(op, inputs, Role.ACTIVATION)
    if output is None:
        op = Op("op", case.kind, names, None, case.attributes, updated)
    produced = () if output is None else (output,)
    if not (updated or produced):
        raise ModelError(f"a {case.kind!r} with neither output nor update is not an op")
    last = output.name if output is not None else updated[0]
    graph = Graph(case.kind, (*inputs, *updates, *produced), (op,), last)
    return op, graph


def reads_storage(case: Case) -> bool:
    """True for cases that wait for the storage: a transfer, or a load of a batch."""
    if case.size_bytes:
        return True
    op, graph = alone(case)
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    return kind_of(op).work(op, inputs, output).storage_bytes > 0
