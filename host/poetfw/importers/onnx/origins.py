# SPDX-License-Identifier: Apache-2.0
"""Notes of PyTorch's newer exporter on a file's tensors: parameters, buffers, calculated ones.

It writes the kind of each tensor that the program takes, and the call of torch.export that each
node comes from. There, `%p_` begins the name of a parameter, `%b_` that of a buffer, and `%c_` that
of a constant. Other exporters note nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from poetfw.common.errors import ModelError, cut

_CALL = "pkg.torch.onnx.fx_node"
_FOLDED = "pkg.onnxscript.optimizer.folded_from"
_INPUT = "pkg.torch.export.graph_signature.InputSpec.kind"
_INPUTS = {"PARAMETER": "p", "BUFFER": "b", "CONSTANT_TENSOR": "c"}
_PREFIXES = ("p_", "b_", "c_")
_READ = re.compile(r"%(\w+)")
_LOOKUP = re.compile(r"aten\.embedding\.default\]\(args = \(%\w+, %\w+, (\d{1,9})")
_MADE = re.compile(r"val_\d+")
"""Names of numbers of the program, and of what a single call makes of its weights."""
_REARRANGED = re.compile(
    r"(alias|cat|clone|flatten|getitem|numpy_t|permute|reshape|select|slice|split|squeeze"
    r"|stack|t|transpose|unsqueeze|view)(_\d+)?"
)
"""Names of tensors that have the elements of those they come from, in another order."""


@dataclass(frozen=True)
class Origins:
    """Origins of the tensors of a file.

    Attributes:
        read: by name of a tensor, what the calls take from which its readers come; of each reader.
        folded: by name of a calculated constant, the names of what it was calculated from.
        inputs: by name of a tensor that the program takes, its kind, as `kind` returns it.
        padding: by name of what is looked up, the row of its table that is not trained.
        known: names of tensors that the file has.
        noted: True if the file has any such notes.
    """

    read: dict[str, list[frozenset[str]]]
    folded: dict[str, Sequence[str]]
    inputs: dict[str, str]
    padding: dict[str, int]
    known: frozenset[str]
    noted: bool

    @staticmethod
    def of(graph: onnx.GraphProto) -> Origins:
        """Origins that a graph notes."""
        read: dict[str, list[frozenset[str]]] = {}
        for node in graph.node:
            said = taken(node)
            for name in node.input:
                read.setdefault(name, []).append(said)
        live = {name for node in graph.node for name in node.output}  # only their shapes are known
        folded: dict[str, Sequence[str]] = {
            value.name: [each for each in _names(noted(value, _FOLDED)) if each not in live]
            for value in graph.value_info
            if noted(value, _FOLDED)
        }
        inputs = {
            value.name: kind
            for value in graph.value_info
            if (kind := _INPUTS.get(noted(value, _INPUT))) is not None
        }
        lookups = {
            name: _LOOKUP.search(noted(node, _CALL))
            for node in graph.node
            for name in node.output[:1]
        }
        return Origins(
            read,
            folded,
            inputs,
            {name: int(found[1]) for name, found in lookups.items() if found},
            frozenset(live).union(tensor.name for tensor in (*graph.input, *graph.initializer)),
            bool(inputs) or any(noted(node, _CALL) for node in graph.node),
        )

    def kind(self, name: str) -> str | None:
        """Kind of a tensor: "p" for a parameter, "b" for a buffer, "c" for a constant, or None.

        A tensor that was made of others of one kind, which its readers' calls name, has their kind.
        """
        if name in self.inputs:
            return self.inputs[name]
        sources, said = self.sources(name), self._said(name)
        if not sources:
            return "c"
        kinds = {kind for kind in "pbc" for each in sources if _called(kind, each) in said}
        return kinds.pop() if len(kinds) == 1 else None

    def sources(self, name: str) -> Sequence[str]:
        """Names of what a tensor was made of, but for numbers of the program; itself if stored.

        What is made within a call is made of what the call takes.
        """
        said = self._said(name)
        made = [
            each
            for each in self.folded.get(name, (name,))
            if not (self.noted and (_MADE.fullmatch(each) or each in said))
        ]
        lost = [each for each in said - self.known if each[:2] not in _PREFIXES]
        if not self.noted or name in said or lost:
            return made
        return [each for each in made if any(_called(kind, each) in said for kind in "pbc")]

    def _said(self, name: str) -> frozenset[str]:
        return frozenset().union(*self.read.get(name, ()))

    def is_calculated(self, name: str) -> bool:
        """True for a constant that the exporter calculated, and not only rearranged.

        Names of weights and of calls are alike but for dots: a single one may be a weight's.
        """
        if name not in self.folded or _MADE.fullmatch(name):
            return False
        others = [
            each
            for each in self.folded[name]
            if not (_MADE.fullmatch(each) or _REARRANGED.fullmatch(each))
        ]
        plain = [each for each in others if "." not in each]
        return not _REARRANGED.fullmatch(name) or len(plain) > (len(plain) == len(others))

    def stands_for_others(self, name: str) -> bool:
        """True for a tensor that some reader reads in place of another one of the program."""
        own = {_called(kind, each) for each in self.folded.get(name, (name,)) for kind in "pbc"}
        readers = [
            {each for each in said if each[:2] in _PREFIXES} for said in self.read.get(name, ())
        ]
        return any(said and own.isdisjoint(said) for said in readers)


def taken(node: onnx.NodeProto) -> frozenset[str]:
    """Names of the tensors that the call takes from which a node comes."""
    return frozenset(_READ.findall(noted(node, _CALL).partition("(args = ")[2]))


def is_detached(node: onnx.NodeProto) -> bool:
    """True for a node that comes from a call of `detach`."""
    return "aten.detach.default]" in noted(node, _CALL)


def noted(proto: onnx.NodeProto | onnx.ValueInfoProto, key: str) -> str:
    """Text that a file notes under a key of a node or value; empty without one."""
    return "".join(entry.value for entry in proto.metadata_props if entry.key == key)


def _called(kind: str, name: str) -> str:
    """Name by which torch.export calls a parameter, buffer or constant of a module."""
    return f"{kind}_{re.sub(r'[^a-zA-Z0-9_]', '_', name).lower()}"


def _names(text: str) -> Sequence[str]:
    try:
        names = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError) as error:
        raise ModelError(f"its note {cut(repr(text), 60)} is no list of names") from error
    return [str(each) for each in names] if isinstance(names, list) else []
