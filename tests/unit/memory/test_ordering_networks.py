# SPDX-License-Identifier: Apache-2.0
"""The benchmark's networks beside PyTorch itself, and its model of the caching allocator."""

from __future__ import annotations

import pytest

from poetfw.common.limits import Work
from poetfw.memory.ordering import OrderingProblem, OrderingStatus, OrderOp, order_ops, peak_bytes
from workloads.caching_allocator import CachingAllocator, reserved_bytes
from workloads.networks import NETWORKS
from workloads.networks.sharing import with_sharing

MIB = 2**20
DROPPING = ("alexnet", "vgg", "vgg16", "vgg19", "mobilenet")
"""Networks with dropout."""


@pytest.mark.parametrize("keep", [False, True], ids=["freed", "kept"])
@pytest.mark.parametrize("batch", [1, 32])
def test_networks_peak_as_in_pytorch(batch: int, keep: bool) -> None:
    pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    from workloads.networks.in_pytorch import MODULES
    from workloads.networks.live_bytes import measure

    for network in MODULES:
        row = measure(network, batch, gradients_kept=keep)
        more = row.measured_bytes - row.calculated_bytes
        # Batch norms count batches; a loss and its gradient are 4 bytes each; and on the meta
        # device a dropout's mask is of floats, on CUDA of bytes.
        masks = row.calculated_bytes // 500 if keep and network in DROPPING else 0
        assert 0 <= more <= row.counters_bytes + 8 + masks, network


PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg": 132_863_336,
    "vgg16": 138_357_544,
    "resnet": 11_689_512,
    "resnet50": 25_557_032,
    "resnet3d": 33_371_472,
    "mobilenet": 3_504_872,
    "mnasnet": 2_218_512,
    "mnasnet-1.0": 4_383_312,
    "efficientnet": 5_288_548,
    "googlenet": 13_004_888,
    "vit": 86_567_656,
    "vit-l-16": 304_326_632,
}
"""As torchvision documents them."""


@pytest.mark.parametrize("network", PARAMETERS)
def test_parameters_are_those_of_torchvision(network):
    step = NETWORKS[network](2)
    kept = step.with_kept_gradients().problem.resident_bytes - step.problem.resident_bytes
    assert kept == 4 * PARAMETERS[network]


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_are_ordered_optimally(network):
    problem = NETWORKS[network](1).problem
    ordering = order_ops(problem)
    assert ordering.status is OrderingStatus.OPTIMAL
    assert ordering.peak_bytes < peak_bytes(problem)


def test_a_network_of_olla_s_largest_size_is_ordered_within_seconds():
    """OLLA's largest has 2,007 ops, and 5 minutes."""
    for batch in (1, 32):
        step = NETWORKS["vit-l-16"](batch)
        assert len(step.problem.ops) > 1_900
        for problem in (step.problem, with_sharing(step, step.problem.names)):
            work = Work(60.0)
            assert order_ops(problem, work).gap <= 0.01
            assert work.left > 0


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
