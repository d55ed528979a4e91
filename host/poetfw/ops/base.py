# SPDX-License-Identifier: Apache-2.0
"""Interface of operators: shape rule, gradient rule, reference, work, and C kernel.

An operator consists of a file in this folder, which registers its kinds, and a C file and header in
`firmware_templates/kernels/` with the kernels that its `Kernel` bindings name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.kernels import Product, Task
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma, magnitude

Array = NDArray[Any]
Shape = tuple[int, ...]
Arrays = Sequence[Array]
"""Values of several tensors."""

Bounds = tuple[Array, ...]
"""Error bounds of an op's results, element by element: of its output, or of what it updates."""


@dataclass(frozen=True, slots=True)
class TileTable:
    """The address of a table of tiles that a core with an FPU runs; a null pointer on other cores.

    Attributes:
        of: what they compute.
    """

    of: Task

    @property
    def plain_loop(self) -> str:
        """The macro of `PLAIN_LOOPS` that its kind of ops has."""
        return "POET_PLAIN_" + ("MATMUL" if isinstance(self.of, Product) else "CONV2D")


Loops = tuple[tuple[int, ...], ...]
"""Nested loops of a kernel: see `Kernel.loops`."""
Field = int | float | str | tuple[float, ...] | TileTable
"""A constant of a kernel: a number, a C function's name, or the address of a table of floats or
of tiles."""

LARGEST_INTEGER = 2**31 - 1
"""Largest integer attribute of an op, as a kernel's constants are 32-bit integers."""


@dataclass(frozen=True, slots=True)
class OpWork:
    """Work of one execution of an op, independent of any board.

    Attributes:
        macs: multiply-accumulates, padding included; other arithmetic counts one per element.
        bytes_moved: bytes of RAM read and written, counting each operand once.
        storage_bytes: bytes read from storage.
    """

    macs: int
    bytes_moved: int
    storage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Constants:
    """Kernel argument: address of a struct of constants, some of which are function pointers.

    Attributes:
        sources: files of the functions, as in `Kernel`; the first declares the struct.
        struct: tag of the struct.
        member: first member of the struct, whose address is the argument.
        fields: constants in the order of the struct.
    """

    sources: tuple[str, ...]
    struct: str
    member: str
    fields: tuple[tuple[str, Field], ...]


DIVISORS: Mapping[str, str] = {
    "POET_BATCH_NORM_PLANE": "elements of a feature map",
    "POET_BATCH_NORM_ROWS": "rows of a feature map",
    "POET_BATCH_NORM_WIDTH": "elements of a row",
    "POET_RELU_ELEMENTS": "elements of x",
}
"""Macros of `kernels/shapes.h`, with the extents of all layers whose common divisor they are."""

PLAIN_LOOPS: Mapping[str, str] = {
    "POET_PLAIN_CONV2D": "convolutions may run without tiles",
    "POET_PLAIN_MATMUL": "products of matrices may",
}
"""Macros of `kernels/shapes.h` that are 0 where tiles compute all ops of a kind."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """C call of an op's kernel.

    The call is `function([&constants,] arguments...[, workspace])`, where the constants are a
    `const struct <struct>` with the given fields, and an argument of None is a null pointer.

    Attributes:
        source: name of the file in `firmware_templates/kernels/`, without its ending.
        function: name of the C function.
        arguments: names of tensors, and further constants, in order.
        struct: tag of the struct of constants, the first argument; None without constants.
        fields: constants in the order of the struct.
        workspace_bytes: size of its workspace.
        fallible: True if it returns an error code that the caller must check.
        divided: names of `DIVISORS`, with the extents that the kernel processes in blocks.
        calls: further files with functions that are named in the constants.
        loops: its nested loops from the outermost on, as far as its time depends on them: of each
            its extent, and the blocks that it goes by, each size within what the last one leaves.
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
    loops: Loops = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Files needed by the call and its constants."""
        constants = (argument for argument in self.arguments if isinstance(argument, Constants))
        further = (source for argument in constants for source in argument.sources)
        return tuple(source for source in (self.source, *self.calls, *further) if source)


LETTERS = "abdefghjklmpqsuvwxyz"
"""Letters of dimensions that have no meaning of their own."""


def vector_letters(shape: Shape) -> str:
    """Letters of the axes of a tensor that is cut along all but the last one.

    Those of images [N, C, H, W] are samples, channels and rows.
    """
    if len(shape) == 4:
        return "ncr."
    letters = iter(LETTERS)
    return "".join("." if extent == 1 else next(letters) for extent in shape[:-1]) + "."


class Axes(NamedTuple):
    """Dimensions of an op's operands, a letter for each axis, as in an Einstein summation.

    Operands with a letter in common are cut together along it. `.` is an axis that is never cut.
    `R` is cut into the rows that some rows `r` of the results are computed from. All terms of a sum
    are within one piece if the op is cut along dimensions of all of its results, and no others.

    Attributes:
        inputs: letters of each input.
        results: letters of the output, if any, and of each updated tensor.
    """

    inputs: tuple[str, ...]
    results: tuple[str, ...]


def channel_axes(inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
    """Dimensions of images [N, C, H, W] whose channels do not meet; None for other shapes."""
    if any(len(tensor.shape) != 4 for tensor in (*inputs, *results)):
        return None
    return Axes(("nc..",) * len(inputs), ("nc..",) * len(results))


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Rows of an input that some rows of the output are computed from.

    Attributes:
        first: first row.
        count: number of rows.
        padding: padding of an op on these rows alone.
    """

    first: int
    count: int
    padding: tuple[int, ...]


class Parts(NamedTuple):
    """Ops that an op consists of.

    Attributes:
        graph: the ops.
        times: how often each of them runs, by name, if it is not once.
    """

    graph: Graph
    times: Mapping[str, int] = MappingProxyType({})


class Tape(Protocol):
    """Interface of the training graph under construction, for training forms and gradient rules."""

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

        The output is named `output` or, if that is None, after the op.
        """

    def shape(self, tensor: str) -> Shape:
        """Shape of an existing tensor."""

    def needs_gradient(self, tensor: str) -> bool:
        """True if a trained parameter contributes to the tensor."""

    def trained_channels(self, x: str, w: str) -> str:
        """Name of the channels of input x that the trained part of weight w reads.

        A slice of x if w is trained in part, otherwise x itself.
        """

    def add_gradient(self, tensor: str, gradient: str) -> None:
        """Record that `gradient` is (a part of) the gradient with respect to `tensor`."""


class OpKind(ABC):
    """Operator; stateless, as all data of a use is in its `Op`."""

    name: str
    """Name of the operator, as in `Op.kind`."""
    recomputable: ClassVar[bool] = True
    """True if it can be recomputed in a training step with the same bits and no side effects."""
    in_place: ClassVar[tuple[int, ...]] = ()
    """Positions of inputs that the output may overwrite: the op reads each of their elements before
    it writes the element in the same place, and never reads it again."""
    view: ClassVar[bool] = False
    """True if the output has the bytes of the input, so that no code runs if it is in place."""
    pointwise: ClassVar[bool] = False
    """True if each output element depends only on the element of the single input in the same
    place, so that the op gives the same values for any shape."""
    onnx: ClassVar[str | None] = None
    """Equivalent ONNX operator without attributes; None if ONNX has no such operator, or if
    `poetfw.importers.onnx` has a rule that reads it."""
    cancels: ClassVar[bool] = True
    """True if it adds terms of both signs, so that rounding errors are relative to the result for
    the inputs' magnitudes, not to the result itself."""
    positive: ClassVar[tuple[int, ...]] = ()
    """Positions of inputs that must not be negative, such as variances."""
    counts: ClassVar[bool] = False
    """True if it updates counters and values derived from them, which begin at 0."""
    branches: ClassVar[bool] = False
    """True if its kernel branches on values of elements, so that its time depends on the data even
    with an FPU. Such kernels are element-wise, with inputs of equal shapes."""
    stops_gradient: ClassVar[bool] = False
    """True if it propagates no gradient."""
    summarizes: ClassVar[bool] = False
    """True if its output has statistics of the input, such as variances."""
    applies: ClassVar[bool] = False
    """True if it applies a gradient to a parameter, the first tensor in its `updates`."""
    streams: ClassVar[bool] = False
    """True if its output is a gradient, and its kernel has a variant `<function>_update_f32` that
    passes each complete element to an optimizer (`poetfw.ops.update`)."""
    summed: ClassVar[str] = ""
    """Dimension of its axes over which it sums in order, with a kernel variant
    `<function>_continued_f32` that adds to the result (`poetfw.ops.continued`); empty without."""
    carries: ClassVar[tuple[int, ...]] = ()
    """Positions of inputs whose errors `carried` knows the effect of."""
    summed_unit: ClassVar[int] = 1
    """Extent of that dimension whose terms are summed before their sum is added to the result."""

    @abstractmethod
    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype] | None:
        """Infer shape and type of the output, or None without one, from those of the inputs.

        Raises:
            ModelError: The inputs or attributes do not fit this operator.
        """

    @abstractmethod
    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array | None:
        """Reference implementation on NumPy arrays, in the precision of the inputs.

        `updates` are modified in place.
        """

    @abstractmethod
    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        """Work of one execution."""

    @abstractmethod
    def kernel(self, op: Op, graph: Graph) -> Kernel:
        """The C call that runs it."""

    def never_negative(self, op: Op) -> tuple[str, ...]:
        """Names of the inputs that must not be negative."""
        return tuple(op.inputs[position] for position in self.positive)

    def workspace_bytes(self, op: Op, graph: Graph) -> int:
        """Size of the workspace in bytes."""
        return self.kernel(op, graph).workspace_bytes

    def results(
        self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Results of `compute`: the output, if any, and the new values of `updates`."""
        updated = [value.copy() for value in updates]
        output = self.compute(op, inputs, updated)
        return tuple(updated) if output is None else (output, *updated)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        """Largest number of roundings of a term of its results in the kernel.

        0 for ops that only move elements, which must be exact. The default is the number of
        multiply-accumulates per element of the result, which is enough for a sum in any order, plus
        two for a bias and a division.

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

        A device calculates in float32 on the same inputs; the bound covers all roundings of a
        correct kernel, and little more. The default is that of sums of products: gamma_n times the
        results, for n `roundings`, with the inputs' magnitudes if terms may cancel (Higham, section
        3.1). Other ops override it.

        Args:
            op: the op.
            inputs: values of the inputs in float64, or int32 for classes.
            updates: values of updated tensors before the op, in float64.
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

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        """Bounds of what results change by in exact arithmetic if inputs are off.

        The default is that of ops whose output is linear in the inputs at positions `carries`
        together, with coefficients that are sums of products of the others, or changes by less.

        Args:
            op: the op.
            inputs: values of the inputs in float64.
            errors: bounds of the errors of those at positions `carries`, 0 for others.
            updates: values of updated tensors before the op, in float64.
        """
        pairs = enumerate(zip(inputs, errors, strict=True))
        given = [error if k in self.carries else magnitude(value) for k, (value, error) in pairs]
        change = self.compute(op, given, updates)
        assert change is not None, op.kind
        return (change,)

    def parts(self, op: Op, graph: Graph) -> Parts | None:
        """Ops of which it consists, and whose costs add up to its own.

        None for an op with a cost of its own.
        """
        return None

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        """Dimensions along which it can be cut into pieces with the same bits.

        None for an op that runs on whole tensors only.

        Args:
            op: the op.
            inputs: its inputs.
            results: its output, if any, and the tensors that it updates.
        """
        return None

    def piece_attributes(self, op: Op, whole: Tensor, piece: Tensor) -> dict[str, Attribute]:
        """Attributes that the op has on a piece of its first result, unlike on the whole."""
        shapes = ("input_shape", "weight_shape")
        return {name: piece.shape for name in shapes if op.attributes.get(name) == whole.shape}

    def row_window(self, op: Op, shapes: Sequence[Shape], first: int, count: int) -> RowWindow:
        """Rows `R` of an input for `count` rows `r` of the results, of an op with such axes.

        Args:
            op: the op.
            shapes: shapes of its inputs.
            first: first row of the piece.
            count: number of rows.
        """
        raise NotImplementedError(op.kind)

    def offset_bytes(self, op: Op, x: Tensor) -> int | None:
        """Offset in bytes of the output in input x if it is a contiguous part of x, otherwise None.

        Such an op need not run, as readers of its output can read x.
        """
        return None

    def training_form(self, op: Op, tape: Tape) -> None:
        """Append the ops that replace this one in the forward pass of a training step."""
        tape.emit(op.kind, op.name, op.inputs, op.attributes, output=op.output)

    def evaluation_form(self, op: Op, tape: Tape) -> None:
        """Append the ops that replace this one in an evaluation step."""
        tape.emit(op.kind, op.name, op.inputs, op.attributes, output=op.output)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        """Append the ops that propagate the gradient of the output to the inputs.

        Called for the ops of the training step's forward pass, in reverse order.

        Raises:
            ModelError: The operator has no gradient.
        """
        raise ModelError(f"op {op.name!r}: operator {self.name!r} has no gradient")


def gradient_from_output(op: Op, tape: Tape, output_gradient: str) -> None:
    """Gradient rule of an op with one input, whose backward op reads its output y and dy."""
    (x,) = op.inputs
    if tape.needs_gradient(x):
        assert op.output is not None
        inputs = (op.output, output_gradient)
        tape.add_gradient(x, tape.emit(f"{op.kind}_backward", f"{op.name}.backward", inputs))


class LossKind(OpKind):
    """Op that computes the scalar loss from a prediction and its target.

    Its inputs are (prediction, target); it has no output and updates one persistent tensor [1].
    """

    @abstractmethod
    def start_gradient(self, op: Op, tape: Tape) -> None:
        """Append the first op of the backward pass: the gradient of the prediction."""


KINDS: dict[str, OpKind] = {}
"""All operators by name, registered by the modules of this package on import."""

_Kind = TypeVar("_Kind", bound=type[OpKind])


def register(kind: _Kind) -> _Kind:
    """Class decorator that registers an operator under its name."""
    assert kind.name not in KINDS, kind.name
    KINDS[kind.name] = kind()
    return kind


def kind_of(op: Op) -> OpKind:
    """Operator of an op.

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


def infer_output(op: Op, inputs: Sequence[Tensor], role: Role) -> Tensor | None:
    """Infer the output tensor of an op from its inputs; None without an output."""
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
        ModelError: The number of inputs is not one of `counts`.
    """
    if len(inputs) not in counts:
        wanted = " or ".join(map(str, counts))
        raise ModelError(f"op {op.name!r} ({op.kind}) has {len(inputs)} inputs, not {wanted}")


def expect_floats(op: Op, inputs: Sequence[Tensor], *counts: int) -> None:
    """Check the number of inputs, and that all are f32.

    Raises:
        ModelError: The number of inputs is not one of `counts`, or an input has another type.
    """
    expect_inputs(op, inputs, *counts)
    for tensor in inputs:
        expect_dtype(op, tensor, Dtype.F32)


def expect_dtype(op: Op, tensor: Tensor, dtype: Dtype) -> None:
    """Check a tensor's element type.

    Raises:
        ModelError: The tensor has another one.
    """
    if tensor.dtype is not dtype:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs {tensor.name!r} to be {dtype}, not {tensor.dtype}"
        )


def expect_rank(op: Op, tensor: Tensor, rank: int) -> None:
    """Check a tensor's rank.

    Raises:
        ModelError: The tensor has another one.
    """
    if len(tensor.shape) != rank:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs {tensor.name!r} to have {rank} axes, "
            f"but its shape is {list(tensor.shape)}"
        )


def expect_shape(op: Op, tensor: Tensor, shape: Shape) -> None:
    """Check a tensor's shape.

    Raises:
        ModelError: The tensor has another one.
    """
    if tensor.shape != shape:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) needs {tensor.name!r} to have shape {list(shape)}, "
            f"not {list(tensor.shape)}"
        )


def expect_integers(op: Op, name: str, minimum: int, count: int | None = None) -> tuple[int, ...]:
    """Attribute `name`, a tuple of `count` ints (None for any number) of at least `minimum`.

    Raises:
        ModelError: The attribute is missing, has another type, or exceeds `LARGEST_INTEGER`.
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
    """Attribute `name`, an int within [minimum, maximum].

    Raises:
        ModelError: The attribute is missing, has another type, or exceeds `LARGEST_INTEGER`.
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
    """Attribute `name`, a finite number within [minimum, maximum].

    Raises:
        ModelError: The attribute is missing or has another type.
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
    """Total size of the given tensors in bytes."""
    return sum(tensor.size_bytes for tensor in tensors if tensor is not None)


def parts_of(op: Op, graph: Graph) -> Iterator[tuple[Op, Graph, int]]:
    """Ops whose costs add up to those of an op: itself if it has no parts.

    Each with its graph, and how often it runs: slices are alike but for their names.
    """
    parts = kind_of(op).parts(op, graph)
    if parts is None:
        yield op, graph, 1
        return
    for each in parts.graph.ops:
        for part, where, times in parts_of(each, parts.graph):
            yield part, where, times * parts.times.get(each.name, 1)
