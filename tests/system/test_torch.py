# SPDX-License-Identifier: Apache-2.0
"""A program of torch.export, trained by its firmware on this computer, and back in PyTorch."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from poetfw.firmware import SlotPurpose, read_slots
from poetfw.ops import kind_of
from poetfw.runs.execution import open_project
from poetfw.training import LOSSES
from poetfw.training.reference import value_of
from system.commands import succeed

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")


from workloads.ordinary import AUTOENCODERS, IDS, NETWORKS  # noqa: E402 (which needs torch)

LOG_SOFTMAX = ("mobilenet", "in place")
"""Those whose log-softmax is a part of the loss: the device answers without it."""


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
    loss = "mse" if name in AUTOENCODERS else "softmax_cross_entropy"
    np.savez(tmp_path / "data.npz", x=x, y=x if loss == "mse" else random.integers(0, 10, 40))
    files = ("--model", "net.pt2", "--data", "data.npz", "--batch", "4", "--loss", loss)
    succeed("build", "--board", "linux", *files, "--ram", "4000000", cwd=tmp_path)
    succeed("run", "--board", "linux", "--steps", "6", "--verify", cwd=tmp_path)
    succeed("export-weights", "--as", "torch", "-o", "trained.pt", cwd=tmp_path)
    trained = torch.load(tmp_path / "trained.pt", weights_only=True)
    missing, unexpected = net.load_state_dict(trained, strict=False)
    assert set(missing) <= {key for key, _ in net.named_buffers()}  # such as masks
    assert not unexpected

    answers = device_s_answers(tmp_path, x[:4])
    with torch.no_grad():
        expected = net.eval()(example).numpy()
    if name in LOG_SOFTMAX:
        answers = torch.log_softmax(torch.from_numpy(answers), 1).numpy()
    np.testing.assert_allclose(answers, expected, rtol=1e-5, atol=1e-5)


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
        elif op.kind in LOSSES.values():
            return value_of(graph.by_name[op.inputs[0]], values)
        elif op.kind != "load_y":
            inputs = [value_of(graph.by_name[name], values) for name in op.inputs]
            values[op.output] = kind_of(op).compute(op, inputs, [])
    raise AssertionError("the evaluation step measures no answers")
