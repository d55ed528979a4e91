# SPDX-License-Identifier: Apache-2.0
"""The application of docs/library.md is built and run as the page says, beside PyTorch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from docs.pages import commands, fenced, inline_code
from poetfw.importers import load_data
from poetfw.models import build_model
from poetfw.training import Sgd

PAGE = "docs/library.md"
BATCH, STEPS = 32, 12

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake"),
]


def by_torch(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What the network says of the last batch after training on all, in float64."""
    model = build_model("mlp", BATCH)
    sgd: Sgd = model.optimizer
    values = {n: torch.tensor(np.float64(v), requires_grad=True) for n, v in model.weights.items()}
    layers = ("hidden1", "hidden2", "logits")

    def forward(batch: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            batch = functional.linear(batch, values[f"{layer}.weight"], values[f"{layer}.bias"])
            batch = batch if layer == "logits" else functional.relu(batch)
        return batch

    optimizer = torch.optim.SGD(values.values(), lr=sgd.learning_rate, momentum=sgd.momentum)
    for step in range(STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(forward(torch.tensor(np.float64(x[step]))), y[step]).backward()
        optimizer.step()
    return forward(torch.tensor(np.float64(x[-1]))).detach().numpy()


def test_the_application_says_what_pytorch_says(tmp_path: Path) -> None:
    typed = [c.text for c in commands(PAGE)][1:]
    assert [command.split()[1] for command in typed[:2]] == ["build", "export"]
    for command in typed[:2]:  # those behind them are of rings, and of boards
        program, *arguments = command.split()
        assert program == "poetfw"
        subprocess.run(
            [sys.executable, "-m", "poetfw.cli.main", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
    for language, name in (("c", "application.c"), ("cmake", "CMakeLists.txt")):
        (tmp_path / name).write_text(fenced(PAGE, language))
    assert len(fenced(PAGE, "c").splitlines()) < 45
    for command in [code for code in inline_code(PAGE) if code.startswith("cmake -")]:
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)

    data = load_data("digits", build_model("mlp", BATCH))
    x = data.x_train[: BATCH * STEPS].reshape(STEPS, BATCH, -1).astype("<f4")
    y = data.y_train[: BATCH * STEPS].reshape(STEPS, BATCH).astype("<i4")
    given = b"".join(x[i].tobytes() + y[i].tobytes() for i in range(STEPS))
    result = subprocess.run([tmp_path / "build/application"], input=given, capture_output=True)
    assert result.returncode == 0, result.stderr
    said = np.array([line.split() for line in result.stdout.decode().splitlines()], np.float64)
    expected = by_torch(x, torch.tensor(y.astype(np.int64)))
    assert said.shape == (BATCH, 10)
    assert np.abs(said - expected).max() <= 1e-5 * np.abs(expected).max()
