# SPDX-License-Identifier: Apache-2.0
"""Choice of the model and the optimizer, and the program that follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from poetfw.common.errors import ConfigError, DataError, ModelError
from poetfw.common.limits import Deadline, Work
from poetfw.firmware import Ring
from poetfw.importers.weight_files import read_weights
from poetfw.ir import Graph, Role
from poetfw.memory.ordering import from_graph, order_ops, reorder
from poetfw.models import MODELS, Model, StateEntry, build_model
from poetfw.ops import kind_of
from poetfw.ops.class_losses import ClassOptions
from poetfw.ops.objective import OWN_LOSS
from poetfw.optimizers import OPTIMIZERS, Optimizer, RateSchedule
from poetfw.settings import BuildSettings
from poetfw.training import (
    DEFAULT_LOSS,
    Program,
    TrainedNames,
    compress_activations,
    fold,
    fuse_pooling,
    make_program,
    matching_parameters,
    pack_constants,
    select,
)

_PICKLED = (".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin", ".joblib")

ORDERING_WORK = 5.0
"""Limit of work units of a search for an op order."""


def load_model(settings: BuildSettings) -> Model:
    """Load a model from a file or a built-in one, with its initial weights.

    Raises:
        ModelError: The model is unknown, or poetfw cannot train it.
        DataError: The file of weights is malformed, or its weights do not fit.
    """
    options = ClassOptions(settings.class_weights, settings.label_smoothing, settings.ignore_index)
    model = _load_network(settings)
    if options.chosen:
        if model.loss_options.chosen:
            raise ModelError(
                f"{settings.model}: its loss has class weights, label smoothing or a label to "
                "ignore of its own",
                "leave these options out, or return the prediction from forward()",
            )
        if model.loss == OWN_LOSS:
            raise ModelError(
                f"{settings.model}: its loss is an expression, which has no options: no class "
                "weights, label smoothing or label to ignore",
                "write them in forward(), in the loss that it returns",
            )
        model = replace(model, loss_options=options)
    options = model.loss_options
    if settings.micro_batches > 1 and (options.class_weights or options.ignore_index is not None):
        warning = (
            f"the loss is a mean over the weights in each micro-batch of {settings.samples}: where "
            "they differ from one to the next, training is not that in batches of "
            f"{settings.samples * settings.micro_batches}"
        )
        model = replace(model, warnings=(*model.warnings, warning))
    if settings.micro_batches > 1 and "batch_norm" in {op.kind for op in model.graph.ops}:
        warning = (
            f"batch norm normalises each micro-batch of {settings.samples} by itself: training is "
            f"not that in batches of {settings.samples * settings.micro_batches}"
        )
        model = replace(model, warnings=(*model.warnings, warning))
    if model.loss == "nll" and not _ends_in_logarithm(model.graph):
        warning = (
            "the loss nll takes log-probabilities, and the model does not end in a logarithm: of "
            "logits, nll falls without end; choose --loss softmax_cross_entropy for them"
        )
        model = replace(model, warnings=(*model.warnings, warning))
    return model if settings.weights is None else start_from(model, Path(settings.weights))


def _ends_in_logarithm(graph: Graph) -> bool:
    name = graph.output
    while name in graph.producer:
        op = graph.producer[name]
        if not kind_of(op).view:
            return op.kind == "log"
        name = op.inputs[0]
    return False


def make_ring(settings: BuildSettings, batch: int) -> Ring | None:
    """Ring of samples that the device records itself; None without one.

    Args:
        settings: settings of the build.
        batch: samples per training step; with accumulated gradients, those of a micro-batch.

    Raises:
        ConfigError: The ring has a single place, or its share exceeds the samples of a training
            step, or is 0.
    """
    if settings.ring == 0:
        return None
    share = batch // 2 if settings.ring_share is None else settings.ring_share
    if settings.ring < 2:
        raise ConfigError("--ring takes 2 samples or more, or 0 for none")
    if share == 0:
        raise ConfigError(
            "a training step has one sample, from the data or from the ring",
            "--ring-share 1 takes all of them from the ring",
        )
    if share > batch:
        raise ConfigError(f"--ring-share is {share}, and a training step has {batch} samples")
    return Ring(settings.ring, share)


def start_from(model: Model, path: Path) -> Model:
    """The model with initial weights from a file with a PyTorch state dict.

    Raises:
        DataError: The file is malformed, or its weights do not fit.
    """
    entries = model.state_dict or tuple(
        StateEntry(tensor.name, tensor.name, tensor.shape) for tensor in model.graph.persistent
    )
    arrays = read_weights(path, [entry.name for entry in entries])
    weights = {name: np.array(values) for name, values in model.weights.items()}
    for entry in entries:
        values = arrays[entry.name]
        if values.shape != entry.shape:
            raise DataError(
                f"{path}: the weights {entry.name!r:.80} have shape {list(values.shape)}, but "
                f"model {model.name!r} has {list(entry.shape)}"
            )
        entry.put(weights[entry.tensor], values)
    return replace(model, weights=weights)


def _load_network(settings: BuildSettings) -> Model:
    batch = settings.samples
    path = Path(settings.model)
    if path.suffix == ".onnx":
        from poetfw.importers.onnx import import_onnx  # slow to import, and seldom needed

        return import_onnx(
            path,
            batch,
            settings.loss or DEFAULT_LOSS,
            as_float32=settings.as_float32,
            chosen=TrainedNames.of(settings.train, settings.freeze),
        )
    if path.suffix == ".pt2":
        from poetfw.importers.torch_export import import_torch

        return import_torch(path, batch, settings.loss, as_float32=settings.as_float32)
    if path.suffix.lower() in _PICKLED:
        raise ModelError(
            f"{path}: files that end in {path.suffix} are pickled: they hold programs that run "
            "when they are read, so poetfw never reads one",
            "in Python, torch.export.save(torch.export.export(net.train(), (x,)), 'net.pt2')",
        )
    if settings.model not in MODELS and path.is_file():
        raise ModelError(
            f"{path}: not a file of a model",
            "give a .pt2 file, which PyTorch exports, or an .onnx file",
            "or a built-in model's name (`poetfw models`)",
        )
    model = build_model(settings.model, batch, settings.seed)
    return model if settings.loss is None else replace(model, loss=settings.loss)


def choose_optimizer(settings: BuildSettings, model: Model) -> Optimizer:
    """The model's optimizer or the one in the settings, with its settings.

    Raises:
        ConfigError: The optimizer or one of its settings is unknown, or a value is out of range.
    """
    optimizer = model.optimizer
    if settings.optimizer not in (None, optimizer.kind):
        if settings.optimizer not in OPTIMIZERS:
            raise ConfigError(
                f"{settings.optimizer!r} is not an optimizer of poetfw",
                "use one of: " + ", ".join(sorted(OPTIMIZERS)),
            )
        optimizer = OPTIMIZERS[settings.optimizer]()
    chosen: dict[str, Any] = {
        name: value
        for name in ("learning_rate", "momentum", "weight_decay", "clip_norm", "clip_value")
        if (value := getattr(settings, name)) is not None
    }
    chosen |= dict(settings.optimizer_settings)
    chosen["micro_batches"] = settings.micro_batches
    if settings.schedule is not None or settings.warm_up is not None:
        shape = settings.schedule or optimizer.schedule.shape
        chosen["schedule"] = RateSchedule.parse(shape, settings.warm_up or 0)
    known = [setting.name for setting in fields(optimizer)]
    for name in chosen:
        if name not in known:
            raise ConfigError(
                f"optimizer {optimizer.kind!r} has no {name}", "it has " + ", ".join(known)
            )
    return replace(optimizer, **chosen)


def derive_program(
    settings: BuildSettings, model: Model, deadline: Deadline | None = None
) -> Program:
    """Derive the training and evaluation step of a model.

    Args:
        settings: settings of the build.
        model: the model.
        deadline: end of the search for an op order; None for no limit.

    Raises:
        ConfigError: A setting of the optimizer is out of range, or `--freeze` matches nothing.
        ModelError: No parameter is left to train, or the model cannot be trained.
    """
    return order_program(unordered_program(settings, model), deadline).with_values(model.weights)


def unordered_program(
    settings: BuildSettings, model: Model, *, fuse_updates: bool = True
) -> Program:
    """Derive the training and evaluation step of a model, with the training ops in any order.

    Args:
        settings: settings of the build.
        model: the model.
        fuse_updates: True if gradients may be applied without being stored.

    Raises:
        ConfigError, ModelError: See `derive_program`.
    """
    frozen = matching_parameters(model.graph, settings.freeze, model.constants).union(model.frozen)
    channels: Mapping[str, int] = {}
    if settings.train:
        selection = select(model.graph, settings.train)
        parameters = {tensor.name for tensor in model.graph.with_role(Role.PARAMETER)}
        frozen, channels = frozen | (parameters - selection.parameters), selection.channels
    graph, made = fold(model.graph, model.weights, frozen)
    program = make_program(
        graph,
        model.loss,
        choose_optimizer(settings, model),
        frozen,
        channels=channels,
        options=model.loss_options,
        undecayed=matching_parameters(model.graph, settings.no_decay),
        fuse_updates=fuse_updates,
        heads=model.heads,
    )
    program = replace(program, made=made)
    if settings.frozen_as is not None and program.constants:
        weights = [tensor.name for tensor in model.graph.with_role(Role.PARAMETER)]
        program = pack_constants(program, model.weights, weights, settings.frozen_as)
    program = fuse_pooling(program)
    if settings.store_as is not None:
        program = compress_activations(program, settings.store_as)
    return program


def frozen_parameters(program: Program, model: Model) -> tuple[str, ...]:
    """Names of the frozen parameters."""
    trained = {name for op in program.training.ops for name in op.updates}
    names = (tensor.name for tensor in model.graph.with_role(Role.PARAMETER))
    return tuple(name for name in names if name not in trained)


def trained_weights(program: Program) -> int:
    """Number of elements that the training step trains."""
    total = 0
    for name in program.parameter_states:
        shape = program.training.by_name[name].shape
        part = program.trained_channels.get(name)
        total += math.prod(shape if part is None else (shape[0], part, *shape[2:]))
    return total


def order_program(program: Program, deadline: Deadline | None = None) -> Program:
    """The program with the training ops in the order of lowest peak that was found."""
    with Work(ORDERING_WORK, deadline).phase("order of ops") as work:
        ordering = order_ops(from_graph(program.training), work)
    return replace(program, training=reorder(program.training, ordering.order))
