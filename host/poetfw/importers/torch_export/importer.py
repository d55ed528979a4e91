# SPDX-License-Identifier: Apache-2.0
"""Import of a `.pt2` file as a model."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

from pydantic import ValidationError

from poetfw.common.errors import ModelError, cut
from poetfw.common.reading import expected
from poetfw.importers.float32 import OPTION
from poetfw.importers.network import Network
from poetfw.importers.refusal import Refusal, UnsupportedError, attempt, refuse
from poetfw.importers.results import Result, finished, mark_loss
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.assignments import without_assignments
from poetfw.importers.torch_export.batch_numbers import BatchNumbers
from poetfw.importers.torch_export.batches import Batches, Place
from poetfw.importers.torch_export.buffers import MOVED, with_moved_buffers
from poetfw.importers.torch_export.calls import Call, Live, Value, plain
from poetfw.importers.torch_export.constants import FILLED, FOLDED, SIZED, fold
from poetfw.importers.torch_export.endings import read_ending, user_inputs, user_outputs
from poetfw.importers.torch_export.file import Exported, Weight, read_program
from poetfw.importers.torch_export.rules import RESHAPING, RULES, STRETCHING, VIEWS, unknown
from poetfw.ir import Dtype, Role
from poetfw.models import GraphBuilder, Model, TooManyOpsError
from poetfw.ops import Shape
from poetfw.ops.class_losses import ALIKE, ClassOptions
from poetfw.training import DEFAULT_LOSS

_OPERATORS = "torch.ops."
_ATEN = f"{_OPERATORS}aten."
_FRAME = re.compile(r'File "([^"\n]*)", line (\d+), in [^\n]*\n([^\n]*)')
_OWN_FRAME = re.compile(r"[/\\]torch[/\\](nn|_|functional)")
"""Matches frames in PyTorch's own modules, not in the author's code."""
_COUNTED = re.compile(r"\bu\d+\b")
"""PyTorch's name of a size that depends on tensor values."""
_SHAPING = frozenset((*RESHAPING, *STRETCHING, *VIEWS))
_IRRELEVANT = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "requires_grad")
"""Arguments that affect where and how a result is stored, but not its values."""


def import_torch(
    path: Path, batch: int, loss: str | None = None, *, as_float32: bool = False
) -> Model:
    """Import a network from a file of `torch.export.save`, with its weights as initial weights.

    Axis 0 of every input and output of the program must be the batch; the exported batch size is
    replaced by the requested one. A final softmax is dropped if the loss is softmax cross-entropy,
    which includes it. Nodes that the outputs do not need are ignored. If the program ends in a
    loss, the model uses this loss: its labels are inputs, and its predictions the outputs.

    Args:
        path: path of the file.
        batch: number of samples in a batch.
        loss: a key of `poetfw.training.LOSSES`; None for the program's own loss, or else softmax
            cross-entropy.
        as_float32: True to convert float64, float16 and bfloat16 to float32, as `.float()` does.

    Raises:
        ModelError: The file is malformed, or has nodes that poetfw cannot train; the message counts
            them and names the first ones.
    """
    exported = read_program(path, batch, as_float32=as_float32)
    program = without_assignments(with_moved_buffers(exported))
    exported = replace(exported, program=program)
    try:
        importer = _Importer(exported, path, batch, loss)
        try:
            return importer.model()
        except ModelError:
            if not importer.misfits:
                raise
            return _Importer(exported, path, batch, loss, importer.misfits).model()
    except ModelError as error:
        if error.message.startswith(f"{path}: "):
            raise
        raise ModelError(f"{path}: {error.message}", *error.try_next) from error


class _Importer:
    """Translation of one program.

    Attributes:
        misfits: filled tensors with the file's batch size on axis 0, which do not fit a node that
            reads them with the requested one: they begin a batch, like a cell's initial states.
    """

    def __init__(
        self,
        exported: Exported,
        path: Path,
        batch: int,
        loss: str | None,
        begun: Collection[str] = (),
    ) -> None:
        """Prepare; `begun` are filled tensors to create with the requested batch size."""
        self.misfits: set[str] = set()
        self._begun = begun
        self._filled: set[str] = set()
        self._begins: dict[str, Place] = {}  # of constants with a batch axis, by name
        self._path = path
        self._graph = exported.program.graph_module.graph
        self._ending = read_ending(exported)
        if self._ending is None:
            self._outputs = _predictions(exported.program)
            self._targets: tuple[str, ...] = ()
            sources = _inputs(exported.program)
        else:
            self._outputs, self._targets = self._ending.predictions, self._ending.targets
            sources = self._ending.inputs
            if loss not in (None, self._ending.loss):
                raise ModelError(
                    f"the program ends in a loss of its own, {self._ending.loss}, not {loss}",
                    "leave --loss out, or return the prediction from forward()",
                )
            loss = self._ending.loss
        entries = {name: self._entry(name, "input") for name in sources}
        self._inputs = len(user_inputs(exported.program))
        self._batches = Batches(entries[sources[0]][0][0], batch)
        self._numbers = BatchNumbers(self._graph.nodes, exported.weights, self._batches.filed)
        own = self._ending is not None and self._ending.value is not None
        labels = {name: self._entry(name, "labels") for name in self._targets if own}
        for name, (shape, _) in (entries | labels).items():
            if shape[0] != self._batches.filed:
                raise ModelError(
                    f"the model's inputs have unlike counts of samples: {name!r:.60} has "
                    f"{shape[0]}, but {sources[0]!r:.60} has {self._batches.filed}",
                    "export it with an example in which axis 0 of each is the batch",
                )
        first, *others = ((n, (batch, *shape[1:]), dtype) for n, (shape, dtype) in entries.items())
        builder = GraphBuilder(path.stem, *first)
        tensors = {first[0]: builder.input, **{o[0]: builder.add_input(*o) for o in others}}
        for label, (shape, dtype) in labels.items():
            tensors[label] = builder.label(label, (batch, *shape[1:]), dtype)
        self._net = Network(builder, loss or DEFAULT_LOSS)
        specs = (spec.named for spec in exported.program.graph_module.signature.input_specs)
        self._net.unlisted.update(each.name for each in specs if each and not each.is_listed)
        self._values: dict[str, Value] = {
            **exported.weights,
            **{name: Live(tensor) for name, tensor in tensors.items()},
        }
        self._places = dict.fromkeys(tensors.values(), self._batches.first)
        places = {id(value): i for i, value in enumerate(self._values.values())}
        self._storage = {name: places[id(value)] for name, value in self._values.items()}
        for name in self._targets:
            self._storage.setdefault(name, len(self._storage))
        self._weights = set(exported.weights)
        moved = [node.reads[1] for node in self._graph.nodes if node.target == MOVED]
        self._moved = {name for each in moved for name in exported.weights[each].names}
        self._read = {name for node in self._graph.nodes for name in node.reads}
        self._changed: dict[str, str] = {}

    def _entry(self, name: str, what: str) -> tuple[Shape, Dtype]:
        """Shape and type in the file of an input that samples provide.

        Raises:
            ModelError: The input has an unsupported type, or no batch.
        """
        meta = self._graph.tensor_values.get(name)
        shape = _shape(meta, f"the model's {what} {name!r:.120}")
        types = {schema.FLOAT: Dtype.F32, schema.BOOL: Dtype.F32}
        types |= {schema.LONG: Dtype.I32, schema.INT: Dtype.I32}
        if not shape or meta is None or meta.dtype not in types:
            raise ModelError(
                f"the model's {what} {name!r:.120} has shape {list(shape)}, and is "
                f"{schema.DTYPES.get(meta.dtype if meta else 0, 'of an unknown type')}; poetfw "
                "needs float32, int64, int32 or bool [batch, ...]",
                *([schema.AS_FLOAT, OPTION] if meta and meta.dtype in schema.OTHER_FLOATS else []),
            )
        return shape, types[meta.dtype]

    def model(self) -> Model:
        """Translate the whole program.

        Raises:
            ModelError: There are nodes that cannot be trained.
        """
        needed = self._needed()
        refusals: list[Refusal] = []
        for node in self._graph.nodes:
            outputs = node.gives
            if needed.isdisjoint(outputs):
                self._note_storage(node, outputs)
                self._note_change(node, outputs, skipped=True)
                continue
            try:
                reason = self._translate(node, outputs)
            except TooManyOpsError:
                if not refusals:
                    raise
                break  # after a refused node, sizes may be wrong
            if reason is not None:
                refusals.append(Refusal(_name(node), _described(node), reason))
                self.misfits.update(self._filled.intersection(node.reads))
                self._stand_in(outputs)
            self._note_storage(node, outputs)
            self._note_change(node, outputs)
        refuse(refusals, sorted({target.partition(".")[0] for target in RULES}))
        self._check_changes(needed)
        heads = []
        for name in self._outputs:
            value = self._values.get(name)
            if not isinstance(value, Live) or value.tensor not in self._places:
                raise ModelError(
                    f"the model's output {name!r:.120} is not calculated from its input"
                )
            heads.append(Result(self._head_name(name), value.tensor))
        net = self._net
        options = ALIKE if self._ending is None else self._ending.options
        if self._ending is not None and self._ending.value is not None:
            ignored = [skipped for _, skipped in net.classes.values()]
            options = ClassOptions(ignore_index=ignored[0] if len(ignored) == 1 else None)
            value = self._values.get(self._ending.value)
            if not isinstance(value, Live) or net.shape(value.tensor) != (1,):
                raise ModelError("the loss is not calculated from the model's input")
            mark_loss(net, value.tensor, heads)
        return finished(net, heads, f"imported from {self._path.name}", options)

    def _head_name(self, output: str) -> str:
        """The author's name of the module or node that computes one of several results."""
        producer = next((node for node in self._graph.nodes if output in node.gives), None)
        return output if producer is None else _name(producer)

    def _needed(self) -> set[str]:
        """Names that the outputs depend on, and the loss if it is the program's own."""
        needed = set(self._outputs)
        if self._ending is not None and self._ending.value is not None:
            needed.add(self._ending.value)
        for node in reversed(self._graph.nodes):
            if not needed.isdisjoint(node.gives):
                needed.update(node.reads)
        return needed

    def _translate(self, node: schema.OperatorCall, outputs: list[str]) -> str | None:
        """Apply a node's rule; returns the reason why it cannot be trained, or None."""
        if not all(name in self._values for name in node.reads):
            return None  # an input was refused and has no shape
        target = _functional(node.target.removeprefix(_ATEN))
        rule = RULES.get(target)
        if (rule is None and target not in FOLDED) or not node.target.startswith(_OPERATORS):
            return unknown(node.target)

        def translate() -> None:
            self._check_numbers(node)
            call, values = self._call(node, outputs), [self._values[name] for name in node.reads]
            try:
                constants = self._arguments(node, typed=True)
                if target in FILLED:
                    constants["size"] = call.results[0]
                if target in SIZED:
                    if call.sizes[0][:1] == (self._batches.filed,) != (self._batches.asked,):
                        self._filled.update(outputs)
                results: Any = self._folded(target, constants, values)
                if results is None and rule is None:
                    raise UnsupportedError("poetfw has no such operator")
                if results is None and rule is not None:
                    results = rule(call, **self._arguments(node))
            except ValidationError as error:
                first = error.errors()[0]
                raise UnsupportedError(
                    f"its argument {str(first['loc'][0])!r:.60} is not understood: "
                    f"{expected(first)}"
                ) from error
            self._bind(node, outputs, results if isinstance(results, tuple) else (results,))

        return attempt(translate)

    def _folded(
        self, target: str, arguments: Mapping[str, Any], values: Sequence[Value]
    ) -> Weight | None:
        """Result of a call with constant arguments, of which no statistics move."""
        read = {name for each in values if isinstance(each, Weight) for name in each.names}
        if not (self._net.moving | self._moved).isdisjoint(read):
            return None
        result = fold(target, arguments, values)
        if result is not None:
            self._net.fixed.update(read)
        return result

    def _call(self, node: schema.OperatorCall, outputs: list[str]) -> Call:
        sizes: list[Shape] = []
        for name in outputs:
            meta = self._graph.tensor_values.get(name)
            empty = meta is not None and any(size.as_int == 0 for size in meta.sizes)
            if empty and name not in self._read:
                sizes.append(())  # which some operators give beside what is asked for
                continue
            sizes.append(_shape(meta, f"its result {name!r:.120}"))
        place = self._place(node, sizes)
        results = [
            size if place is None else self._batches.viewed(size, place)[0] for size in sizes
        ]
        # behind a softmax, the author's own cross-entropy takes another
        is_output = outputs[0] in self._outputs and (
            self._ending is None or self._net.loss != DEFAULT_LOSS
        )
        return Call(self._net, _name(node), is_output, tuple(sizes), tuple(results))

    def _place(self, node: schema.OperatorCall, sizes: Sequence[Shape]) -> Place | None:
        """Position of the batch in a node's inputs; without one, the node may begin a batch."""
        if not set(self._begun).isdisjoint(node.gives):
            return self._batches.first
        values = [self._values.get(name) for name in node.reads]
        for value in values:
            if isinstance(value, Live) and value.tensor in self._places:
                return self._places[value.tensor]
        for name in node.reads:
            if name in self._begins:
                return self._begins[name]
        if node.target.removeprefix(_ATEN) in STRETCHING and sizes[0][:1] == (self._batches.filed,):
            own = [value.values.shape for value in values if isinstance(value, Weight)]
            if all(len(shape) < len(sizes[0]) or shape[0] == 1 for shape in own):
                return self._batches.first
        return None

    def _bind(
        self, node: schema.OperatorCall, outputs: list[str], results: tuple[Any, ...]
    ) -> None:
        """Bind a node's outputs to results, whose shapes must agree with the file's."""
        call, batches = self._call(node, outputs), self._batches
        source = self._place(node, call.sizes)
        reshapes = node.target.removeprefix(_ATEN) in RESHAPING
        if len(results) != len(outputs):
            raise UnsupportedError(f"it has {len(outputs)} results, not {len(results)}")
        for name, result, filed, asked in zip(
            outputs, results, call.sizes, call.results, strict=True
        ):
            if result is None:
                continue
            size, wanted = filed or (1,), asked or (1,)  # scalars have one axis in poetfw
            value: Value = result if isinstance(result, Weight) else Live(result)
            shape, place = call.shape(value) or (1,), None
            if source is not None and shape == wanted and reshapes:
                place = batches.viewed(size, source)[1]
            elif source is not None and not reshapes:
                place = batches.moved(size, shape, source)
            if place is None and not shape == wanted == size:
                advice = f": {self._advice}" if batches.asked != batches.filed else ""
                raise UnsupportedError(
                    f"its result has shape {list(wanted)} in the file, but {list(shape)} in "
                    f"poetfw{advice}"
                )
            self._values[name] = value
            if source is not None and place is None and not self._keeps_scale(node):
                raise UnsupportedError(
                    f"it joins the samples of a batch, and is not a mean: {self._advice}"
                )
            if place is not None:
                if isinstance(value, Live):
                    self._places[value.tensor] = place
                else:
                    self._begins[name] = place

    @property
    def _advice(self) -> str:
        """Hint for operators that depend on the example's batch size."""
        return (
            f"export it with the batch that is trained with, {self._batches.asked}, or leave it "
            f"open: dynamic_shapes=[{{0: torch.export.Dim.DYNAMIC}}] * {self._inputs}"
        )

    def _check_numbers(self, node: schema.OperatorCall) -> None:
        """Check that with another batch size than the example's, no number depends on that.

        Raises:
            UnsupportedError: One may do.
        """
        if self._batches.asked == self._batches.filed:
            return
        number = self._numbers.found(node)
        if number is not None:
            raise UnsupportedError(
                f"its number {number:g} may come from the example's batch size, "
                f"{self._batches.filed}: {self._advice}"
            )
        values = [self._values[name] for name in node.reads]
        made = [v.values.shape for v in values if isinstance(v, Weight) and not v.names]
        kept = [_extents(self._graph.tensor_values.get(name)) for name in node.gives]
        filed, name = self._batches.filed, node.target.removeprefix(_ATEN)
        if len(made) == len(values) > 0 and name not in _SHAPING:
            joined = [shape for shape in made if filed in shape]
            if joined and all(math.prod(each) < math.prod(joined[0]) for each in kept):
                raise UnsupportedError(
                    f"it joins {filed} constants, as many as the example's samples: {self._advice}"
                )

    def _keeps_scale(self, node: schema.OperatorCall) -> bool:
        """True if a result without a batch axis is a mean: batch size does not scale it."""
        if self._batches.asked == self._batches.filed:
            return True
        name = node.target.removeprefix(_ATEN).partition(".")[0]
        reductions = [e.arg.get("as_int") for e in node.inputs if e.name == "reduction"]
        is_loss = "loss" in name or name in (
            "kl_div",
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
        )
        return name == "mean" or (is_loss and reductions in ([], [1]))

    def _stand_in(self, outputs: list[str]) -> None:
        """Bind stand-ins for outputs of a refused node, to check later nodes by shape."""
        for name in outputs:
            meta = self._graph.tensor_values.get(name)
            if meta is None or meta.dtype != schema.FLOAT or name in self._values:
                continue
            with suppress(ModelError):  # the refusal of the node itself is reported
                shape, _ = self._batches.viewed(_shape(meta, "it"), self._batches.first)
                tensor = self._net.builder.declare(name, shape, Role.ACTIVATION)
                self._values[name] = Live(tensor)
                self._places[tensor] = self._batches.first

    # In-place operators -----------------------------------------------------------------------

    def _note_storage(self, node: schema.OperatorCall, outputs: list[str]) -> None:
        """Record which tensors may share storage with a node's results."""
        kind = _functional(node.target.removeprefix(_ATEN))
        sources: list[str] = []
        known = kind in RULES or kind in FOLDED
        if kind in VIEWS or not known or _changed_by(node):  # an unknown operator may be a view
            sources = _first_tensors(node)
        for name in outputs:
            self._storage[name] = len(self._storage)
        joined = {self._storage[name] for name in (*sources, *outputs) if name in self._storage}
        if sources:
            for name, storage in self._storage.items():
                if storage in joined:
                    self._storage[name] = min(joined)

    def _note_change(
        self, node: schema.OperatorCall, outputs: list[str], *, skipped: bool = False
    ) -> None:
        """Mark tensors that an in-place operator overwrites, except for its result.

        A buffer's new value that nobody reads is not kept, so the buffer is marked.
        """
        written = node.reads[1:] if skipped and node.target == MOVED else _changed_by(node)
        changed = {self._storage.get(name) for name in written}
        for name, storage in self._storage.items():
            if storage in changed and name not in outputs:
                self._changed[name] = _described(node)

    def _check_changes(self, needed: set[str]) -> None:
        """Check that no in-place operator changed the output, or weights for the next step.

        Raises:
            ModelError: One did.
        """
        for name in self._outputs:
            if name in self._changed:
                raise ModelError(
                    f"{self._changed[name]} has changed the model's output {name!r:.60} in place: "
                    "write that without the underscore, or inplace=False"
                )
        for name in self._targets:
            if name in self._changed:
                raise ModelError(f"{self._changed[name]} changes the target {name!r:.60} in place")
        for name in sorted(self._weights & needed & set(self._changed)):
            raise ModelError(
                f"{self._changed[name]} changes a parameter or a buffer in place, in every step: "
                f"{name!r:.60}"
            )

    def _arguments(self, node: schema.OperatorCall, *, typed: bool = False) -> dict[str, Any]:
        """Relevant arguments as plain values; `typed` includes number types.

        Raises:
            UnsupportedError: No rule accepts an argument's type, or a tensor was changed in place.
        """
        for name in node.reads:
            if name in self._changed:
                raise UnsupportedError(
                    f"it reads {name!r:.60}, which {self._changed[name]} has changed in place "
                    "since: write that without the underscore, or inplace=False"
                )
        return {
            each.name: each.arg["as_scalar_type"]
            if "as_scalar_type" in each.arg
            else plain(each.arg, self._values)
            for each in node.inputs
            if each.name not in _IRRELEVANT and (typed or not _is_float32(each.arg))
        }


def _extents(meta: schema.TensorMeta | None) -> list[int]:
    return [] if meta is None else [size.as_int for size in meta.sizes if size.as_int is not None]


def _is_float32(argument: Mapping[str, Any]) -> bool:
    return argument.get("as_scalar_type") == schema.FLOAT


def _functional(target: str) -> str:
    """Name of the out-of-place variant of an operator."""
    name, dot, overload = target.partition(".")
    return name.removesuffix("_") + dot + overload if not name.startswith("_") else target


def _changed_by(node: schema.OperatorCall) -> list[str]:
    """Names of tensors that an operator may change in place; all of them if it is unknown."""
    if not node.target.startswith(_ATEN):
        return [] if node.target in RULES else node.reads
    name, _, overload = node.target.removeprefix(_ATEN).partition(".")
    if "out" in overload.split("_"):
        return node.reads
    in_place = name.startswith("__i") if name.endswith("__") else name.endswith("_")
    return _first_tensors(node) if in_place else []


def _first_tensors(node: schema.OperatorCall) -> list[str]:
    """Names of the tensors in the first argument that has any."""
    return next(filter(None, (schema.tensors_in(each.arg) for each in node.inputs)), [])


def _shape(meta: schema.TensorMeta | None, what: str) -> Shape:
    """Shape of a tensor.

    Raises:
        ModelError: The shape is missing, or an extent is unspecified.
    """
    if meta is None:
        raise ModelError(f"{what} has no shape in the file")
    for axis, size in enumerate(meta.sizes):
        if size.as_expr is not None and _COUNTED.search(size.as_expr.expr_str):
            raise ModelError(
                f"{what} has as many positions on axis {axis} as some numbers say: write "
                "torch.where, or multiply by a mask"
            )
        if size.as_expr is not None:
            raise ModelError(
                f"{what} leaves axis {axis} open ({size.as_expr.expr_str!r:.60})",
                "leave open the batch alone, axis 0 of each input",
            )
    shape = tuple(size.as_int for size in meta.sizes if size.as_int is not None)
    if len(shape) != len(meta.sizes) or any(extent < 1 for extent in shape):
        raise ModelError(f"{what} has the shape {list(shape)}: every extent must be 1 or more")
    return shape


def _name(node: schema.OperatorCall) -> str:
    """The author's name of a node: its module, or else PyTorch's name of its output."""
    stack = node.metadata.get("nn_module_stack")
    parts = stack.split(";")[-1].split(",") if isinstance(stack, str) else []
    module = parts[1] if len(parts) == 3 else ""
    return module or next(iter(node.gives), node.target)


def _described(node: schema.OperatorCall) -> str:
    """Operator of a node, and the author's line of code that calls it."""
    kind = node.target.removeprefix("torch.ops.")
    trace = node.metadata.get("stack_trace")
    frames = _FRAME.findall(trace) if isinstance(trace, str) else []
    own = [frame for frame in frames if not _OWN_FRAME.search(frame[0])]
    if not own:
        return cut(kind, 80)
    file, line, text = own[-1]
    place = f"{PureWindowsPath(file).name}:{line}"
    return f"{cut(kind, 80)}, {cut(place, 60)}: {cut(text.strip(), 80)!r}"


def _inputs(program: schema.ExportedProgram) -> tuple[str, ...]:
    """Names of the model's inputs.

    Raises:
        ModelError: There are none, or some are not tensors.
    """
    specs, users = program.graph_module.signature.input_specs, user_inputs(program)
    known = [spec for spec in specs if spec.user_input or spec.named]
    if not users or len(known) != len(specs):
        raise ModelError(
            f"the model has {len(users)} inputs that are tensors, and {len(specs) - len(known)} of "
            "other kinds; poetfw trains models with tensors"
        )
    return users


def _predictions(program: schema.ExportedProgram) -> tuple[str, ...]:
    """Names of the model's outputs.

    Raises:
        ModelError: There are none, or some are not tensors.
    """
    specs, users = program.graph_module.signature.output_specs, user_outputs(program)
    if not users or len(specs) != len(users):
        raise ModelError(
            f"the model has {len(specs)} outputs, of which {len(users)} are tensors; poetfw trains "
            "models that return tensors",
        )
    return users
