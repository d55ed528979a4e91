# SPDX-License-Identifier: Apache-2.0
"""Derivation of the training and the evaluation step from a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from poetfw.common.errors import ModelError
from poetfw.ir import (
    Attribute,
    Dtype,
    FreshNames,
    Graph,
    Head,
    Op,
    Record,
    Role,
    Tensor,
    label_name,
)
from poetfw.ops import KINDS, LossKind, UpdateKind, fused_name, infer_output, kind_of
from poetfw.ops.class_losses import ALIKE, ClassOptions
from poetfw.ops.dropout import DRAWING
from poetfw.ops.objective import OWN_LOSS
from poetfw.optimizers import Optimizer
from poetfw.training.freezing import input_channels
from poetfw.training.program import CLASSIFYING, LOSSES, Program
from poetfw.training.updates import UpdateAttributes
from poetfw.training.views import hoist_views, open_windows


def make_program(
    model: Graph,
    loss: str,
    optimizer: Optimizer,
    frozen: Collection[str] = (),
    *,
    channels: Mapping[str, int] = MappingProxyType({}),
    options: ClassOptions = ALIKE,
    undecayed: Collection[str] = (),
    fuse_updates: bool = True,
    heads: tuple[Head, ...] = (),
) -> Program:
    """Derive the training and the evaluation step of a model.

    Gradients are applied as soon as they are complete: a parameter's update follows the last op
    of the backward pass that reads the parameter or adds to its gradient. Where gradients are
    clipped, they wait for the norm of all, and the updates end the step.

    Some gradients are applied element by element and never stored, where their op `streams`. That
    op comes last of its layer's, since it changes the weight that the input's gradient is made
    from, and so the layer's input has to stay until then. It is chosen where the weight's gradient
    is larger than that input, or where nothing has to wait (the first layer), and where gradients
    are not clipped.

    A frozen parameter has no gradient and no optimizer state; what only its gradient would read is
    not kept, and below the lowest trained parameter nothing is propagated back. What no op of
    either step updates has the role `CONSTANT`.

    Args:
        model: inference graph with an `INPUT` tensor or several.
        loss: a key of `LOSSES`, or `OWN_LOSS`, for a model with an op of the kind `objective`.
        optimizer: what updates the parameters.
        frozen: names of the parameters that are not trained.
        channels: how many input channels, the first ones, are trained of the weights of which not
            all are. Of a layer's input no others are kept for that, and the rest of the weight has
            neither gradient nor optimizer state. Such gradients are stored.
        options: of a loss in `CLASSIFYING`.
        undecayed: names of the parameters whose weights do not decay.
        fuse_updates: True if gradients may be applied without being stored.
        heads: of the model's output, where that holds several results.

    Raises:
        ModelError: The model has no parameter to train, an operator without a gradient, or an
            output that the loss does not fit.
    """
    if loss not in (*LOSSES, OWN_LOSS):
        raise ModelError(f"{loss!r} is not a loss of poetfw", "use one of: " + ", ".join(LOSSES))
    parameters = model.with_role(Role.PARAMETER)
    if not parameters:
        raise ModelError(
            f"model {model.name!r} has no parameters to train: its loss depends on none",
            "calculate the loss of what the network predicts, as F.cross_entropy(self.net(x), y)",
        )
    if all(tensor.name in frozen for tensor in parameters):
        raise ModelError(
            f"all parameters of model {model.name!r} are frozen: there is nothing to train",
            "freeze fewer of them",
        )
    for name, count in channels.items():
        there = input_channels(model, name)
        if there is None or not 1 <= count <= there:
            raise ModelError(f"{count} of the input channels of {name!r} cannot be trained")
    model = hoist_views(model)
    training, evaluation = _Builder(model, frozen, channels), _Builder(model)
    loss_tensor = training.add_state("loss")
    metric = evaluation.add_state("metric")
    if loss == OWN_LOSS:
        _emit_own_loss(model, training, loss_tensor, evaluation, metric)
    else:
        for op in model.ops:
            training.load(op)
            kind_of(op).training_form(op, training)
        classes = model.by_name[model.output].shape[-1]
        training.emit_loss(
            "weighted_cross_entropy"
            if loss == "softmax_cross_entropy" and options.chosen
            else loss,
            model.output,
            loss_tensor,
            classifies=loss in CLASSIFYING,
            attributes=options.attributes(classes) if loss == "nll" or options.chosen else {},
        )
        for op in model.ops:
            evaluation.load(op)
            kind_of(op).evaluation_form(op, evaluation)
        evaluation.emit_loss(LOSSES[loss], model.output, metric, classifies=loss in CLASSIFYING)
    training.backward(optimizer, undecayed, fuse_updates)
    training.delay_slices()
    training.count_step()
    train = training.graph(loss_tensor.name, "training")
    evaluate = _without_unread(evaluation.graph(metric.name, "evaluation"))
    updated = {name for graph in (train, evaluate) for op in graph.ops for name in op.updates}
    return Program(
        training=_with_constants(train, updated),
        evaluation=_with_constants(evaluate, updated),
        loss=loss_tensor,
        metric=metric,
        heads=heads,
    )


def _without_unread(graph: Graph) -> Graph:
    """The graph without ops that only led to the new value of a state that does not move."""
    kept = {
        op.name for op in graph.ops_for(*(n for op in graph.ops if op.updates for n in op.inputs))
    }
    ops = [op for op in graph.ops if op.updates or op.name in kept]
    gone = {op.output for op in graph.ops} - {op.output for op in ops}
    tensors = (t for t in graph.tensors if gone.isdisjoint((t.name, t.base or t.name)))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def _emit_own_loss(
    model: Graph, training: _Builder, loss: Tensor, evaluation: _Builder, metric: Tensor
) -> None:
    """Append both steps of a model that calculates its loss itself.

    Each has the ops that it needs, and loads the labels before the first that reads them.
    """
    marks = [op for op in model.ops if op.kind == "objective"]
    if len(marks) != 1:
        raise ModelError(f"model {model.name!r} has {len(marks)} losses of its own, not 1")
    value, one = marks[0].inputs
    counts = marks[0].integer("classes") > 0
    for op in model.ops_for(value):
        training.load(op)
        kind_of(op).training_form(op, training)
    training.emit("objective", loss.name, (value, one), {"classes": 0}, updates=(loss.name,))
    for op in model.ops_for(model.output, *(() if counts else (value,))):
        evaluation.load(op)
        kind_of(op).evaluation_form(op, evaluation)
    if counts:
        evaluation.emit_loss("correct_count", model.output, metric, classifies=True)
        return
    inputs = (model.output, value)
    evaluation.emit("objective_metric", metric.name, inputs, updates=(metric.name,))


def _with_constants(graph: Graph, updated: Collection[str]) -> Graph:
    """The graph in which persistent tensors that no op updates have the role `CONSTANT`."""
    return replace(
        graph,
        tensors=tuple(
            replace(tensor, role=Role.CONSTANT)
            if tensor.role.persistent and tensor.name not in updated
            else tensor
            for tensor in graph.tensors
        ),
    )


class _Builder:
    """The graph being built; implements `poetfw.ops.Tape`."""

    def __init__(
        self,
        model: Graph,
        frozen: Collection[str] = (),
        channels: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._model = model
        self._channels = {
            name: count
            for name, count in channels.items()
            if name not in frozen and count < model.by_name[name].shape[1]
        }
        self._seen: dict[tuple[str, int], str] = {}  # what was taken of inputs, by channels
        self._tensors: dict[str, Tensor] = {}
        self._ops: list[Op] = []
        self._op_names: set[str] = set()
        self._fresh_ops, self._fresh_tensors = FreshNames(), FreshNames()
        self._backward = False
        self._gradients: dict[str, str] = {}
        self._gradient_of: Counter[str] = Counter()  # of how many tensors each was the gradient
        self._trained: set[str] = set()
        for tensor in model.persistent:
            self._tensors[tensor.name] = tensor
            if tensor.role is Role.PARAMETER and tensor.name not in frozen:
                self._trained.add(tensor.name)
        self._members = {
            tensor.name: (kind, first, len(record.members) > 1)
            for kind, record in (
                ("load_x", Record(model.with_role(Role.INPUT))),
                ("load_y", Record(model.with_role(Role.LABEL))),
            )
            for tensor, first in zip(record.members, record.firsts, strict=True)
        }
        for tensor in model.with_role(Role.INPUT)[:1]:  # a step begins with it
            self._load(tensor.name)

    def graph(self, output: str, suffix: str) -> Graph:
        name = f"{self._model.name} {suffix}"
        return open_windows(Graph(name, tuple(self._tensors.values()), tuple(self._ops), output))

    # Tape -------------------------------------------------------------------------------------

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
        name = self._fresh_ops.fresh(name, self._op_names)
        self._op_names.add(name)
        op = Op(
            name=name,
            kind=kind,
            inputs=tuple(inputs),
            output=self._fresh_tensors.fresh(output or name, self._tensors),
            attributes=attributes or {},
            updates=tuple(updates),
            backward=self._backward,
        )
        tensor = infer_output(op, [self._tensors[i] for i in inputs], self._role(kind))
        if tensor is None:
            op = Op(op.name, kind, op.inputs, None, op.attributes, op.updates, op.backward)
        else:
            self._tensors[tensor.name] = tensor
            if not self._trained.isdisjoint(inputs) and not kind_of(op).stops_gradient:
                self._trained.add(tensor.name)
        self._ops.append(op)
        return tensor.name if tensor is not None else ""

    def shape(self, tensor: str) -> tuple[int, ...]:
        return self._tensors[tensor].shape

    def needs_gradient(self, tensor: str) -> bool:
        return tensor in self._trained

    def trained_channels(self, x: str, w: str) -> str:
        count = self._channels.get(w)
        if count is None:
            return x
        if (x, count) not in self._seen:
            attributes = {"axis": 1, "start": 0, "length": count}
            self._seen[x, count] = self.emit("slice", f"{x}.trained", (x,), attributes)
        return self._seen[x, count]

    def add_gradient(self, tensor: str, gradient: str) -> None:
        before = self._gradients.get(tensor)
        if before is not None:
            gradient = self.emit("add", f"{tensor}.gradient", (before, gradient))
        self._gradients[tensor] = gradient
        self._gradient_of[gradient] += 1

    # Steps of make_program --------------------------------------------------------------------

    def add_state(self, name: str, *shape: int) -> Tensor:
        fresh = self._fresh_tensors.fresh(name, self._tensors, self._model.by_name)
        tensor = Tensor(fresh, shape or (1,), Dtype.F32, Role.STATE)
        self._tensors[tensor.name] = tensor
        return tensor

    def load(self, op: Op) -> None:
        """Load the members of samples before the first op that reads them."""
        for name in op.inputs:
            if name in self._members and name not in self._tensors:
                self._load(name)

    def _load(self, name: str) -> None:
        kind, first, is_one_of_several = self._members[name]
        tensor = self._model.by_name[name]
        attributes: dict[str, Attribute] = {"shape": tensor.shape}
        if kind == "load_y" or tensor.dtype is Dtype.I32:
            attributes["integer"] = int(tensor.dtype is Dtype.I32)
        if is_one_of_several:
            attributes["first"] = first
        what = name if is_one_of_several else kind[-1]
        self.emit(kind, f"load {what}", (), attributes, output=name)

    def emit_loss(
        self,
        kind: str,
        prediction: str,
        result: Tensor,
        *,
        classifies: bool,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        shape = self._tensors[prediction].shape
        label = self.emit(
            "load_y",
            "load y",
            (),
            {"shape": shape[:1] if classifies else shape, "integer": int(classifies)},
            output=label_name(self._model),
        )
        self.emit(kind, result.name, (prediction, label), attributes, updates=(result.name,))

    def backward(
        self, optimizer: Optimizer, undecayed: Collection[str], fuse_updates: bool
    ) -> None:
        forward, self._backward = tuple(self._ops), True
        if not self.needs_gradient(forward[-1].inputs[0]):
            raise ModelError(
                f"the loss of model {self._model.name!r} depends on nothing that is trained",
                "detach() and torch.no_grad() leave out all before them: train what comes after",
            )
        updates = UpdateAttributes(optimizer, undecayed, self._pace(optimizer))
        if optimizer.clip_norm is None:
            for parameter in self._propagate(forward):
                self._update(parameter, updates, fuse=fuse_updates)
            return
        complete: list[str] = []
        totals: list[str] = []
        for parameter in self._propagate(forward):
            complete.append(parameter)
            inputs = (self._gradients[parameter], *totals[-1:])
            totals.append(self.emit("square_sum", f"{parameter}.square_sum", inputs))
        if totals:
            attributes = {"max_norm": optimizer.clip_norm}
            factor = self.emit("clip_factor", "clip factor", totals[-1:], attributes)
            for parameter in complete:
                self._update(parameter, updates, factor)

    def delay_slices(self) -> None:
        """Move slices of inputs that stay for another gradient before their first reader."""
        for (x, _), taken in self._seen.items():
            if not any(op.backward and x in op.inputs for op in self._ops):
                continue
            (op,) = (op for op in self._ops if op.output == taken)
            self._ops.remove(op)
            first = next(i for i, reader in enumerate(self._ops) if taken in reader.inputs)
            self._ops.insert(first, replace(op, backward=True))

    def count_step(self) -> None:
        """Append the increment of the step counter, if ops draw random numbers by it."""
        counters = [op.inputs[-1] for op in self._ops if op.kind in DRAWING]
        for counter in dict.fromkeys(counters):
            self.emit("count_step", "count step", (), updates=(counter,))

    def _pace(self, optimizer: Optimizer) -> str | None:
        """Append the op that computes factors shared by updates; None if all are constant."""
        betas = optimizer.betas_of_moments
        if not betas and not optimizer.schedule.changes and optimizer.micro_batches == 1:
            return None
        state = self.add_state("updates", 2 + len(betas))
        attributes: dict[str, Attribute] = {
            "learning_rate": optimizer.learning_rate,
            "micro_batches": optimizer.micro_batches,
            **optimizer.schedule.attributes(),
            **{f"beta{number}": beta for number, beta in enumerate(betas, 1)},
        }
        return self.emit("pace", "pace", (), attributes, updates=(state.name,))

    def _propagate(self, forward: Sequence[Op]) -> Iterator[str]:
        """Append the backward pass; yield each trained parameter once its gradient is complete."""
        readings = Counter(name for op in forward for name in dict.fromkeys(op.inputs))
        readers = {t.name: readings[t.name] for t in self._model.with_role(Role.PARAMETER)}
        for op in reversed(forward):
            kind = kind_of(op)
            if isinstance(kind, LossKind):
                kind.start_gradient(op, self)
            elif op.output in self._gradients:
                kind.gradient(op, self, self._gradients[op.output])
            for name in dict.fromkeys(op.inputs):
                if name in readers:
                    readers[name] -= 1
                    if readers[name] == 0 and name in self._gradients:
                        yield name

    def _update(
        self,
        parameter: str,
        updates: UpdateAttributes,
        factor: str | None = None,
        *,
        fuse: bool = False,
    ) -> None:
        attributes = updates.attributes(parameter)
        gradient = self._gradients[parameter]
        kind = updates.optimizer.kind
        update = KINDS[kind]
        assert isinstance(update, UpdateKind)
        states = update.kept(Op(parameter, kind, (), None, attributes))
        shape = self._tensors[gradient].shape
        kept = [self.add_state(f"{parameter}.{state}", *shape).name for state in states]
        inputs: tuple[str, ...] = (gradient,) if factor is None else (gradient, factor)
        if fuse and parameter not in self._channels:
            last = len(self._ops) - 1  # where it most often is
            position = next(i for i in range(last, -1, -1) if self._ops[i].output == gradient)
            if kind_of(self._ops[position]).streams and self._is_better_fused(position):
                op = self._withdraw(position)
                kind, inputs = fused_name(op.kind, kind), op.inputs
                attributes.update(op.attributes)
        if updates.pace is not None:
            inputs = (*inputs, updates.pace)
        self.emit(kind, f"{parameter}.update", inputs, attributes, updates=(parameter, *kept))

    def _is_better_fused(self, position: int) -> bool:
        """True if the last op that calculates a parameter's gradient should also apply it.

        It cannot where that is another tensor's gradient too; and it is not worth it where what
        would have to wait for it, of all that it reads, is as large as the gradient.
        """
        op, later = self._ops[position], self._ops[position + 1 :]
        assert op.output is not None
        if self._gradient_of[op.output] > 1:
            return False
        waiting = set(op.inputs).difference(*(other.inputs for other in later)) if later else ()
        waiting_bytes = sum(self._tensors[name].size_bytes for name in waiting)
        return self._tensors[op.output].size_bytes > waiting_bytes

    def _withdraw(self, position: int) -> Op:
        """Remove an op whose output has no reader yet."""
        op = self._ops.pop(position)
        assert op.output is not None
        assert not any(op.output in other.inputs for other in self._ops[position:])
        self._op_names.remove(op.name)
        self._fresh_ops.release(op.name)
        self._fresh_tensors.release(op.output)
        self._trained.discard(op.output)
        del self._tensors[op.output]
        return op

    def _role(self, kind: str) -> Role:
        if kind == "load_x":
            return Role.INPUT
        if kind == "load_y":
            return Role.LABEL
        return Role.GRADIENT if self._backward else Role.ACTIVATION
