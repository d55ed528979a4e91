# SPDX-License-Identifier: Apache-2.0
"""Roles of a file's initializers: weights, constants, and those that the file does not tell apart.

Only PyTorch's newer exporter notes them. In other files, a role follows from how an initializer is
read, from its name, and from what the user says; if none of these tells it, there is a doubt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from poetfw.common.errors import ModelError, cut, listed
from poetfw.importers.onnx.folding import EXPORT, PLAINLY
from poetfw.importers.onnx.nodes import OnnxNode
from poetfw.importers.onnx.origins import Origins
from poetfw.training import TrainedNames

_LAYERS = {
    "BatchNormalization": (1, 2),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "GRU": (1, 2, 3),
    "Gather": (0,),
    "Gemm": (1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LSTM": (1, 2, 3),
    "LayerNormalization": (1, 2),
    "MatMul": (1,),
    "PRelu": (1,),
    "RNN": (1, 2, 3),
}
"""Positions of weights among the inputs of layers."""
_SETTINGS = {"Clip": (1, 2), "Dropout": (1,), "Pad": (2,), "Resize": (1, 2)}
"""Positions of numbers that set how an operator works, as attributes do."""
_NORMS = ("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization")
_MOVES = (
    "Cast CastLike Concat Expand Flatten Identity Reshape Slice Split Squeeze Transpose Unsqueeze"
).split()
"""Operators that only move or repeat elements."""
_FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
)

_OF_LAYERS = r"(weight|bias)(_[ih][hr](_l\d+(_reverse)?)?)?|(in|q|k|v)_proj_(weight|bias)"
"""Names of the parameters of PyTorch's layers."""
_LAYER = re.compile(_OF_LAYERS)
_PARAMETRIZED = re.compile(r"((?P<module>.*)\.)?parametrizations\.(?P<own>\w+)\.original\d?")
"""Names of what a parameter is calculated from, by torch.nn.utils.parametrizations."""
_CALCULATED = re.compile(r".*(::|/).*|\d+", re.S)
"""Names that PyTorch's older exporter gives to tensors that it calculates.

Names of a state dict hold neither `::` nor `/`, and none is a number alone.
"""


@dataclass(frozen=True)
class Doubt:
    """Something of the network that the file does not say, and that training depends on.

    Attributes:
        name: name of the tensor or node.
        kind: one of `_SAID`.
        sources: names of what it was made of; empty if it was not.
    """

    name: str
    kind: str
    sources: tuple[str, ...] = ()


_SAID = {
    "tensor": "the file does not say whether these are weights or constants: {}",
    "calculated": "PyTorch's exporter calculated these from tensors of the network, of which the "
    "file does not say whether they are weights: {}",
    "statistics": "batch norms keep these statistics, as in evaluation mode, and the file does not "
    "say whether the network trains so: {}",
    "dropout": "these drop nothing, as in evaluation mode, and the file does not say whether the "
    "network trains so: {}",
    "padding": "these have a row of zeros, and the file does not say whether it is padding, which "
    "is not trained: {}",
}
"""Messages by kind of doubt."""
_IN_ITS_MODE = (
    "export it in the mode that it trains in: torch.onnx.export(net, (example,), 'net.onnx', "
    "dynamo=False, do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE)"
)
_REMEDIES = {
    "tensor": (
        "--train '*' if all of them are weights",
        "--train '*' --freeze '{}' with the names of those that are constants",
    ),
    "calculated": (
        _IN_ITS_MODE,
        "--train '*,{}' if all of them are weights that are only arranged in another way",
    ),
    "statistics": (_IN_ITS_MODE, "--freeze '{}' if the network trains so"),
    "dropout": (_IN_ITS_MODE, "--train '*' if the network trains so"),
    "padding": ("--train '*,{}' if that row trains like the others",),
}
"""Things to try by kind of doubt."""


@dataclass(frozen=True)
class InitializerRoles:
    """Roles of initializers.

    Attributes:
        weights: names of those that are weights, or may be.
        held: names of those that may be weights, and that the user does not train. Those of more
            than one number are in `weights`, too.
        doubts: those of `weights` whose role nothing tells.
    """

    weights: frozenset[str]
    held: frozenset[str]
    doubts: tuple[Doubt, ...]

    @staticmethod
    def of(
        graph: onnx.GraphProto,
        nodes: Sequence[OnnxNode],
        origins: Origins,
        opset: int,
        chosen: TrainedNames,
        *,
        from_torch: bool,
    ) -> InitializerRoles:
        """Tell the roles of the initializers of a graph.

        Args:
            graph: the graph.
            nodes: nodes that the outputs depend on.
            origins: notes of the file.
            opset: opset version of the file.
            chosen: what the user trains and freezes.
            from_torch: True if PyTorch wrote the file.
        """
        uses = _Uses(graph, nodes, opset)
        weights, held, doubts = set[str](), set[str](), list[Doubt]()
        for name in uses.floats:
            kind = origins.kind(name)
            if kind in ("b", "c") or (kind is None and not uses.may_train(name)):
                continue
            if not from_torch and uses.is_setting(name):
                continue
            made = tuple(each for each in origins.sources(name) if each != name)
            calculated = from_torch and not origins.noted and _CALCULATED.fullmatch(name)
            if kind is None and calculated and uses.is_neutral(name):
                continue
            weights.add(name)
            told = kind == "p" or (
                not origins.noted and not calculated and uses.is_weight(name, from_torch=from_torch)
            )
            if told:
                continue
            said = chosen.says(name, *made, one_by_one=bool(calculated))
            if said is False:
                held.add(name)
                if math.prod(uses.floats[name].dims) <= 1:
                    weights.remove(name)
            elif said is None:
                doubts.append(Doubt(name, "calculated" if calculated else "tensor", made))
        return InitializerRoles(frozenset(weights), frozenset(held), tuple(doubts))


class _Uses:
    """Readings of a graph's floating-point initializers."""

    def __init__(self, graph: onnx.GraphProto, nodes: Sequence[OnnxNode], opset: int) -> None:
        self.floats = {
            tensor.name: tensor for tensor in graph.initializer if tensor.data_type in _FLOATS
        }
        self._opset = opset
        self._readers: dict[str, list[tuple[OnnxNode, int]]] = {}
        self._makers: dict[str, OnnxNode] = {}
        for node in nodes:
            self._makers |= dict.fromkeys(node.outputs, node)
            for position, name in enumerate(node.inputs):
                self._readers.setdefault(name, []).append((node, position))
        self._ends = {name: self._find_ends(name) for name in self.floats}
        self._modules: dict[str, set[str]] = {}
        for name, ends in self._ends.items():
            if ends:
                module, own = _place(name)
                self._modules.setdefault(module, set()).add(own)

    def may_train(self, name: str) -> bool:
        """True if a gradient reaches a tensor, and all its numbers are finite."""
        return bool(self._ends[name]) and bool(np.isfinite(self._array(name)).all())

    def is_setting(self, name: str) -> bool:
        """True for numbers that only set how operators work; PyTorch writes them as Constants."""
        return all(position in _SETTINGS.get(node.kind, ()) for node, position in self._ends[name])

    def is_neutral(self, name: str) -> bool:
        """True for the scale or shift of a norm without one: ones or zeros."""
        values = self._array(name)
        return all(
            node.kind in _NORMS and position in (1, 2) and bool((values == 2 - position).all())
            for node, position in self._ends[name]
        )

    def is_weight(self, name: str, *, from_torch: bool) -> bool:
        """True for a tensor that is a weight by the way it is read, and by its name if PyTorch's.

        Filters that are symmetric bit by bit were not trained: they may be constants.
        """
        in_layers = all(map(self._is_layer, self._ends[name]))
        if in_layers and self._is_symmetric(name):
            return False
        if not from_torch:
            return in_layers
        module, own = _place(name)
        if _LAYER.fullmatch(own) is None:
            return False
        of_layer = all(map(_LAYER.fullmatch, self._modules[module]))
        return in_layers or (of_layer and any("weight" in each for each in self._modules[module]))

    def _is_layer(self, reading: tuple[OnnxNode, int]) -> bool:
        node, position = reading
        if node.kind == "Add":  # the bias of a product
            (other,) = node.inputs[1 - position :][:1]
            maker = self._makers.get(other)
            return maker is not None and maker.kind == "MatMul" and maker.inputs[1] in self.floats
        return position in _LAYERS.get(node.kind, ())

    def _is_symmetric(self, name: str) -> bool:
        extents = self.floats[name].dims[2:]
        convolved = all(node.kind.startswith("Conv") for node, _ in self._ends[name])
        if not convolved or math.prod(extents) == 1:
            return False
        values = np.abs(self._array(name))
        return bool(values.any()) and bool(
            (values == np.flip(values, tuple(range(2, values.ndim)))).all()
        )

    def _array(self, name: str) -> NDArray[np.float32]:
        try:
            array: NDArray[np.float32] = onnx.numpy_helper.to_array(self.floats[name])
        except (ValueError, TypeError) as error:
            raise ModelError(f"the data of {name!r:.60} do not fill its shape") from error
        return array

    def _find_ends(self, name: str) -> list[tuple[OnnxNode, int]]:
        """Inputs of nodes that calculate with a tensor, and pass gradients to it."""
        ends, seen, waiting = [], {name}, [name]
        while waiting:
            for node, position in self._readers.get(waiting.pop(), ()):
                if not self._passes_gradients(node, position):
                    continue
                if node.kind not in _MOVES:
                    ends.append((node, position))
                    continue
                waiting += [each for each in node.outputs if each and each not in seen]
                seen.update(node.outputs)
        return ends

    def _passes_gradients(self, node: OnnxNode, position: int) -> bool:
        """True if a node has floating-point results that depend smoothly on an input."""
        if node.kind == "BatchNormalization":
            return position < 3
        if node.kind == "Cast":
            return node.attributes.get("to") in _FLOATS
        if not onnx.defs.has(node.kind, self._opset, ""):
            return True
        schema = onnx.defs.get_schema(node.kind, self._opset, "")
        return any("float" in kind for kind in schema.outputs[0].types)


def expect_no_doubt(doubts: Iterable[Doubt], *, from_torch: bool) -> None:
    """Check that nothing is left that the file does not tell, and the user does not say.

    Raises:
        ModelError: There is; the message names it all.
    """
    kinds: dict[str, list[str]] = {}
    shown: dict[str, list[str]] = {}
    found = list(dict.fromkeys(doubts))
    for each in found:
        kinds.setdefault(each.kind, []).append(each.name)
        shown.setdefault(each.kind, []).append(_shown(each))
    if not kinds:
        return
    remedies = [
        remedy.format(cut(",".join(names), 200))
        for kind, names in kinds.items()
        for remedy in _REMEDIES[kind]
    ]
    raise ModelError(
        "; ".join(_SAID[kind].format(listed(names)) for kind, names in shown.items()),
        *dict.fromkeys(remedies),
        *((PLAINLY,) if any(each.sources for each in found) else ()),
        *(EXPORT if from_torch else ()),
    )


def _place(name: str) -> tuple[str, str]:
    """Module of a tensor, and the tensor's name in it."""
    parametrized = _PARAMETRIZED.fullmatch(name)
    if parametrized:
        return parametrized["module"] or "", parametrized["own"]
    module, _, own = name.rpartition(".")
    return module, own


def _shown(doubt: Doubt) -> str:
    made = f" (of {listed([repr(cut(each, 40)) for each in doubt.sources])})"
    return repr(cut(doubt.name, 60)) + (made if doubt.sources else "")
