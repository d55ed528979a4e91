# SPDX-License-Identifier: Apache-2.0
"""Training of brought networks from their `.pt2` files beside PyTorch, by the reference."""

from __future__ import annotations

import copy
import logging
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from poetfw.common.errors import PoetfwError
from poetfw.importers.torch_export import import_torch
from poetfw.ops.dropout import drawn
from poetfw.training import Reference, Sgd, make_program
from workloads.brought import BATCH, NETWORKS

STEPS, TOLERANCE, RATE = 10, 1e-3, 0.02


@dataclass(frozen=True)
class Outcome:
    """Outcome of a network: the largest difference of a weight, or the reason of a refusal."""

    network: str
    difference: float | None = None
    refused: str = ""

    @property
    def trains(self) -> bool:
        """True if every weight is within the tolerance of PyTorch's."""
        return self.difference is not None and self.difference <= TOLERANCE


class SameNoise(TorchDispatchMode):
    """Draws for PyTorch what poetfw draws: by step and operator."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.seed = 0, 0

    def begin(self, step: int) -> None:
        """Begins a step."""
        self.step, self.seed = step, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answers operators that draw."""
        name = func.overloadpacket.__name__
        if name not in ("rand", "rand_like", "randn", "randn_like", "normal_"):
            return func(*args, **(kwargs or {}))
        shape = tuple(args[0] if name in ("rand", "randn") else args[0].shape)
        numbers = self._uniform(shape)
        if name.startswith(("randn", "normal")):
            angle = 2 * np.pi * self._uniform(shape)
            numbers = np.sqrt(-2 * np.log(1 - numbers)) * np.cos(angle)
        drawn_numbers = torch.tensor(numbers, dtype=torch.float32)
        return args[0].copy_(drawn_numbers) if name == "normal_" else drawn_numbers

    def _uniform(self, shape: tuple[int, ...]) -> Any:
        numbers = drawn(self.seed, self.step, int(np.prod(shape))) / (1 << 24)
        self.seed += 1
        return numbers.reshape(shape)


def outcome(network: str, folder: Path) -> Outcome:
    """Train a network here and in PyTorch, from the same weights on the same samples."""
    torch.manual_seed(3)
    brought = NETWORKS[network]
    net = brought.make().train()
    batches = [brought.draw() for _ in range(STEPS)]
    for module in net.modules():  # its mode of evaluation is its author's
        if isinstance(module, torch.nn.Sequential) and network == "frozen batch norm":
            module[1].eval()
    path = folder / "net.pt2"
    torch.export.save(torch.export.export(copy.deepcopy(net), batches[0]), path)
    try:
        model = import_torch(path, BATCH)
        sgd = Sgd(learning_rate=RATE, momentum=0.9)
        program = make_program(
            model.graph,
            model.loss,
            sgd,
            model.frozen,
            options=model.loss_options,
            heads=model.heads,
        )
    except PoetfwError as error:
        return Outcome(network, refused=f"{error.message} {'; '.join(error.try_next)}")
    reference = Reference(program, model.weights)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    inputs = _argument_names(path)
    with SameNoise() as noise:
        for step, samples in enumerate(batches):
            noise.begin(step)
            arrays = {n: each.numpy() for n, each in zip(inputs, samples, strict=True)}
            x = [arrays[name] for name in model.x.names]
            y = [each for name, each in arrays.items() if name not in model.x.names]
            reference.step(model.x.join(x, BATCH), model.y.join(y, BATCH))
            optimizer.zero_grad()
            said = net(*samples)
            (said[0] if isinstance(said, tuple) else said).backward()
            optimizer.step()
    theirs = net.state_dict()
    differences = [
        np.abs(entry.of(reference.persistent[entry.tensor]) - theirs[entry.name].numpy()).max()
        for entry in model.state_dict
    ]
    return Outcome(network, float(max(differences)))


def _argument_names(path: Path) -> tuple[str, ...]:
    program = torch.export.load(path)
    return tuple(program.graph_signature.user_inputs)


def outcomes(networks: Sequence[str]) -> list[Outcome]:
    """Outcomes of networks, in their order."""
    logging.disable(logging.WARNING)
    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for network in networks:
            found.append(outcome(network, Path(folder)))
    return found
