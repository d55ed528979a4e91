# SPDX-License-Identifier: Apache-2.0
"""A program of torch.export, trained by its firmware on this computer, and back in PyTorch."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from poetfw.execution import open_project
from poetfw.firmware import SlotPurpose, read_slots
from poetfw.ops import kind_of
from poetfw.training.reference import value_of
from system.commands import succeed

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from ordinary import IDS, NETWORKS  # noqa: E402 (which needs torch)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_goes_to_the_device_and_back(name: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(2)
    random = np.random.default_rng(2)
    x = random.integers(0, 20, (40, 8)) if shape == IDS else random.normal(size=(40, *shape))
    x = x if shape == IDS else x.astype(np.float32)
    net, example = make().train(), torch.from_numpy(x[:4])
    net(example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(net, (example,)), tmp_path / "net.pt2")
    np.savez(tmp_path / "data.npz", x=x, y=random.integers(0, 10, 40))
    files = ("--model", "net.pt2", "--data", "data.npz", "--batch", "4")
    succeed("build", "--board", "linux", *files, "--ram", "4000000", cwd=tmp_path)
    succeed("run", "--board", "linux", "--steps", "6", "--verify", cwd=tmp_path)
    succeed("export-weights", "--as", "torch", "-o", "trained.pt", cwd=tmp_path)
    net.load_state_dict(torch.load(tmp_path / "trained.pt", weights_only=True))

    with torch.no_grad():
        expected = net.eval()(example).numpy()
    np.testing.assert_allclose(device_s_answers(tmp_path, x[:4]), expected, rtol=1e-5, atol=1e-5)


def device_s_answers(folder: Path, x: np.ndarray) -> np.ndarray:
    """What the evaluation step makes of samples, with the weights in the run's image."""
    project = open_project(folder / "build/linux")
    slots = read_slots(
        folder / "build/linux/run/storage.img", project.stages.slots, project.tensors
    )
    values = {name: v for (name, purpose), v in slots.items() if purpose is SlotPurpose.PERSISTENT}
    graph = project.stages.program.evaluation
    for op in graph.ops:
        if op.kind == "load_x":
            values[op.output] = x
        elif op.kind == "correct_count":
            return value_of(graph.by_name[op.inputs[0]], values)
        elif op.kind != "load_y":
            inputs = [value_of(graph.by_name[name], values) for name in op.inputs]
            values[op.output] = kind_of(op).compute(op, inputs, [])
    raise AssertionError("the evaluation step counts no answers")
