# SPDX-License-Identifier: Apache-2.0
"""Buffers that a program writes, as spectral norm and moving averages do.

A write becomes the operator that returns its result, and the last one of a buffer is marked: what
it gives is what the next step begins with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.file import Exported
from poetfw.importers.torch_export.rules import RULES

MOVED = "torch.ops.poetfw.moved.default"
"""Operator that marks the new value of a buffer: of the value, and of the buffer."""
_ATEN = "torch.ops.aten."
_INTO = {"div.out": "div.Tensor"}
"""Operators that write into an argument `out`, and those that return the result."""


def with_moved_buffers(exported: Exported) -> schema.ExportedProgram:
    """Replace writes of whole float32 buffers by values of their own.

    Buffers of several names are left as they are.
    """
    program, module = exported.program, exported.program.graph_module
    specs = module.signature.input_specs
    buffers = {spec.buffer.arg.name for spec in specs if spec.buffer is not None}
    values = module.graph.tensor_values
    known = Counter(id(weight) for weight in exported.weights.values())
    floats = {
        name
        for name in buffers.intersection(values, exported.weights)
        if values[name].dtype == schema.FLOAT and known[id(exported.weights[name])] == 1
    }
    written: dict[int, str] = {}  # buffers by the number of the node that writes them
    names = {name: name for name in floats}  # buffers by the names that they go by
    for at, node in enumerate(module.graph.nodes):
        argument = _written_argument(node)
        buffer = names.get(argument or "")
        if buffer is not None and len(node.gives) == 1:
            written[at] = buffer
            names[node.gives[0]] = buffer
    if not written:
        return program
    last = {buffer: at for at, buffer in written.items()}
    current: dict[str, str] = {}  # names that buffers were written under, to that of their value
    nodes: list[schema.OperatorCall] = []
    values = dict(values)
    for at, node in enumerate(module.graph.nodes):
        node = _reading(node, current)
        if at not in written:
            nodes.append(node)
            continue
        buffer, (result,) = written[at], node.gives
        is_last = last[buffer] == at
        made = f"{result}/written" if is_last else result
        values[made] = values[result]
        nodes.append(_returning(node, made))
        if is_last:
            nodes.append(_marked(node, made, buffer, result))
        current |= {name: result for name, of in names.items() if of == buffer}
    outputs = [
        each
        if each.user_output is None
        else schema.OutputSpec(
            user_output=schema.UserSpec(
                arg=schema.renamed(each.user_output.arg, lambda name: current.get(name, name))
            )
        )
        for each in module.signature.output_specs
    ]
    graph = module.graph.model_copy(update={"nodes": nodes, "tensor_values": values})
    signature = module.signature.model_copy(update={"output_specs": outputs})
    renewed = schema.GraphModule(graph=graph, signature=signature)
    return program.model_copy(update={"graph_module": renewed})


def _written_argument(node: schema.OperatorCall) -> str | None:
    """Name of the whole tensor that an operator writes, if its result can be returned instead."""
    target = node.target.removeprefix(_ATEN)
    if target in _INTO:
        found = [schema.tensors_in(each.arg) for each in node.inputs if each.name == "out"]
        return found[0][0] if found and found[0] else None
    name, _, overload = target.partition(".")
    in_place = node.target.startswith(_ATEN) and name.endswith("_") and not name.endswith("__")
    if not in_place or f"{name.removesuffix('_')}.{overload}" not in RULES:
        return None
    return next(iter(node.reads), None)


def _reading(node: schema.OperatorCall, current: Mapping[str, str]) -> schema.OperatorCall:
    """The node, which reads what its buffers hold now."""
    inputs = [
        each.model_copy(
            update={"arg": schema.renamed(each.arg, lambda name: current.get(name, name))}
        )
        for each in node.inputs
    ]
    return node.model_copy(update={"inputs": inputs})


def _returning(node: schema.OperatorCall, result: str) -> schema.OperatorCall:
    """The operator that returns what this one writes, under another name."""
    target = node.target.removeprefix(_ATEN)
    name, _, overload = target.partition("_.")
    plain = _INTO.get(target, f"{name}.{overload}")
    return node.model_copy(
        update={
            "target": _ATEN + plain,
            "inputs": [each for each in node.inputs if each.name != "out"],
            "outputs": [{"as_tensor": {"name": result}}],
        }
    )


def _marked(node: schema.OperatorCall, value: str, buffer: str, result: str) -> schema.OperatorCall:
    inputs = [
        schema.Input(name=name, arg={"as_tensor": {"name": tensor}})
        for name, tensor in (("self", value), ("buffer", buffer))
    ]
    update = {"target": MOVED, "inputs": inputs, "outputs": [{"as_tensor": {"name": result}}]}
    return node.model_copy(update=update)
