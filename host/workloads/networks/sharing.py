# SPDX-License-Identifier: Apache-2.0
"""Tensor sharing: ops that write their output over an input which dies with them.

As `poetfw` does it: an op has at most one input that its first output may be written over, and it
is written over it where no other op reads that input later. So the order decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from poetfw.memory.ordering import OrderingProblem, OrderOp, lifetimes
from workloads.networks.tape import TrainingStep

_FUSABLE = ("mm", "embedding_dense_backward")
"""Gradients that `poetfw` can apply element by element instead of storing them."""


def with_fused_updates(step: TrainingStep) -> TrainingStep:
    """The step with weight gradients applied as they are calculated, never stored.

    As `poetfw` does it: where the gradient is larger than what it is calculated from, is that of
    one use of its weight, and nobody reads the weight later. Convolutions are left as they are:
    PyTorch calculates all gradients of one in one op.
    """
    problem = step.problem
    position = {op.name: at for at, op in enumerate(problem.ops)}
    updates = {op.inputs[0]: op for op in problem.ops if op.name.endswith(" sgd")}
    ops, gone = [], set()
    for at, op in enumerate(problem.ops):
        update = updates.get(op.outputs[0]) if len(op.outputs) == 1 else None
        if op.name in gone:
            continue
        if (
            update is not None
            and op.name.endswith(tuple(f" {kind}" for kind in _FUSABLE))
            and problem.sizes[op.outputs[0]] > sum(problem.sizes[tensor] for tensor in op.inputs)
            and all(position[other] <= at for other in update.after)
        ):
            gone.add(update.name)
            after = dict.fromkeys((*op.after, *update.after))
            after.pop(op.name, None)
            op = replace(op, outputs=(), after=tuple(after))
        ops.append(op)
    sizes = {tensor: problem.sizes[tensor] for op in ops for tensor in op.outputs}
    return replace(step, problem=replace(problem, ops=tuple(ops), sizes=sizes))


def with_sharing(step: TrainingStep, order: Sequence[str]) -> OrderingProblem:
    """The step's ops in an order, each told which input its first output may be written over.

    Of several, the one that dies with it in that order; else the one that the fewest ops read.

    Raises:
        PlanError: the order is not legal.
    """
    position = {name: at for at, name in enumerate(order)}
    ends = {life.tensor: life.upper for life in lifetimes(step.problem, order)}
    readers = Counter(tensor for op in step.problem.ops for tensor in op.inputs)

    def best(op: OrderOp) -> str | None:
        return min(
            step.writable[op.outputs[0]] if op.outputs else (),
            key=lambda tensor: (ends[tensor] != position[op.name] + 1, readers[tensor]),
            default=None,
        )

    ops = {op.name: replace(op, in_place=best(op)) for op in step.problem.ops}
    return replace(step.problem, ops=tuple(ops[name] for name in order))
