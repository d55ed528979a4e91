# SPDX-License-Identifier: Apache-2.0
"""A training step that is done in parts has the bits of one that is not."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import pytest
from network import Harness, Project, compile_harness, project

from poetfw.firmware import LIBRARY, read_commit, read_committed

STEPS = 4
AGAIN, ORDER, IN_STEP = 1, -128, -136


@pytest.fixture(scope="module")
def made() -> Project:
    return project("nrf52840", slices=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("slices"), "nrf52840", slices=True)


@pytest.fixture
def begun(library: Path, made: Project) -> tuple[Harness, ctypes.Array[ctypes.c_uint32]]:
    """The firmware after one step, opened and loaded."""
    harness, net = Harness(library, made.image(1, 1)), (ctypes.c_uint32 * 21)()
    assert harness.call("poetfw_open", net) == harness.call("poetfw_load", net) == 0
    return harness, net


def test_slices_have_the_bits_of_whole_steps(
    library: Path,
    made: Project,
    begun: tuple[Harness, ctypes.Array[ctypes.c_uint32]],
    tmp_path: Path,
) -> None:
    harness, net = begun
    slices, sizes = 0, itertools.cycle((1, 2, 5))
    for _ in range(STEPS - 1):
        while (status := harness.call("poetfw_train_some", net, next(sizes))) == AGAIN:
            slices += 1
        assert status == 0
    assert harness.call("poetfw_save", net) == 0
    ops = made.files[f"{LIBRARY}/generated/train_step.c"].decode().count("POET_SLICE(")
    assert (STEPS - 1) * ops / 5 < slices < (STEPS - 1) * ops
    paths = tmp_path / "sliced.img", tmp_path / "whole.img"
    paths[0].write_bytes(harness.storage)
    paths[1].write_bytes(Harness(library, made.image(STEPS, 0)).storage)
    tensors = {t.name: t for t in (*made.program.training.tensors, made.program.metric)}
    assert {read_commit(path, made.slots).step for path in paths} == {STEPS}
    sliced, whole = (read_committed(path, made.slots, tensors) for path in paths)
    assert all((sliced[name] == value).all() for name, value in whole.items() if name != "metric")


def test_in_the_middle_of_a_step_only_going_on_or_giving_up_is_possible(
    begun: tuple[Harness, ctypes.Array[ctypes.c_uint32]],
) -> None:
    harness, net = begun
    assert harness.call("poetfw_train_some", net, 3) == AGAIN
    for call in ("load", "save", "train", "reset"):
        assert harness.call(f"poetfw_{call}", net) == IN_STEP, call
    assert harness.call("poetfw_evaluate", net, 1) == IN_STEP
    assert harness.call("poetfw_predict", net, None, 0, None, 0) == IN_STEP
    assert harness.call("poetfw_format", net, 1, 2) == harness.call("poetfw_busy") == IN_STEP
    assert harness.call("poetfw_open", net) == harness.call("poetfw_busy") == 0
    assert harness.call("poetfw_train_some", net, 1) == ORDER  # nothing is loaded
    assert harness.call("poetfw_load", net) == 0
    assert harness.call("poetfw_train_some", net, 0) == 0
