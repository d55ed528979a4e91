# SPDX-License-Identifier: Apache-2.0
"""The power goes, and the storage fails and lies, while activations and gradients are stored."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from network import FAULTS, HELD_OUT, Harness, compile_harness, project, trained
from test_power_cuts import STATUSES, check, outcomes

from emulator.firmware_tools import BLOCK

BOARD = "nrf52840"
SETS = 3
STEPS = 2
LOST, ORDER = -13, -128


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("stored"), BOARD, streamed=True, stored=True)


def run(library: Path, every: int, steps: int = STEPS) -> Harness:
    """Training with a commit after every so many steps."""
    made = project(BOARD, streamed=True, stored=True)
    return Harness(library, made.image(steps, every, SETS))


@pytest.mark.parametrize("samples", [1, 2])
def test_an_op_in_ram_and_one_in_pieces_have_the_same_bits(
    samples: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of the persistent tensors after training, all held-out batches, and given samples.

    The batch is stored, too.
    """
    both = []
    for is_stored in (True, False):
        features = {"streamed": is_stored, "stored": is_stored, "one_sample": True}
        made = project(BOARD, **features, samples=samples)
        assert bool(made.program.training.by_name["x"].tile) == is_stored
        library = compile_harness(
            tmp_path_factory.mktemp("both"), BOARD, **features, samples=samples
        )
        harness = Harness(library, made.image(4, 2, SETS))
        told = [line for line in harness.console.splitlines() if line.startswith("@eval")]
        values = trained(made, harness, tmp_path, 4)
        both.append(
            (
                {name: value.tobytes() for name, value in values.items()},
                told,
                given(harness, samples),
            )
        )
    assert len(both[0][1]) == HELD_OUT // samples
    assert len(set(both[0][2])) == len(both[0][2])
    assert both[0] == both[1]


def given(harness: Harness, samples: int) -> list[bytes]:
    """Outputs for given samples, each after a training step on the batch before."""
    net, output = (ctypes.c_uint32 * 32)(), (ctypes.c_float * 3)()
    y = (ctypes.c_uint32 * samples)(*(n % 3 for n in range(samples)))
    assert harness.call("poetfw_open", net) == harness.call("poetfw_load", net) == 0
    outputs = []
    for number in range(1, 4):
        x = (ctypes.c_float * (16 * samples))(*(number * i % 7 for i in range(16 * samples)))
        assert harness.call("poetfw_predict", net, x, 64, output, 12) == 0
        outputs.append(bytes(output))
        assert harness.call("poetfw_train_on", net, x, 64 * samples, y, 4 * samples) == 0
    return outputs


@pytest.mark.parametrize(("every", "depth"), [(1, 1), (0, 3)])
def test_power_cuts_at_each_write(library: Path, every: int, depth: int) -> None:
    harness = run(library, every)
    check(harness, harness.cases(1), 1, depth)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_storage_that_fails_or_lies_within_a_step(library: Path, fault: str) -> None:
    harness = run(library, 0, steps=1)
    for for_ever in (False, True):
        assert outcomes(harness, fault, for_ever) & STATUSES[fault]


@pytest.mark.parametrize("blocks", [1, 40])
def test_a_storage_that_has_shrunk_is_refused(library: Path, blocks: int) -> None:
    """Also if only blocks of stored tensors are gone, the last ones."""
    image = project(BOARD, streamed=True, stored=True).image(STEPS, 1, SETS)
    shrunk = Harness(library, image[: -blocks * BLOCK], may_fail=True)
    assert shrunk.code != 0
    assert shrunk.console.endswith("@error status=-10 at=image\n")


class Metrics(ctypes.Structure):
    _fields_ = (("step", ctypes.c_uint32), ("loss", ctypes.c_float), ("metric", ctypes.c_float))


def test_nothing_computes_where_no_storage_is_open(library: Path) -> None:
    harness, net = run(library, 0), (ctypes.c_uint32 * 32)()
    x, y, output = (ctypes.c_float * 16)(), (ctypes.c_uint32 * 1)(), (ctypes.c_float * 3)()
    calls = ("poetfw_predict", net, x, 64, output, 12), ("poetfw_train_on", net, x, 64, y, 4)
    assert [harness.call(*call) for call in calls] == [ORDER, ORDER]
    assert harness.call("poetfw_open", net) == harness.call("poetfw_load", net) == 0
    assert [harness.call(*call) for call in calls] == [0, 0]
    harness.disturb(0, "removed", False)
    assert harness.call("poetfw_format", net, 1, SETS) != 0
    harness.leave_alone()
    assert [harness.call(*call) for call in calls] == [ORDER, ORDER]


@pytest.mark.parametrize("predicts", [False, True])
def test_a_write_lost_in_a_forward_pass_is_found(library: Path, predicts: bool) -> None:
    """Else the pass would read what an earlier pass, or the last training step, wrote there."""
    harness, net = run(library, 0), (ctypes.c_uint32 * 32)()
    assert harness.call("poetfw_open", net) == harness.call("poetfw_load", net) == 0

    def forward(batch: int) -> tuple[int, object]:
        if not predicts:
            metrics = (ctypes.c_uint32 * 16)()
            status = harness.call("poetfw_evaluate", net, batch)
            assert harness.call("poetfw_metrics", net, metrics) == 0
            return status, Metrics.from_buffer(metrics).metric
        output = (ctypes.c_float * 3)()
        x = (ctypes.c_float * 16)(*(batch * i % 5 for i in range(16)))
        status = harness.call("poetfw_predict", net, x, 64, output, 12)
        return status, tuple(output)

    right = {batch: forward(batch) for batch in range(1, HELD_OUT + 1)}
    assert {status for status, _ in right.values()} == {0}
    lost = 0
    for call in range(120):
        batch = 1 + call % HELD_OUT
        harness.disturb(call, "silently not written", False)
        status, value = forward(batch)
        harness.leave_alone()
        assert status in (0, LOST), status
        lost += status == LOST
        assert status == LOST or (status, value) == right[batch], call
    assert lost > 10
