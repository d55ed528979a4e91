# SPDX-License-Identifier: Apache-2.0
"""Assignments to parts of tensors, rewritten as functions of the whole tensor.

As PyTorch's functionalisation does: a view is a chain of operators from its base, a write to it is
a new value of the base, and views that are read after it are taken from that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.rules import RULES, VIEWS

_ATEN = "torch.ops.aten."
_WRITES = ("copy_.default", "fill_.Scalar", "fill_.Tensor", "index_put_.default")
"""Operators that assign, whatever the tensor held before."""


@dataclass(frozen=True)
class _Alias:
    """A name of a tensor's storage.

    Attributes:
        base: name of the tensor that owns the storage.
        chain: views from the base to this one.
        names: their results' names; the last is this one.
    """

    base: str
    chain: tuple[schema.OperatorCall, ...] = ()
    names: tuple[str, ...] = ()


def without_assignments(program: schema.ExportedProgram) -> schema.ExportedProgram:
    """Replace assignments to computed tensors, and to views of them, by functional operators.

    Other operators in place are left as they are, as are tensors with a view that has no inverse
    here, and inputs, parameters and buffers: whoever reads them sees what changed them.
    """
    refused: set[str] = set()
    while True:
        rewriting = _Rewriting(program.graph_module, refused)
        rewritten = rewriting.run()
        if rewriting.refused == refused:
            return program.model_copy(update={"graph_module": rewritten})
        refused = rewriting.refused


class _Rewriting:
    """One pass over a graph.

    Attributes:
        refused: bases whose views or writes are not understood.
    """

    def __init__(self, module: schema.GraphModule, refused: set[str]) -> None:
        self.refused = set(refused)
        self._module = module
        self._values = dict(module.graph.tensor_values)
        self._nodes: list[schema.OperatorCall] = []
        self._aliases: dict[str, _Alias] = {}
        self._current: dict[str, str] = {}
        self._made = 0
        self._written = self._assigned() - self.refused

    def _assigned(self) -> set[str]:
        """Bases that an assignment changes, or any operator through a view."""
        inputs = {name for each in self._module.graph.inputs for name in schema.tensors_in(each)}
        found: set[str] = set()
        for node in self._module.graph.nodes:
            self._enter(node)
            if node.reads and node.target not in _INVERSES and _may_be_view(node):
                inputs.update(node.gives)  # whose base is not known
            alias = self._aliases.get(next(iter(node.reads), ""))
            if alias is None or not _is_in_place(node) or alias.base in inputs:
                continue
            if all(name in self._values for name in (alias.base, *alias.names)):
                if alias.chain or node.target.removeprefix(_ATEN) in _WRITES:
                    found.add(alias.base)
        self._aliases.clear()
        return found

    def _enter(self, node: schema.OperatorCall) -> None:
        """Record which storage a node's results are names of."""
        source = next(iter(node.reads), "")
        known = self._aliases.get(source, _Alias(source))
        if _is_in_place(node):
            results = dict.fromkeys(node.gives[:1], known)
        elif node.target in _INVERSES:
            results = {
                name: _Alias(known.base, (*known.chain, node), (*known.names, name))
                for name in node.gives
            }
        else:
            results = {name: _Alias(name) for name in node.gives}
        self._aliases.update(results)
        if source:
            self._aliases.setdefault(source, known)

    def run(self) -> schema.GraphModule:
        """Rewrite all nodes, and the names of the program's results."""
        if not self._written:
            return self._module
        maybe: dict[str, str] = {}  # tensors that may share a base's storage
        stale: set[str] = set()  # those of them that were taken before a write
        for node in self._module.graph.nodes:
            reads = [self._aliases.get(name, _Alias(name)).base for name in node.reads]
            self.refused.update(maybe[name] for name in reads if name in stale)
            base = next(iter(reads), "")
            if _is_in_place(node) and base in self._written:
                self._write(node, base)
                stale.update(name for name, source in maybe.items() if source == base)
            else:
                renamed = {name: self._latest(name, node) for name in dict.fromkeys(node.reads)}
                self._nodes.append(_reading(node, renamed))
                if node.target not in _INVERSES and base in self._written:
                    maybe |= {name: base for name in node.gives if _may_be_view(node)}
            self._enter(node)
        signature = self._module.signature
        outputs = [
            each
            if each.user_output is None
            else schema.OutputSpec(
                user_output=schema.UserSpec(
                    arg=schema.renamed(each.user_output.arg, lambda name: self._latest(name, None))
                )
            )
            for each in signature.output_specs
        ]
        graph = self._module.graph.model_copy(
            update={"nodes": self._nodes, "tensor_values": self._values}
        )
        signature = signature.model_copy(update={"output_specs": outputs})
        return schema.GraphModule(graph=graph, signature=signature)

    def _latest(self, name: str, reader: schema.OperatorCall | None) -> str:
        """Name of the value that a tensor has now."""
        alias = self._aliases.get(name)
        if alias is None or alias.base not in self._current:
            return name
        return self._views(alias, reader)[-1]

    def _views(self, alias: _Alias, reader: schema.OperatorCall | None) -> list[str]:
        """Values of a base and of the views of a chain, as they are now."""
        values = [self._current.get(alias.base, alias.base)]
        for view, name in zip(alias.chain, alias.names, strict=True):
            if alias.base in self._current:
                again = _reading(view, {view.reads[0]: values[-1]})
                name = self._append(again, name, reader or view)
            values.append(name)
        return values

    def _write(self, node: schema.OperatorCall, base: str) -> None:
        """Append the functional form of a write, and what the base holds after it."""
        renamed = {name: self._latest(name, node) for name in dict.fromkeys(node.reads)}
        alias = self._aliases.get(node.reads[0], _Alias(base))
        values = self._views(alias, node)
        name, dot, overload = node.target.partition("_.")
        plain = node.model_copy(update={"target": f"{name}.{overload}" if dot else node.target})
        self._nodes.append(_reading(plain, renamed))
        value = node.gives[0]
        for view, before in zip(reversed(alias.chain), reversed(values[:-1]), strict=True):
            shape = [size.as_int or 0 for size in self._values[view.reads[0]].sizes]
            inverse = _INVERSES[view.target](view, before, value, shape)
            value = self._append(inverse, view.reads[0], node)
        self._current[base] = value

    def _append(self, node: schema.OperatorCall, like: str, at: schema.OperatorCall) -> str:
        """Append a node whose result is as a tensor of the file, with the metadata of another."""
        self._made += 1
        name = f"{like}/{self._made}"
        self._values[name] = self._values[like]
        update = {"outputs": [{"as_tensor": {"name": name}}], "metadata": at.metadata}
        self._nodes.append(node.model_copy(update=update))
        return name


def _is_in_place(node: schema.OperatorCall) -> bool:
    name = node.target.removeprefix(_ATEN).partition(".")[0]
    mutates = name.endswith("_") and not name.endswith("__")
    return node.target.startswith(_ATEN) and mutates and len(node.gives) == 1


def _may_be_view(node: schema.OperatorCall) -> bool:
    """True unless a result surely has storage of its own."""
    target = node.target.removeprefix(_ATEN)
    return target in VIEWS or target not in RULES


def _reading(node: schema.OperatorCall, renamed: Mapping[str, str]) -> schema.OperatorCall:
    inputs = [
        each.model_copy(
            update={"arg": schema.renamed(each.arg, lambda name: renamed.get(name, name))}
        )
        for each in node.inputs
    ]
    return node.model_copy(update={"inputs": inputs})


_Inverse = Callable[[schema.OperatorCall, str, str, list[int]], schema.OperatorCall]


def _call(target: str, view: schema.OperatorCall, *inputs: schema.Input) -> schema.OperatorCall:
    return schema.OperatorCall(target=_ATEN + target, inputs=list(inputs), outputs=view.outputs)


def _tensor(name: str, tensor: str) -> schema.Input:
    return schema.Input(name=name, arg={"as_tensor": {"name": tensor}})


def _rest(view: schema.OperatorCall) -> list[schema.Input]:
    """Arguments besides the tensor."""
    return [each for each in view.inputs if "as_tensor" not in each.arg]


def _scattered(target: str) -> _Inverse:
    def inverse(
        view: schema.OperatorCall, before: str, value: str, shape: list[int]
    ) -> schema.OperatorCall:
        both = (_tensor("self", before), _tensor("src", value))
        return _call(target, view, *both, *_rest(view))

    return inverse


def _again(target: str) -> _Inverse:
    def inverse(
        view: schema.OperatorCall, before: str, value: str, shape: list[int]
    ) -> schema.OperatorCall:
        return _call(target, view, _tensor("self", value), *_rest(view))

    return inverse


def _reshaped(
    view: schema.OperatorCall, before: str, value: str, shape: list[int]
) -> schema.OperatorCall:
    size: dict[str, Any] = {"as_ints": shape}
    return _call("view.default", view, _tensor("self", value), schema.Input(name="size", arg=size))


_INVERSES: Mapping[str, _Inverse] = {
    _ATEN + target: inverse
    for target, inverse in {
        "slice.Tensor": _scattered("slice_scatter.default"),
        "select.int": _scattered("select_scatter.default"),
        "transpose.int": _again("transpose.int"),
        "view.default": _reshaped,
        "unsqueeze.default": _reshaped,
        "squeeze.dim": _reshaped,
        "alias.default": _reshaped,
    }.items()
}
"""Inverses of views: the whole tensor from its value before, and the value of the view."""
