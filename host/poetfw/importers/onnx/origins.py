# SPDX-License-Identifier: Apache-2.0
"""Notes of PyTorch's newer exporter on a file's tensors: parameters, buffers, calculated ones.

It writes the call of torch.export that each node comes from. There, `%p_` begins the name of a
parameter, `%b_` that of a buffer, and `%c_` that of a constant. Other exporters note nothing.
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
_READ = re.compile(r"%([pbc]_\w+)")
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
        read: by name of a tensor, what the calls read from which its readers come; of each reader.
        folded: by name of a calculated constant, the names of what it was calculated from.
    """

    read: dict[str, list[frozenset[str]]]
    folded: dict[str, Sequence[str]]

    @staticmethod
    def of(graph: onnx.GraphProto) -> Origins:
        """Origins that a graph notes."""
        read: dict[str, list[frozenset[str]]] = {}
        for node in graph.node:
            said = frozenset(_READ.findall(noted(node, _CALL)))
            for name in node.input:
                read.setdefault(name, []).append(said)
        folded = {value.name: _names(noted(value, _FOLDED)) for value in graph.value_info}
        return Origins(read, {name: names for name, names in folded.items() if names})

    def kind(self, name: str) -> str | None:
        """Kind of a tensor: "p" for a parameter, "b" for a buffer, "c" for a constant, or None."""
        if name in self.folded and all(map(_MADE.fullmatch, self.folded[name])):
            return "c"
        said = frozenset().union(*self.read.get(name, ()))
        return next((kind for kind in "pbc" if _called(kind, name) in said), None)

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
        """True for a tensor that some reader reads in place of another parameter."""
        own = {_called("p", source) for source in self.folded.get(name, (name,))}
        readers = [
            {each for each in said if each.startswith("p_")} for said in self.read.get(name, ())
        ]
        return any(said and own.isdisjoint(said) for said in readers)


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
