# SPDX-License-Identifier: Apache-2.0
"""Training that goes on: `poetfw run --resume`, and what it has nothing to go on from."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest

from system.commands import poetfw, succeed
from system.test_linux import trained_slots


@pytest.mark.slow
def test_a_run_goes_on_at_its_last_checkpoint(tmp_path: Path) -> None:
    """With the same bits as without the cut; what is done is not trained again.

    Moments, their corrections, the learning rate and the sums of a batch that a checkpoint cuts in
    the middle go on, too.
    """
    optimizer = ("--optimizer", "adam", "--schedule", "cosine:4", "--micro-batch", "16")
    arguments = ("--board", "linux", "--model", "mlp", "--checkpoint-every", "2", *optimizer)
    succeed("build", *arguments, "--checkpoint-sets", "3", cwd=tmp_path)

    def run(*options: str) -> dict[str, object]:
        report: dict[str, object] = succeed("run", "--board", "linux", *options, cwd=tmp_path)
        return report

    early = poetfw("run", "--board", "linux", "--resume", "--json", cwd=tmp_path)
    assert early.code == 1
    assert "there is no run to resume" in json.loads(early.stdout)["error"]["message"]

    whole = run("--steps", "7")
    weights = trained_slots(tmp_path)
    loss = whole["loss"]
    assert isinstance(loss, list)
    assert (whole["resumed_from"], len(loss)) == (0, 7)

    run("--steps", "5")  # commits after 2, 4 and 5
    image, cut = tmp_path / "build/linux/run/storage.img", tmp_path / "cut.img"
    copyfile(image, cut)
    resumed = run("--steps", "7", "--resume")
    assert (resumed["resumed_from"], resumed["loss"]) == (5, loss[5:])
    assert trained_slots(tmp_path) == weights
    assert resumed["blocks_written"] > whole["blocks_written"]  # type: ignore[operator]

    done = run("--steps", "7", "--resume")
    assert (done["resumed_from"], done["loss"], done["storage_bytes_written"]) == (7, [], 0)
    assert done["accuracy"] == whole["accuracy"]
    text = poetfw("run", "--board", "linux", "--steps", "7", "--resume", cwd=tmp_path)
    assert "of them done before" in text.stdout

    content = bytearray(cut.read_bytes())  # the record of the last commit is damaged
    content[content.index(b"POETSAVE")] ^= 1
    image.write_bytes(content)
    from_before = run("--steps", "7", "--resume")
    assert from_before["resumed_from"] == 4
    assert trained_slots(tmp_path) == weights

    for others in (("--seed", "7"), ("--data", "others.npz")):
        x, y = np.ones((80, 64), np.float32), np.arange(80) % 10
        np.savez(tmp_path / "others.npz", x=x, y=y)
        succeed("build", *arguments, "--checkpoint-sets", "3", *others, cwd=tmp_path)
        refused = poetfw("run", "--board", "linux", "--resume", cwd=tmp_path)
        assert (refused.code, "was of another build" in refused.stderr) == (1, True)
    succeed("build", *arguments, "--checkpoint-sets", "3", cwd=tmp_path)

    assert poetfw("run", "--board", "linux", "--resume", "--verify", cwd=tmp_path).code == 2
    assert run("--steps", "7")["loss"] == loss  # from the beginning
