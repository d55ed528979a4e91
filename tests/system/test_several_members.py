# SPDX-License-Identifier: Apache-2.0
"""A network with several inputs, labels and results: built, run, and used as a library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from system.commands import poetfw, succeed

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")

from unit.importers.test_several_inputs import (  # noqa: E402 (which needs torch)
    INPUTS,
    LABELS,
    Alone,
    Fusion,
    drawn,
    exported,
    tensors,
    written,
)

pytestmark = pytest.mark.slow

IMAGE = ("--image", "build/linux/run/storage.img")
APPLICATION = r"""
#include <stdio.h>
#include <string.h>
#include "net.h"

/* Trains on the samples of standard input, and prints what it says of the last batch. */
int main(void)
{
    struct net net = {0};
    net_input x[NET_BATCH];
    net_target y[NET_BATCH];
    int status = net_reset(&net);
    while (status == NET_OK && fread(x, sizeof x, 1, stdin) == 1) {
        status = fread(y, sizeof y, 1, stdin) == 1 ? NET_OK : NET_ERROR_SAMPLE;
        status = status == NET_OK ? net_train_on(&net, x, sizeof x, y, sizeof y) : status;
    }
    for (int i = 0; i < (int)NET_BATCH; i++) {
        net_output output;
        status = net_predict(&net, &x[i], sizeof x[i], &output, sizeof output);
        for (int k = 0; k < 5; k++) {
            printf("%.9g ", (double)output.digit[k]);
        }
        printf("%.9g %.9g\n", (double)output.angle[0], (double)output.angle[1]);
    }
    x[0].numbers[1] = 1e30f * 1e30f;
    net_output none;
    const int infinite = net_predict(&net, &x[0], sizeof x[0], &none, sizeof none);
    y[0].turn[0] = 1e30f * 1e30f;
    x[0].numbers[1] = 0.0f;
    const int target = net_train_on(&net, x, sizeof x, y, sizeof y);
    return infinite != NET_ERROR_NOT_FINITE || target != NET_ERROR_NOT_FINITE || status != NET_OK;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    torch.manual_seed(1)
    exported(
        Fusion("loss"),
        tensors(drawn(np.random.default_rng(1)), *INPUTS, *LABELS),
        folder / "net.pt2",
    )
    written(folder / "data.npz", drawn(np.random.default_rng(2), 60))
    succeed(
        *("build", "--board", "linux", "--model", "net.pt2", "--data", "data.npz", "--batch", "4"),
        *("--ram", "60000", "--ring", "8", "--ring-share", "2", "--weights-in-flash"),
        cwd=folder,
    )
    return folder


def test_the_device_trains_as_the_reference_does(folder: Path) -> None:
    run = succeed("run", "--steps", "6", "--verify", cwd=folder)
    assert run["verify"]["ok"]
    assert run["step_traffic"] == run["planned_traffic"]


def test_samples_of_the_device_s_own_have_all_members(folder: Path) -> None:
    plain = succeed("run", "--steps", "6", cwd=folder)
    succeed("run", "--steps", "3", cwd=folder)
    own = drawn(np.random.default_rng(4), 3)
    written(folder / "own.npz", {**own, "labelled": np.array([True, True, False])})
    assert succeed("push", *IMAGE, "own.npz", cwd=folder)["samples"] == 3
    resumed = succeed("run", "--steps", "6", "--resume", cwd=folder)
    assert resumed["loss"] != plain["loss"][3:]
    assert plain["step_traffic"] == plain["planned_traffic"]
    assert resumed["planned_traffic"] is None
    assert succeed("pull", "--ring", *IMAGE, "-o", "all.npz", cwd=folder)["samples"] == 3
    held = np.load(folder / "all.npz")
    for name in INPUTS:
        np.testing.assert_array_equal(held[name], own[name])
    for name in LABELS:
        np.testing.assert_array_equal(held[name][:2], own[name][:2])
    written(folder / "own.npz", {name: own[name] for name in (*INPUTS, "which")})
    refused = poetfw("push", *IMAGE, "own.npz", cwd=folder)
    assert (refused.code, "there is no array turn" in refused.stderr) == (1, True)


def test_a_library_has_a_struct_with_a_member_for_each(folder: Path) -> None:
    succeed("export", "--as", "cmake", "-o", "lib", "--name", "net", "build/linux", cwd=folder)
    (folder / "app.c").write_text(APPLICATION)
    sources = sorted(str(path) for path in (folder / "lib/src/net").glob("*.c"))
    header = next((folder / "lib").rglob("net.h")).parent
    command = ["gcc", "-std=gnu11", "-Wall", "-Werror", "-O1", f"-I{header}", "app.c", *sources]
    subprocess.run([*command, "-o", "app", "-lm"], cwd=folder, check=True, timeout=300)
    net, arrays = Fusion("loss"), drawn(np.random.default_rng(7), 8)
    torch.manual_seed(1)
    net = Fusion("loss")
    types = [(name, arrays[name].dtype.kind, arrays[name].shape[1:]) for name in arrays]
    whole = {"f": "<f4", "i": "<i4"}
    rows = [
        np.zeros(8, [(name, whole[kind], shape) for name, kind, shape in types if name in part])
        for part in (INPUTS, LABELS)
    ]
    for part in rows:
        for name in part.dtype.names:
            part[name] = arrays[name]
    given = b"".join(part[i : i + 4].tobytes() for i in (0, 4) for part in rows)
    ran = subprocess.run([folder / "app"], input=given, capture_output=True, timeout=60)
    assert ran.returncode == 0, ran
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for i in (0, 4):
        optimizer.zero_grad()
        batch = {name: values[i : i + 4] for name, values in arrays.items()}
        net(*tensors(batch, *INPUTS, *LABELS))[0].backward()
        optimizer.step()
    net.kind = "results"
    expected = torch.cat(net(*tensors(batch, *INPUTS)), 1).detach().numpy()
    answers = np.array([line.split() for line in ran.stdout.decode().splitlines()], float)
    np.testing.assert_allclose(answers, expected, rtol=1e-4, atol=1e-5)


def test_a_device_learns_without_labels(tmp_path: Path) -> None:
    exported(Alone(), (torch.zeros(4, 6),), tmp_path / "net.pt2")
    x = np.random.default_rng(3).normal(size=(40, 6)).astype(np.float32)
    written(tmp_path / "data.npz", {"x": x})
    files = ("--model", "net.pt2", "--data", "data.npz", "--batch", "4", "--ram", "60000")
    succeed("build", "--board", "linux", *files, "--ring", "4", cwd=tmp_path)
    report = succeed("run", "--steps", "30", "--verify", cwd=tmp_path)
    assert report["verify"]["ok"]
    assert np.mean(report["loss"][-5:]) < np.mean(report["loss"][:5])
    written(tmp_path / "own.npz", {"x": x[:2] + 1})
    assert succeed("push", *IMAGE, "own.npz", cwd=tmp_path)["samples"] == 2
    succeed("run", "--steps", "34", "--resume", cwd=tmp_path)
    assert succeed("pull", "--ring", *IMAGE, "-o", "all.npz", cwd=tmp_path)["samples"] == 2
    np.testing.assert_array_equal(np.load(tmp_path / "all.npz")["x"], x[:2] + 1)
