# SPDX-License-Identifier: Apache-2.0
"""The most bytes that PyTorch has live in a training step, measured, beside what is calculated.

Tensors are on PyTorch's meta device: it dispatches every op and calculates nothing, and what is
live of which size is the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from poetfw.memory.ordering import peak_bytes
from workloads.networks import NETWORKS
from workloads.networks.in_pytorch import MODULES

COUNTER_BYTES = 8
"""Of the number of batches that each batch norm has seen, which is not calculated."""


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that are alive after each op PyTorch dispatches.

    Attributes:
        live: bytes now.
        peak: bytes at most.
    """

    def __init__(self, held: Iterable[torch.Tensor]) -> None:
        """Start with what is there before."""
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()
        for tensor in held:
            self._add(tensor)

    def _add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.live += size
            weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf)
        self.peak = max(self.peak, self.live)
        return result


@dataclass(frozen=True, slots=True)
class Measurement:
    """One network at one batch.

    Attributes:
        network, batch: what was run.
        gradients_kept: whether gradients stay, zeroed, from the step before.
        measured_bytes: live bytes at most, counted in PyTorch.
        calculated_bytes: live bytes at most, calculated from shapes.
        counters_bytes: what the counters of its batch norms take.
    """

    network: str
    batch: int
    gradients_kept: bool
    measured_bytes: int
    calculated_bytes: int
    counters_bytes: int


def measure(network: str, batch: int, *, gradients_kept: bool = False) -> Measurement:
    """Run a training step: the loss is the sum of the output, the optimizer is plain SGD."""
    image = (3, 1, 112, 112) if network == "resnet3d" else (3, 224, 224)
    with torch.device("meta"):
        model, x = MODULES[network](), torch.empty(batch, *image)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
        if gradients_kept:
            model(x).sum().backward()
            optimizer.zero_grad(set_to_none=False)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        with LiveBytes([*(p.data for p in model.parameters()), *gradients, x]) as counted:
            model(x).sum().backward()
            optimizer.step()
    step = NETWORKS[network](batch)
    if gradients_kept:
        step = step.with_kept_gradients()
    norms = sum(name.endswith("num_batches_tracked") for name, _ in model.named_buffers())
    return Measurement(
        network,
        batch,
        gradients_kept,
        counted.peak,
        peak_bytes(step.problem),
        norms * COUNTER_BYTES,
    )
