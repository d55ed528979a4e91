# SPDX-License-Identifier: Apache-2.0
"""The interface of operators: shape rule, gradient rule, reference, work, and C kernel.

Adding an operator takes one file in this folder, which registers its kinds, and one C file with its
header in `firmware_templates/kernels/` that holds the kernels its `Kernel` bindings name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import ModelError
from poetfw.ir import VARIANT, Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma, magnitude

Array = NDArray[Any]
Shape = tuple[int, ...]
Bounds = tuple[Array, ...]
"""Error bounds of an op's results, element by element: of its output, or of what it updates."""
Field = int | float | str | tuple[float, ...]
"""A constant of a kernel: a number, a C function's name, or the address of a table of floats."""

LARGEST_INTEGER = 2**31 - 1
"""No attribute of an op may be larger: a kernel's constants are 32-bit integers."""


@dataclass(frozen=True, slots=True)
class OpWork:
    """The work of running an op once, independent of any board.

    Attributes:
        macs: multiply-accumulates, padding included; other arithmetic counts one per element.
        bytes_moved: RAM bytes read and written, each operand counted once.
        storage_bytes: bytes read from storage.
    """

    macs: int
    bytes_moved: int
    storage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Constants:
    """A kernel argument: the address of a struct of constants, some of which are function pointers.

    Attributes:
        sources: the files that the functions are in, as in `Kernel`; the first declares the struct.
        struct: the struct's tag.
        member: the member whose address is the argument: the struct's first.
        fields: the constants, in the struct's order.
    """

    sources: tuple[str, ...]
    struct: str
    member: str
    fields: tuple[tuple[str, Field], ...]


DIVISORS: Mapping[str, str] = {
    "POET_BATCH_NORM_PLANE": "elements of a channel of a sample",
    "POET_BATCH_NORM_ROWS": "of such a plane",
    "POET_BATCH_NORM_WIDTH": "elements of such a row",
    "POET_CONV2D_SUMS": "channels of a group of y or dx",
    "POET_CONV2D_OUTPUTS": "channels of a group of dy, for dw",
    "POET_CONV2D_COLUMNS": "of x, for dw of 3x3 kernels that move by 1",
    "POET_LINEAR_FEATURES": "of x",
    "POET_LINEAR_OUTPUTS": "of y",
    "POET_LINEAR_SUMS": "products in a sum for dx and dw",
    "POET_RELU_ELEMENTS": "of x",
}
"""The macros of `kernels/shapes.h`: common divisors over all layers, of these extents."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The C call that runs an op.

    The call is `function([&constants,] arguments...[, workspace])`, where the constants are a
    `const struct <struct>` with the given fields, and an argument of None is a null pointer.

    Attributes:
        source: the kernel's file in `firmware_templates/kernels/`, without its ending.
        function: the C function.
        arguments: the tensors, by name, and further constants that it is given, in order.
        struct: tag of the struct of constants it is given first; None for no constants.
        fields: the constants, in the struct's order.
        workspace_bytes: scratch it needs while it runs.
        fallible: True if it returns an error code that the caller must check.
        divided: names of `DIVISORS`, with the extents that the kernel takes in blocks.
        calls: further files, whose functions its constants name.
    """

    source: str
    function: str
    arguments: tuple[str | int | Constants | None, ...]
    struct: str | None = None
    fields: tuple[tuple[str, Field], ...] = ()
    workspace_bytes: int = 0
    fallible: bool = False
    divided: tuple[tuple[str, int], ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The files that the call needs, its own and its constants'."""
        constants = (argument for argument in self.arguments if isinstance(argument, Constants))
        further = (source for argument in constants for source in argument.sources)
        return tuple(source for source in (self.source, *self.calls, *further) if source)


class Tape(Protocol):
    """The training graph being built, as a training form or a gradient rule may change it."""

    def emit(
        self,
        kind: str,
        name: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        updates: Sequence[str] = (),
        output: str | None = None,
    ) -> str:
        """Append an op; returns the name of its output tensor ("" if it has none).

        The output is called `output`, or after the op where that is None.
        """

    def shape(self, tensor: str) -> Shape:
        """Shape of a tensor that exists already."""

    def needs_gradient(self, tensor: str) -> bool:
        """True if anything upstream of the tensor is trained."""

    def trained_channels(self, x: str, w: str) -> str:
        """The channels of an input x that the trained part of a weight w is applied to.

        The name of x itself if all of w is trained or none of it; else of a slice of x.
        """

    def add_gradient(self, tensor: str, gradient: str) -> None:
        """Record that `gradient` is (a part of) the gradient with respect to `tensor`."""


class OpKind(ABC):
    """An operator. Stateless: everything about one use of it is in its `Op`."""

    name: str
    """The key that `Op.kind` holds."""
    recomputable: ClassVar[bool] = True
    """True if running it again in the same training step gives the same bits and no side effect."""
    in_place: ClassVar[tuple[int, ...]] = ()
    """Inputs, by position, that its output may be written over: the op reads each of their elements
    before it writes the element in the same place, and never reads it again."""
    view: ClassVar[bool] = False
    """True if its output has the bytes of its input, so that no code runs if it is in place."""
    pointwise: ClassVar[bool] = False
    """True if each element of its output comes from that of its one input at the same place, so
    that it may as well run on the input under another shape."""
    onnx: ClassVar[str | None] = None
    """The ONNX operator, one without attributes, that computes the same from the same inputs; None
    where there is none, or where reading it takes a rule of its own in `poetfw.importers.onnx`."""
    cancels: ClassVar[bool] = True
    """True if it adds terms of both signs: its rounding errors are then relative to the result for
    the inputs' magnitudes, not to the result itself."""
    positive: ClassVar[tuple[int, ...]] = ()
    """Inputs, by position, that must not hold negative numbers, such as variances."""
    counts: ClassVar[bool] = False
    """True if it updates counters, and values derived from them; they begin at 0."""
    branches: ClassVar[bool] = False
    """True if its kernel branches on an element's value, so that its time depends on the data, even
    with an FPU. Such a kernel visits elements one by one, and its inputs have one shape."""
    stops_gradient: ClassVar[bool] = False
    """True if no gradient passes through it."""
    streams: ClassVar[bool] = False
    """True if its kernel has a form that hands each element of its output, a gradient, to an
    optimizer as soon as it is complete: `<function>_update_f32` (`poetfw.ops.update`)."""

    @property
    def priced_as(self) -> str:
        """The operator whose counted prices are its own."""
        return self.name

    @abstractmethod
    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        """Shape and type of the output (None where there is none) from those of the inputs.

        Raises:
            ModelError: The inputs or attributes do not fit this operator.
        """

    @abstractmethod
    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        """The reference: the op on NumPy arrays, in the precision of its inputs.

        `updates` are modified in place.
        """

    @abstractmethod
    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        """The work of one run."""

    @abstractmethod
    def kernel(self, op: Op, graph: Graph) -> Kernel:
        """The C call that runs it: the one for its shape, or what its attribute `VARIANT` names."""

    def variants(self, op: Op, graph: Graph) -> tuple[str, ...]:
        """Names of the other kernels that give the same bits for this op."""
        return ()

    def never_negative(self, op: Op) -> tuple[str, ...]:
        """Names of the inputs whose elements must not be negative."""
        return tuple(op.inputs[position] for position in self.positive)

    def workspace_bytes(self, op: Op, graph: Graph) -> int:
        """Scratch it needs while it runs."""
        return self.kernel(op, graph).workspace_bytes

    def results(
        self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        """The results of `compute`: the output, if any, and the new values of `updates`."""
        updated = [value.copy() for value in updates]
        output = self.compute(op, inputs, updated)
        return tuple(updated) if output is None else (output, *updated)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        """Largest number of roundings that a term of its results goes through in the kernel.

        0 for an op that only moves elements, which must be exact. By default as many as there are
        multiply-accumulates to an element of the result, which is enough for a sum in any order,
        and two more, for a bias and a division.

        Args:
            op: the op.
            inputs: shapes of its inputs.
        """
        tensors = [Tensor(name, shape) for name, shape in zip(op.inputs, inputs, strict=True)]
        output = infer_output(op, tensors, Role.ACTIVATION)
        elements = max(tensor.elements for tensor in ([output] if output else tensors))
        return -(-self.work(op, tensors, output).macs // elements) + 2

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        """Error bound of each element of a device's results, against `results` in float64.

        A device calculates in float32 on the same inputs; the bound covers every rounding of a
        correct kernel, and little more. The default is that of sums of products: gamma_n times the
        results, for n `roundings`, with the inputs' magnitudes where terms may cancel (Higham,
        section 3.1). Other ops override it.

        Args:
            op: the op.
            inputs: what it read, in float64, or int32 for classes.
            updates: what it updated, as that was before, in float64.
        """
        count = self.roundings(op, [value.shape for value in inputs])
        if count == 0:
            return tuple(np.zeros_like(value) for value in self.results(op, inputs, updates))
        if self.cancels:
            inputs, updates = [[magnitude(v) for v in values] for values in (inputs, updates)]
        return tuple(
            gamma(count) * np.abs(value) + SMALLEST_NORMAL
            for value in self.results(op, inputs, updates)
        )

    def parts(self, op: Op, graph: Graph) -> Graph | None:
        """Graph of the ops that it runs one after the other, whose costs add up to its own.

        None for an op with a cost of its own.
        """
        return None

    def offset_bytes(self, op: Op, x: Tensor) -> int | None:
        """Offset in bytes of its output in its input x, if it is a contiguous part of x; else None.

        No op has to run then: readers of its output read x.
        """
        return None

    def training_form(self, op: Op, tape: Tape) -> None:
        """Append the ops that stand for this one in the forward pass of a training step."""
        tape.emit(op.kind, op.name, op.inputs, op.attributes, output=op.output)

    def evaluation_form(self, op: Op, tape: Tape) -> None:
        """Append the ops that stand for this one in an evaluation step."""
        tape.emit(op.kind, op.name, op.inputs, op.attributes, output=op.output)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        """Append the ops that propagate the gradient of the output to the inputs.

        Called for ops as they stand in the training forward pass, in reverse order.

        Raises:
            ModelError: The operator has no gradient.
        """
        raise ModelError(f"op {op.name!r}: operator {self.name!r} has no gradient")


def gradient_from_output(op: Op, tape: Tape, output_gradient: str) -> None:
    """The gradient rule of a one-input op whose backward kind reads its output y and dy."""
    (x,) = op.inputs
    if tape.needs_gradient(x):
        assert op.output is not None
        inputs = (op.output, output_gradient)
        tape.add_gradient(x, tape.emit(f"{op.kind}_backward", f"{op.name}.backward", inputs))


class LossKind(OpKind):
    """An op that turns a prediction and its target into the scalar that training minimises.

    Its inputs are (prediction, target); it has no output and updates one persistent tensor [1].
    """

    @abstractmethod
    def start_gradient(self, op: Op, tape: Tape) -> None:
        """Append the op that the backward pass starts with: the gradient of the prediction."""


KINDS: dict[str, OpKind] = {}
"""Every operator, by name. Filled by `register` as the modules of this package are imported."""

_Kind = TypeVar("_Kind", bound=type[OpKind])


def register(kind: _Kind) -> _Kind:
    """Class decorator: makes an operator known under its name."""
    assert kind.name not in KINDS, kind.name
    KINDS[kind.name] = kind()
    return kind


def kind_of(op: Op) -> OpKind:
    """The operator of an op.

    Raises:
        ModelError: No operator of that name exists.
    """
    try:
        return KINDS[op.kind]
    except KeyError:
        raise ModelError(
            f"op {op.name!r} is a {op.kind!r}, which is not an operator of poetfw",
            "use one of: " + ", ".join(sorted(KINDS)),
        ) from None


def in_variants(op: Op, graph: Graph) -> tuple[Op, ...]:
    """An op with the kernel for its shape, then with each of its other kernels."""
    plain = {name: value for name, value in op.attributes.items() if name != VARIANT}
    return (
        replace(op, attributes=plain),
        *(
            replace(op, attributes={**plain, VARIANT: name})
            for name in kind_of(op).variants(op, graph)
        ),
    )


def infer_output(op: Op, inputs: Sequence[Tensor], role: Role) -> Tensor | None:
    """The output tensor of an op whose inputs are known, or None where it has none."""
    inferred = kind_of(op).infer(op, inputs)
    if inferred is None:
        return None
    assert op.output is not None, op.name
    shape, dtype = inferred
    return Tensor(op.output, shape, dtype, role)


def check_shapes(graph: Graph) -> None:
    """Check every op's output against its shape rule.

    Raises:
        ModelError: An output has another shape or type than its op produces.
    """
    for op in graph.ops:
        inferred = kind_of(op).infer(op, [graph.by_name[name] for name in op.inputs])
        if op.output is None:
            actual = None
        else:
            output = graph.by_name[op.output]
            actual = (output.shape, output.dtype)
        if inferred != actual:
            raise ModelError(f"op {op.name!r} has output {actual}, but its inputs give {inferred}")


def expect_inputs(op: Op, inputs: Sequence[Tensor], *counts: int) -> None:
    """Check the number of inputs.

    Raises:
        ModelError: There are not as many as one of `counts`.
    """
    if len(inputs) not in counts:
        wanted = " or ".join(map(str, counts))
        raise ModelError(f"op {op.name!r} ({op.kind}) has {len(inputs)} inputs, not {wanted}")


def expect_floats(op: Op, inputs: Sequence[Tensor], *counts: int) -> None:
    """Check the number of inputs, and that all are f32.

    Raises:
        ModelError: There are not as many as one of `counts`, or one is of another type.
    """
    expect_inputs(op, inputs, *counts)
    for tensor in inputs:
        expect_dtype(op, tensor, Dtype.F32)


def expect_dtype(op: Op, tensor: Tensor, dtype: Dtype) -> None:
    """Check a tensor's element type.

    Raises:
        ModelError: It has another one.
    """
    if tensor.dtype is not dtype:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs {tensor.name!r} to be {dtype}, not {tensor.dtype}"
        )


def expect_rank(op: Op, tensor: Tensor, rank: int) -> None:
    """Check a tensor's rank.

    Raises:
        ModelError: It has another one.
    """
    if len(tensor.shape) != rank:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs {tensor.name!r} to have {rank} axes, "
            f"but its shape is {list(tensor.shape)}"
        )


def expect_shape(op: Op, tensor: Tensor, shape: Shape) -> None:
    """Check a tensor's shape.

    Raises:
        ModelError: It has another one.
    """
    if tensor.shape != shape:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs {tensor.name!r} to have shape {list(shape)}, "
            f"not {list(tensor.shape)}"
        )


def expect_integers(op: Op, name: str, minimum: int, count: int | None = None) -> tuple[int, ...]:
    """The attribute `name`: a tuple of `count` (None: any number of) ints of at least `minimum`.

    Raises:
        ModelError: It is missing, something else, or beyond `LARGEST_INTEGER`.
    """
    value = op.attributes.get(name)
    if (
        not isinstance(value, tuple)
        or (count is not None and len(value) != count)
        or not all(isinstance(entry, int) and entry >= minimum for entry in value)
    ):
        many = "" if count is None else f"{count} "
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs attribute {name!r} to be {many}ints of at least "
            f"{minimum}, not {value!r}"
        )
    integers = cast(tuple[int, ...], value)
    _expect_small(op, name, integers)
    return integers


def expect_integer(op: Op, name: str, minimum: int, maximum: int | None = None) -> int:
    """The attribute `name`: an int within [minimum, maximum].

    Raises:
        ModelError: It is missing, something else, or beyond `LARGEST_INTEGER`.
    """
    value = op.attributes.get(name)
    if not isinstance(value, int) or value < minimum or (maximum is not None and value > maximum):
        wanted = f"at least {minimum}" if maximum is None else f"in [{minimum}, {maximum}]"
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs attribute {name!r} to be an int {wanted}, "
            f"not {value!r}"
        )
    _expect_small(op, name, (value,))
    return value


def _expect_small(op: Op, name: str, values: Sequence[int]) -> None:
    if any(value > LARGEST_INTEGER for value in values):
        raise ModelError(
            f"op {op.name!r} ({op.kind}) has attribute {name!r} beyond {LARGEST_INTEGER}: "
            f"{max(values)}"
        )


def expect_number(op: Op, name: str, minimum: float, maximum: float = math.inf) -> float:
    """The attribute `name`: a finite number within [minimum, maximum].

    Raises:
        ModelError: It is missing or something else.
    """
    value = op.attributes.get(name)
    if (
        not isinstance(value, int | float)
        or not math.isfinite(value)
        or not minimum <= value <= maximum
    ):
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs attribute {name!r} to be a finite number in "
            f"[{minimum}, {maximum}], not {value!r}"
        )
    return float(value)


def bytes_of(*tensors: Tensor | None) -> int:
    """Bytes of the given tensors together."""
    return sum(tensor.size_bytes for tensor in tensors if tensor is not None)
