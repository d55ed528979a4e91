# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks through every door: trained by poetfw's reference and by PyTorch, side by side.

A door is a way from a PyTorch module to a file that poetfw builds. Both train from the same
weights on the same batches, and leave out the same numbers in dropout.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from poetfw.boards import load_board
from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.importers.torch_export import import_torch
from poetfw.models import Model
from poetfw.ops.dropout import drawn, threshold
from poetfw.planning import ram_needs
from poetfw.training import Sgd, TrainedNames, make_program
from poetfw.training.reference import Reference
from workloads.ordinary import AUTOENCODERS, IDS, NETWORKS
from workloads.own_tensors import DETACHED, IN_OWN_MODE
from workloads.own_tensors import NETWORKS as OWN_TENSORS

ALL_NETWORKS = MappingProxyType({**NETWORKS, **OWN_TENSORS})
BATCH, STEPS, TOLERANCE = 4, 10, 2e-5
SGD = Sgd(learning_rate=0.05, momentum=0.9, weight_decay=1e-3)
TRAINING = torch.onnx.TrainingMode.TRAINING
DOORS: Mapping[str, Mapping[str, Any] | None] = MappingProxyType(
    {
        "pt2": None,
        "onnx": {},
        "onnx, not optimized": {"optimize": False},
        "TorchScript": {"dynamo": False},
        "TorchScript, preserving": {"dynamo": False, "training": torch.onnx.TrainingMode.PRESERVE},
        "TorchScript, training": {
            "dynamo": False,
            "do_constant_folding": False,
            "training": TRAINING,
        },
    }
)
"""Each door, with the arguments of `torch.onnx.export`; None for `torch.export`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a network that came through a door.

    Attributes:
        refused: why poetfw does not train it; "" where it does.
        asked: what poetfw asks for first, and is told; "" where it asks for nothing.
        warnings: what poetfw says of it.
        lost_dropout: True where the network has dropout, and the file has none.
        unsaid: True where gradients end in the network, which the file does not say.
        difference: the largest difference of a loss, relative to it where that is above 1.
        ops: in the model; 0 where it is refused.
        parameters: numbers that are trained.
        smallest_ram_bytes: the smallest budget on an nRF52840, of the plan that pages most.
        op_error: the largest error of an op of the firmware on its own inputs, as a part of its
            bound; through the door of `torch.export` alone.
    """

    refused: str = ""
    asked: str = ""
    warnings: tuple[str, ...] = ()
    lost_dropout: bool = False
    unsaid: bool = False
    difference: float = 0.0
    ops: int = 0
    parameters: int = 0
    smallest_ram_bytes: int = 0
    op_error: float | None = None

    @property
    def word(self) -> str:
        """The table's word for this outcome.

        One of: agrees, agrees if told (what the file does not say), refused, warned (in vain, or of
        another network), no dropout or no detach (which the file does not say, but
        docs/your-model.md), or wrong.
        """
        if self.refused:
            return "refused"
        if self.warnings:
            return "warned"
        if self.difference <= TOLERANCE:
            return "agrees if told" if self.asked else "agrees"
        if self.unsaid:
            return "no detach"
        return "no dropout" if self.lost_dropout else "WRONG"


def made(name: str, seed: int = 1) -> tuple[torch.nn.Module, torch.Tensor, np.random.Generator]:
    """A network in its author's mode, an example of its input, and what to draw batches by."""
    make, shape = ALL_NETWORKS[name]
    torch.manual_seed(seed)
    random = np.random.default_rng(seed + 2)
    net, x = make(), draw(shape, random)
    if name not in IN_OWN_MODE:
        net.train()
    with torch.no_grad():
        net(x.clone())  # makes lazy layers, and moves running statistics away from their start
    return net, x, random


def draw(shape: Any, random: np.random.Generator, batch: int = BATCH) -> torch.Tensor:
    """A batch of inputs."""
    if shape == IDS:
        return torch.from_numpy(random.integers(0, 20, (batch, 8)))
    return torch.from_numpy(random.standard_normal((batch, *shape)).astype(np.float32))


def export(net: torch.nn.Module, x: torch.Tensor, path: Path, door: str) -> Path:
    """Write a network as a door's file."""
    arguments = DOORS[door]
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), _silence():
            warnings.simplefilter("ignore")
            if arguments is None:
                torch.export.save(torch.export.export(net, (x,)), path)
            else:
                torch.onnx.export(net, (x,), path, verbose=False, **arguments)
    finally:
        logging.disable(before)
    return path


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let nothing be printed, not even by C++, which writes past Python's `sys.stdout`."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def loss_of(name: str) -> str:
    """Name of the loss that a network is trained with."""
    return "mse" if name in AUTOENCODERS else "softmax_cross_entropy"


def trained(model: Model, net: torch.nn.Module, name: str, random: np.random.Generator) -> Trained:
    """A model and its network, both trained for some steps."""
    said = {key for key, p in net.named_parameters() if not p.requires_grad}  # no ONNX file says it
    known = {tensor.name for tensor in model.graph.persistent}
    program = make_program(model.graph, model.loss, SGD, (*model.frozen, *(said & known)))
    ours = Reference(program, model.weights)
    theirs = torch.optim.SGD(
        [parameter for parameter in net.parameters() if parameter.requires_grad],
        lr=SGD.learning_rate,
        momentum=SGD.momentum,
        weight_decay=SGD.weight_decay,
    )
    difference = 0.0
    for step in range(STEPS):
        x = draw(ALL_NETWORKS[name][1], random)
        theirs.zero_grad()
        with same_dropout(step):
            prediction = net(x.clone())
        if loss_of(name) == "mse":
            y = torch.sigmoid(x).numpy()
            loss = F.mse_loss(prediction, torch.from_numpy(y))
        else:
            y = random.integers(0, 10, BATCH).astype(np.int32)
            loss = F.cross_entropy(prediction, torch.from_numpy(y).long())
        loss.backward()
        theirs.step()
        error = abs(ours.step(x.numpy(), y) - loss.item()) / max(1, abs(loss.item()))
        difference = max(difference, error)
    return Trained(program, ours, difference)


@dataclass(frozen=True)
class Trained:
    """Result of training: poetfw's program, its state, and the largest difference of losses."""

    program: Any
    ours: Reference
    difference: float


def through(name: str, door: str, folder: Path) -> Outcome:
    """Bring a network through a door, and train it.

    Raises:
        ExporterError: PyTorch cannot write it.
    """
    net, x, random = made(name)
    path = folder / ("net.pt2" if DOORS[door] is None else "net.onnx")
    try:
        export(net, x, path, door)
    except Exception as error:
        raise ExporterError(str(error).strip().splitlines()[0]) from error
    asked, refused = "", ""
    for chosen in (TrainedNames(), _told(net), _told(net, "onnx::*")):
        net, _, random = made(name)  # exporting and training move its statistics
        if (DOORS[door] or {}).get("training") == TRAINING:
            net.train()
        try:
            model = (
                import_torch(path, BATCH, loss_of(name))
                if DOORS[door] is None
                else import_onnx(path, BATCH, loss_of(name), chosen=chosen)
            )
            result = trained(model, net, name, random)
        except ModelError as error:
            refused = error.message.partition("of the model: ")[2] or error.message
            asked = asked or error.message
            if "the file does not say" not in error.message:
                break
            continue
        if len(chosen.train) > 1 and result.difference > TOLERANCE:
            break  # the author knows that weights were calculated, and does not tell otherwise
        return _outcome(name, door, model, result, net, asked, path, x, random)
    return Outcome(refused=refused)


def _outcome(
    name: str,
    door: str,
    model: Model,
    result: Trained,
    net: torch.nn.Module,
    asked: str,
    path: Path,
    x: torch.Tensor,
    random: np.random.Generator,
) -> Outcome:
    board = load_board("nrf52840")
    return Outcome(
        asked=asked,
        warnings=model.warnings,
        unsaid=name in DETACHED and DOORS[door] is not None,
        lost_dropout=_drops(net) and model.layers.get("dropout", 0) == 0,
        difference=result.difference,
        ops=len(model.graph.ops),
        parameters=model.parameter_count,
        smallest_ram_bytes=ram_needs(model, [board]).smallest_bytes[board.name] or 0,
        op_error=_op_error(path, name, x, random) if DOORS[door] is None else None,
    )


def _told(net: torch.nn.Module, *more: str) -> TrainedNames:
    """Answers of a network's author: all parameters are trained, and buffers stay.

    Statistics of norms in training mode are left out: the author wants these norms so.

    Args:
        net: the network.
        more: patterns of what is trained besides.
    """
    norms = (torch.nn.modules.batchnorm._NormBase,)
    buffers = [
        f"{name}.{key}" if name else key
        for name, module in net.named_modules()
        for key, _ in module.named_buffers(recurse=False)
        if not (isinstance(module, norms) and module.training)
    ]
    return TrainedNames(("*", *more), tuple(buffers))


def _op_error(path: Path, name: str, x: torch.Tensor, random: np.random.Generator) -> float:
    """Train by the firmware, on this computer, and judge each op on its own inputs.

    Raises:
        AssertionError: the firmware's run does not verify.
    """
    x = draw(ALL_NETWORKS[name][1], random, 10 * BATCH)
    y = torch.sigmoid(x) if name in AUTOENCODERS else random.integers(0, 10, len(x))
    np.savez(path.with_name("data.npz"), x=x.numpy(), y=np.asarray(y))
    options = f"--data data.npz --batch {BATCH} --loss {loss_of(name)} --ram 4000000"
    options += " --scheduler checkpoint-all"
    _poetfw("build", "--model", path.name, *options.split(), cwd=path.parent)
    verified = _poetfw("run", "--steps", "2", "--verify", cwd=path.parent)["verify"]
    worst = verified["ops"]["worst"]
    return worst["error"] / worst["bound"] if worst else 0.0


def _poetfw(*arguments: str, cwd: Path) -> Any:
    command = [sys.executable, "-m", "poetfw.cli.main", *arguments, "--board", "linux", "--json"]
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _drops(net: torch.nn.Module) -> bool:
    """True for a network with dropout, whatever layer it is part of."""
    return any(getattr(m, "p", getattr(m, "dropout", 0)) for m in net.modules())


class ExporterError(Exception):
    """PyTorch's exporter does not write a network."""


@contextlib.contextmanager
def same_dropout(step: int, *, turned: bool = False) -> Iterator[None]:
    """Let PyTorch's dropout leave out what poetfw's does in a step, op by op in the same order.

    Args:
        step: how many came before it.
        turned: whether what is dropped from has its first two axes swapped in PyTorch, as recurrent
            layers do where they are `batch_first`.
    """
    with _SharedDraws(step, turned):
        yield


class _SharedDraws(TorchDispatchMode):
    """Answers what draws a mask; the rest is as it is."""

    def __init__(self, step: int, turned: bool) -> None:
        super().__init__()
        self._step, self._turned, self._seeds = step, turned, itertools.count()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.bernoulli_.float:
            mask, stays = (*args, 0.5)[:2]
            draws = drawn(next(self._seeds), self._step, mask.numel())
            kept = torch.from_numpy((draws >= threshold(1 - stays)).astype(np.float32))
            if self._turned:
                return mask.copy_(kept.view_as(mask.transpose(0, 1)).transpose(0, 1))
            return mask.copy_(kept.view_as(mask))
        return function(*args, **(kwargs or {}))
