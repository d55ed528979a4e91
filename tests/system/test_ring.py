# SPDX-License-Identifier: Apache-2.0
"""The samples of a device, from a build with a ring to NPZ and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from system.commands import poetfw, succeed

pytestmark = pytest.mark.slow

IMAGE = ("--image", "build/linux/run/storage.img")
BUILD = ("build", "--board", "linux", "--model", "mlp", "--ram", "200000")


def test_samples_are_pushed_learnt_from_and_pulled(tmp_path: Path) -> None:
    succeed(*BUILD, "--ring", "4", "--ring-share", "8", cwd=tmp_path)
    plain = succeed("run", "--steps", "6", cwd=tmp_path)
    first = succeed("run", "--steps", "3", cwd=tmp_path)
    assert first["loss"] == plain["loss"][:3]
    x = np.arange(3 * 64, dtype="f4").reshape(3, 64) / 192
    np.savez(tmp_path / "own.npz", x=x, y=[1, 2, 3], labelled=[True, True, False])
    assert succeed("push", *IMAGE, "own.npz", cwd=tmp_path)["samples"] == 3
    resumed = succeed("run", "--steps", "6", "--resume", cwd=tmp_path)
    assert resumed["resumed_from"] == 3
    assert resumed["loss"] != plain["loss"][3:]
    assert succeed("push", *IMAGE, "own.npz", cwd=tmp_path)["samples"] == 3
    assert succeed("pull", "--ring", *IMAGE, "-o", "all.npz", cwd=tmp_path)["samples"] == 4
    held = np.load(tmp_path / "all.npz")
    assert held["id"].tolist() == [5, 6, 8, 10]
    assert (held["x"] == x[[2, 0, 1, 2]]).all()
    assert held["labelled"].tolist() == [False, True, True, False]
    assert held["y"][held["labelled"]].tolist() == [1, 2]


def test_what_is_no_sample_is_refused(tmp_path: Path) -> None:
    succeed(*BUILD, "--ring", "4", cwd=tmp_path)
    wrong = {
        "as many numbers as": {"x": np.zeros((2, 63), "f4"), "y": [0, 1]},
        "not one of the classes": {"x": np.zeros((2, 64), "f4"), "y": [0, 10]},
        "not finite": {"x": np.full((2, 64), np.nan, "f4"), "y": [0, 1]},
        "booleans": {"x": np.zeros((2, 64), "f4"), "y": [0, 1], "labelled": [1, 0]},
        "do not fit": {"x": np.zeros((5, 64), "f4"), "y": [0] * 5},
    }
    for said, arrays in wrong.items():
        np.savez(tmp_path / "wrong.npz", **arrays)
        before = (tmp_path / "build/linux/storage.img").read_bytes()
        refused = poetfw("push", "--image", "build/linux/storage.img", "wrong.npz", cwd=tmp_path)
        assert (refused.code, said in refused.stderr) == (1, True), (said, refused)
        assert (tmp_path / "build/linux/storage.img").read_bytes() == before
    succeed(*BUILD, cwd=tmp_path)
    refused = poetfw("push", "--image", "build/linux/storage.img", "wrong.npz", cwd=tmp_path)
    assert (refused.code, "build it with --ring" in refused.stderr) == (1, True)
