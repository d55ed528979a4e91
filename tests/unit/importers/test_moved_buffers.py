# SPDX-License-Identifier: Apache-2.0
"""Buffers that training moves: spectral norm's vectors, and averages of one's own."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn.utils.parametrizations import spectral_norm  # noqa: E402

from poetfw.common.errors import ModelError  # noqa: E402
from poetfw.importers.torch_export import import_torch  # noqa: E402
from poetfw.training import Program, Reference, Sgd, make_program  # noqa: E402

BATCH, STEPS = 4, 5


class Average(nn.Module):
    """A linear layer of what differs from a moving average."""

    def __init__(self, *, reads: bool = True) -> None:
        super().__init__()
        self.layer, self.reads = nn.Linear(6, 3), reads
        self.register_buffer("average", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        before = self.average * 1.0
        with torch.no_grad():
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        out: Tensor = self.layer(x - (self.average if self.reads else before))
        return out


NETWORKS = {
    "spectral norm": lambda: nn.Sequential(
        spectral_norm(nn.Linear(6, 5), n_power_iterations=2), nn.ReLU(), nn.Linear(5, 3)
    ),
    "spectral norm of a convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), spectral_norm(nn.Conv2d(1, 3, 2)), nn.Flatten()
    ),
    "average": Average,
}


OUTPUTS = {"spectral norm": 3, "spectral norm of a convolution": 6, "average": 3}


def imported(net: nn.Module, path: Path) -> tuple[Any, Program]:
    example = (torch.zeros(BATCH, 6),)
    torch.export.save(torch.export.export(copy.deepcopy(net), example), path)
    model = import_torch(path, BATCH, "mse")
    return model, make_program(model.graph, model.loss, Sgd(learning_rate=0.1, momentum=0.9))


@pytest.mark.parametrize("name", NETWORKS)
def test_buffers_move_as_in_torch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = NETWORKS[name]().train()
    model, program = imported(net, tmp_path / "net.pt2")
    ours = Reference(program, model.weights)
    theirs = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        x = torch.randn(BATCH, 6)
        y = torch.randn(BATCH, OUTPUTS[name])
        ours.step(x.numpy(), y.numpy())
        theirs.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        theirs.step()
    wanted = net.state_dict()
    assert {entry.name for entry in model.state_dict} == set(wanted)
    for entry in model.state_dict:
        found = entry.of(ours.persistent[entry.tensor])
        np.testing.assert_allclose(found, wanted[entry.name].numpy(), atol=2e-6, err_msg=entry.name)


def test_evaluation_moves_nothing_and_reads_what_is_stored(tmp_path: Path) -> None:
    net = NETWORKS["spectral norm"]().train()
    model, program = imported(net, tmp_path / "net.pt2")
    x, y = torch.randn(BATCH, 6), torch.randn(BATCH, 3)
    ours = Reference(program, model.weights)
    stored = {t.name: ours.persistent[t.name].copy() for t in program.persistent}
    loss = ours.evaluate(x.numpy(), y.numpy())
    wanted = nn.functional.mse_loss(net.eval()(x), y).item()
    assert loss == pytest.approx(wanted, rel=1e-5)
    for name, before in stored.items():
        if name != program.metric.name:
            np.testing.assert_array_equal(ours.persistent[name], before)
    assert "linear" in {op.kind for op in program.evaluation.ops}
    assert not {"moved", "store", "norm_root"} & {op.kind for op in program.evaluation.ops}


def test_a_new_value_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="changes a parameter or a buffer in place"):
        imported(Average(reads=False).train(), tmp_path / "net.pt2")
