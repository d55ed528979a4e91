# SPDX-License-Identifier: Apache-2.0
"""Part of an exported program's JSON that poetfw reads: schema version 8 of `torch.export`.

Fields that do not affect the computation are left out, and newer fields are ignored: a change that
they describe affects an operator or an argument, which is refused if unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_MAJOR = 8
UINT8, INT8 = 1, 2
INT, LONG, HALF, FLOAT, DOUBLE, BOOL, BFLOAT = 4, 5, 6, 7, 8, 12, 13
DTYPES = {
    UINT8: "uint8",
    INT8: "int8",
    3: "int16",
    INT: "int32",
    LONG: "int64",
    HALF: "float16",
    FLOAT: "float32",
    DOUBLE: "float64",
    BOOL: "bool",
    BFLOAT: "bfloat16",
}
"""Names of `torch.dtype`s, by number in the schema."""
OTHER_FLOATS = (HALF, DOUBLE, BFLOAT)
"""Floating-point types that poetfw does not train with."""
AS_FLOAT = "export it in float32: torch.export.export(net.float(), (example.float(),))"
"""Advice for a network of such a type."""
STRIDED = 7

Text = Annotated[str, Field(max_length=100_000)]


class _Read(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class SymbolicSize(_Read):
    """A symbolic size."""

    expr_str: Text


class Size(_Read):
    """An extent, a stride or an offset: a number, or an expression if it is symbolic."""

    as_int: int | None = None
    as_expr: SymbolicSize | None = None


class TensorMeta(_Read):
    """Shape, type and layout of a tensor."""

    dtype: int
    sizes: Annotated[tuple[Size, ...], Field(strict=False, max_length=16)]
    strides: Annotated[tuple[Size, ...], Field(strict=False, max_length=16)]
    storage_offset: Size
    layout: int
    requires_grad: bool


class Name(_Read):
    """A tensor, by name."""

    name: Text


class Input(_Read):
    """An argument of a node; `arg` has one entry, whose key names the value's type."""

    name: Text
    arg: dict[str, Any]


class OperatorCall(_Read):
    """A call of an operator."""

    target: Text
    inputs: list[Input]
    outputs: list[dict[str, Any]]
    metadata: dict[str, Any] = {}

    @property
    def reads(self) -> list[str]:
        """Names of the tensors in its arguments, in order."""
        return [name for each in self.inputs for name in tensors_in(each.arg)]

    @property
    def gives(self) -> list[str]:
        """Names of its results, in order."""
        return [name for output in self.outputs for name in tensors_in(output)]


class ExportedGraph(_Read):
    """A graph, with nodes in execution order."""

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    nodes: list[OperatorCall]
    tensor_values: dict[str, TensorMeta]


class ParameterSpec(_Read):
    """Input of the graph that is a parameter."""

    arg: Name
    parameter_name: Text


class BufferSpec(_Read):
    """Input of the graph that is a buffer."""

    arg: Name
    buffer_name: Text
    persistent: bool = True


class ConstantSpec(_Read):
    """Input of the graph that is a constant tensor."""

    arg: Name
    tensor_constant_name: Text


class UserSpec(_Read):
    """Input or output of the graph that is the user's."""

    arg: dict[str, Any]


class Named(NamedTuple):
    """A stored tensor: name of the graph's input, and name; in the state dict if it is listed."""

    argument: str
    name: str
    is_parameter: bool
    is_listed: bool = True


class InputSpec(_Read):
    """Kind of a graph's input: one of these, or something else."""

    parameter: ParameterSpec | None = None
    buffer: BufferSpec | None = None
    tensor_constant: ConstantSpec | None = None
    user_input: UserSpec | None = None

    @property
    def named(self) -> Named | None:
        """Stored tensor that the input is; None if it is something else."""
        if self.parameter is not None:
            return Named(self.parameter.arg.name, self.parameter.parameter_name, True)
        if self.buffer is not None:
            buffer = self.buffer
            return Named(buffer.arg.name, buffer.buffer_name, False, buffer.persistent)
        if self.tensor_constant is not None:
            constant = self.tensor_constant
            return Named(constant.arg.name, constant.tensor_constant_name, False, False)
        return None


class OutputSpec(_Read):
    """Kind of a graph's output: the user's, or something else."""

    user_output: UserSpec | None = None


class Signature(_Read):
    """Kinds of inputs and outputs, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]


class GraphModule(_Read):
    """The graph, and the kinds of its inputs and outputs."""

    graph: ExportedGraph
    signature: Signature


class Version(_Read):
    """Version of the schema."""

    major: int
    minor: int


class ExportedProgram(_Read):
    """An exported program."""

    graph_module: GraphModule
    verifiers: list[str] = []


class Stored(_Read):
    """Location of a weight's bytes."""

    path_name: Text
    use_pickle: bool
    tensor_meta: TensorMeta


class Weights(_Read):
    """Locations of all weights' bytes, by name in the state dict."""

    config: dict[str, Stored]


def tensors_in(argument: Mapping[str, Any]) -> list[str]:
    """Names of the tensors in an argument of the file."""
    found: list[str] = []
    for key, value in argument.items():
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            if isinstance(entry, dict):
                inner = entry.get("as_tensor", entry) if key.startswith("as_optional") else entry
                if key in ("as_tensor", "as_tensors", "as_optional_tensors") and isinstance(
                    inner, dict
                ):
                    name = inner.get("name")
                    found += [name] if isinstance(name, str) else []
    return found


def renamed(argument: Mapping[str, Any], name_of: Callable[[str], str]) -> dict[str, Any]:
    """Argument of the file with tensors renamed."""

    def each(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [each(key, entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if key.startswith("as_optional") and "name" not in value:
            return {inner: each(inner, entry) for inner, entry in value.items()}
        return {**value, "name": name_of(value["name"])} if "name" in value else value

    tensors = ("as_tensor", "as_tensors", "as_optional_tensors")
    return {key: each(key, value) if key in tensors else value for key, value in argument.items()}
