"""Tensor sharing: ops that write their output over an input which dies with them.

As `poetfw` does it: where, in a given order, an op is the last to read an input that its first
output may be written over, both are one tensor. What results is an ordering problem again, with
control edges in place of the tensors that are gone, so that it can be ordered once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from networks.tape import TrainingStep
from poetfw.memory.ordering import OrderingProblem, lifetimes

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


def taken_over(step: TrainingStep, order: Sequence[str]) -> Mapping[str, str]:
    """The input that each output is written over in an order; outputs without one are left out.

    Raises:
        PlanError: the order is not legal.
    """
    position = {name: at for at, name in enumerate(order)}
    ends = {life.tensor: life.upper for life in lifetimes(step.problem, order)}
    taken: dict[str, str] = {}
    for op in step.problem.ops:
        for output in op.outputs[:1]:
            dying = [t for t in step.writable[output] if ends[t] == position[op.name] + 1]
            if dying:
                taken[output] = dying[0]
    return taken


def with_sharing(step: TrainingStep, order: Sequence[str]) -> OrderingProblem:
    """The step's ops in an order, tensors shared wherever that order allows it.

    Every legal order of the answer is one of the step as well, and keeps what is shared valid: who
    reads a tensor before it is overwritten, and who reads what was written, stays so by `after`.
    """
    taken = taken_over(step, order)
    ops = {op.name: op for op in step.problem.ops}
    readers: dict[str, list[str]] = {}
    producer: dict[str, str] = {}
    for name in order:
        for tensor in ops[name].inputs:
            readers.setdefault(tensor, []).append(name)
        producer.update(dict.fromkeys(ops[name].outputs, name))

    def buffer(tensor: str) -> str:
        while tensor in taken:
            tensor = taken[tensor]
        return tensor

    shared = []
    for name in order:
        op = ops[name]
        written_over = [taken[output] for output in op.outputs if output in taken]
        after = [
            *op.after,
            *(reader for tensor in written_over for reader in readers[tensor] if reader != name),
            *(producer[tensor] for tensor in op.inputs if tensor in taken),
        ]
        shared.append(
            replace(
                op,
                inputs=tuple(dict.fromkeys(buffer(tensor) for tensor in op.inputs)),
                outputs=tuple(output for output in op.outputs if output not in taken),
                after=tuple(dict.fromkeys(after)),
            )
        )
    return replace(step.problem, ops=tuple(shared))
