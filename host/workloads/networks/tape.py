# SPDX-License-Identifier: Apache-2.0
"""Records a training step the way PyTorch runs it: forward, autograd's backward, then updates.

Only shapes are calculated. Ops have the granularity at which PyTorch dispatches them: the backward
of a convolution is one op with three outputs, that of a linear layer one op per gradient, views and
in-place ops share the memory of what they view or overwrite, and gradients that meet are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from poetfw.memory.ordering import OrderingProblem, OrderOp

FLOAT = 4
"""Bytes of a float."""


@dataclass(frozen=True, eq=False)
class Value:
    """Result of an op: a view of some memory, as left by some op.

    Attributes:
        shape: elements along each axis.
        memory: the tensor it lies in; None for what is resident.
        op: the op that made it; None for what was there before.
        trained: whether a gradient for it is wanted.
        item_bytes: bytes per element.
    """

    shape: tuple[int, ...]
    memory: str | None
    op: str | None
    trained: bool = True
    item_bytes: int = FLOAT

    @property
    def size_bytes(self) -> int:
        """Bytes of all its elements."""
        return prod(self.shape) * self.item_bytes


@dataclass(frozen=True)
class TrainingStep:
    """A recorded op.

    Attributes:
        problem: the step's ops in PyTorch's order.
        resident: bytes of each parameter and of what the caller holds; their sum is the problem's
            `resident_bytes`.
        writable: for an op's first output, the tensors among the op's inputs that it may be
            written over, all of its size; whether one is dead by then depends on the order.
    """

    problem: OrderingProblem
    resident: tuple[int, ...]
    writable: Mapping[str, tuple[str, ...]]

    def with_kept_gradients(self) -> TrainingStep:
        """The step if gradients are zeroed and not freed (the default before PyTorch 2.0).

        Each parameter's gradient is resident; the backward pass adds to it as soon as it can.
        """
        sizes = self.problem.sizes
        updates = {op.inputs[0]: op for op in self.problem.ops if op.name.endswith(" sgd")}
        ops: list[OrderOp] = []
        for op in self.problem.ops:
            if op.name.endswith(" sgd"):
                ops.append(replace(op, inputs=(), after=(*op.after, f"{op.name} accumulate")))
                continue
            ops.append(op)
            for gradient in op.outputs:
                if gradient in updates:
                    ops.append(OrderOp(f"{updates[gradient].name} accumulate", (gradient,)))
        kept = tuple(sizes[gradient] for gradient in updates)
        resident = (*self.resident, *kept)
        problem = OrderingProblem(tuple(ops), sizes, sum(resident))
        return replace(self, problem=problem, resident=resident)


Gradients = Sequence[tuple[Value, Value]]
"""Pairs (value, gradient for it)."""


class Tape:
    """The training step being recorded."""

    def __init__(self) -> None:
        self._ops: list[OrderOp] = []
        self._producer: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._readers: dict[str, list[str]] = {}
        self._resident: list[int] = []
        self._writable: dict[str, tuple[str, ...]] = {}
        self._parameters: list[tuple[Value, list[str]]] = []
        self._backward: list[tuple[Value, Callable[[Value], Gradients]]] = []
        self._gradients: dict[Value, Value] = {}

    def resident(self, *shape: int, item_bytes: int = FLOAT) -> Value:
        """A batch, which the caller holds during the whole step."""
        value = Value(shape, None, None, trained=False, item_bytes=item_bytes)
        self._resident.append(value.size_bytes)
        return value

    def parameter(self, *shape: int) -> Value:
        """A trained parameter."""
        value = Value(shape, None, None)
        self._resident.append(value.size_bytes)
        self._parameters.append((value, []))
        return value

    def op(
        self,
        name: str,
        reads: Sequence[Value],
        *shapes: tuple[int, ...],
        item_bytes: Sequence[int] | None = None,
        over: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """Record an op with an output for each shape.

        Args:
            name: what PyTorch calls it.
            reads: its inputs.
            shapes: of its outputs.
            item_bytes: bytes per element of each output, floats if None.
            over: inputs that the first output may be written over element by element, or that are
                not read any more when it is written; those of another size are left out.
        """
        name = f"{len(self._ops)} {name}"
        trained = any(value.trained for value in reads)
        widths = item_bytes or [FLOAT] * len(shapes)
        outputs = []
        for number, (shape, width) in enumerate(zip(shapes, widths, strict=True)):
            memory = f"{name}:{number}"
            output = Value(shape, memory, name, trained, width)
            self._sizes[memory] = output.size_bytes
            self._producer[memory] = name
            self._readers[memory] = []
            outputs.append(output)
        first = outputs[0]
        if first.memory is not None:
            self._writable[first.memory] = tuple(
                value.memory
                for value in over
                if value.memory is not None and self._sizes[value.memory] == first.size_bytes
            )
        self._record(name, reads, [v.memory for v in outputs if v.memory is not None])
        return tuple(outputs)

    def view(self, name: str, x: Value, shape: tuple[int, ...]) -> Value:
        """Record a view: another shape for the same memory."""
        name = f"{len(self._ops)} {name}"
        self._record(name, [x], [])
        return Value(shape, x.memory, name, x.trained, x.item_bytes)

    def overwrite(self, name: str, x: Value, *reads: Value) -> Value:
        """Record an op that overwrites x; whoever read x before must have done so."""
        name = f"{len(self._ops)} {name}"
        after = self._readers[x.memory] if x.memory is not None else []
        self._record(name, [x, *reads], [], list(after))
        return Value(x.shape, x.memory, name, any(v.trained for v in (x, *reads)), x.item_bytes)

    def on_backward(self, y: Value, rule: Callable[[Value], Gradients]) -> Value:
        """Say how the gradient of y becomes gradients of what it was made from."""
        if y.trained:
            self._backward.append((y, rule))
        return y

    def training_step(self, loss: Value) -> TrainingStep:
        """Run the backward pass from the loss, then update every parameter."""
        (self._gradients[loss],) = self.op("ones_like", [loss], loss.shape)
        for y, rule in reversed(self._backward):
            gradient = self._gradients.pop(y, None)
            if gradient is None:
                continue
            for value, part in rule(gradient):
                if value.trained:
                    self._accumulate(value, part)
        for parameter, readers in self._parameters:
            gradient = self._gradients.get(parameter)
            if gradient is not None:
                self._record(f"{len(self._ops)} sgd", [gradient], [], readers)
        problem = OrderingProblem(tuple(self._ops), self._sizes, sum(self._resident))
        return TrainingStep(problem, tuple(self._resident), self._writable)

    def _accumulate(self, value: Value, gradient: Value) -> None:
        before = self._gradients.get(value)
        if before is not None:
            (gradient,) = self.op(
                "add", [before, gradient], gradient.shape, over=[before, gradient]
            )
        self._gradients[value] = gradient

    def _record(
        self, name: str, reads: Sequence[Value], outputs: list[str], after: Sequence[str] = ()
    ) -> None:
        follows = list(after)
        inputs = []
        for value in reads:
            if value.memory is not None:
                inputs.append(value.memory)
                self._readers[value.memory].append(name)
                if value.op is not None and value.op != self._producer[value.memory]:
                    follows.append(value.op)
            for parameter, readers in self._parameters:
                if value is parameter:
                    readers.append(name)
        op = OrderOp(
            name,
            tuple(dict.fromkeys(inputs)),
            tuple(outputs),
            after=tuple(other for other in dict.fromkeys(follows) if other != name),
        )
        self._ops.append(op)
