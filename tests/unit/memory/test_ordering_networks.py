"""The benchmark's networks beside PyTorch itself, and its model of the caching allocator."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from poetfw.memory.ordering import OrderingProblem, OrderingStatus, OrderOp, order_ops, peak_bytes

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from caching_allocator import CachingAllocator, reserved_bytes
from networks import NETWORKS

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

MIB = 2**20


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that are alive after each op PyTorch dispatches."""

    def __init__(self, held: list[torch.Tensor]) -> None:
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


class BasicBlock(nn.Module):
    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(width, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.short = nn.Sequential()
        if stride != 1 or width != channels:
            self.short = nn.Sequential(
                nn.Conv2d(width, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.main(x)
        y += self.short(x)
        return torch.relu_(y)


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    width = 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            layers.append(BasicBlock(width, channels, 2 if stage and not block else 1))
            width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


@pytest.mark.parametrize("keep", [False, True], ids=["freed", "kept"])
def test_resnet18_peaks_as_in_pytorch(keep):
    batch = 2
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    x, y = torch.randn(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.long)
    if keep:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.zero_grad(set_to_none=False)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert bool(gradients) is keep
    with LiveBytes([p.data for p in model.parameters()] + gradients + [x, y]) as counted:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    step = NETWORKS["resnet18"](batch)
    if keep:
        step = step.with_kept_gradients()
    # PyTorch also counts the batches that each of 20 batch norms has seen, in 8 bytes.
    assert counted.peak == pytest.approx(peak_bytes(step.problem), abs=20 * 8 + 16)


PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet_v2": 3_504_872,
    "mnasnet": 4_383_312,
    "efficientnet-b0": 5_288_548,
    "googlenet": 13_004_888,
}
"""As torchvision documents them."""


@pytest.mark.parametrize("network", PARAMETERS)
def test_parameters_are_those_of_torchvision(network):
    step = NETWORKS[network](1)
    kept = step.with_kept_gradients().problem.resident_bytes - step.problem.resident_bytes
    assert kept == 4 * PARAMETERS[network]


@pytest.mark.parametrize("network", sorted(set(NETWORKS) - {"googlenet"}))
def test_networks_are_ordered_optimally(network):
    problem = NETWORKS[network](1).problem
    ordering = order_ops(problem)
    assert ordering.status is OrderingStatus.OPTIMAL
    assert ordering.peak_bytes < peak_bytes(problem)


def test_requests_share_segments():
    allocator = CachingAllocator()
    first, second = allocator.allocate(1), allocator.allocate(MIB)
    assert allocator.reserved_bytes == 2 * MIB
    allocator.allocate(MIB)
    assert allocator.reserved_bytes == 4 * MIB
    allocator.release(first)
    allocator.release(second)
    allocator.allocate(MIB - 512)  # reuses what was given back
    assert allocator.reserved_bytes == 4 * MIB
    allocator.allocate(MIB + 1)
    assert allocator.reserved_bytes == 24 * MIB
    allocator.allocate(11 * MIB)
    assert allocator.reserved_bytes == 24 * MIB  # the rest of the segment of 20 MiB
    allocator.allocate(11 * MIB + 1)
    assert allocator.reserved_bytes == 36 * MIB


def test_free_neighbours_become_one():
    allocator = CachingAllocator()
    blocks = [allocator.allocate(5 * MIB) for _ in range(4)]
    assert allocator.reserved_bytes == 20 * MIB
    for at in (0, 2, 1):
        allocator.release(blocks[at])
    allocator.allocate(15 * MIB)
    assert allocator.reserved_bytes == 20 * MIB


def test_a_step_reserves_what_its_order_needs():
    ops = (
        OrderOp("a", (), ("x",)),
        OrderOp("b", ("x",), ("y",)),
        OrderOp("c", ("y",), ("z",)),
    )
    problem = OrderingProblem(ops, {"x": 30 * MIB, "y": 16 * MIB, "z": 40 * MIB})
    assert reserved_bytes(problem, [50 * MIB], steps=1) == (50 + 30 + 16 + 40) * MIB
    assert reserved_bytes(problem, [50 * MIB], steps=5) == (50 + 30 + 16 + 40) * MIB
