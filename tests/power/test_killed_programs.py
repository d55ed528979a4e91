# SPDX-License-Identifier: Apache-2.0
"""The program for `linux` is killed again and again, and ends with the same weights."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from random import Random

import pytest
from network import compile_program, project

from poetfw.firmware import read_commit, read_slots
from poetfw.ops import Array

KILLS, STEPS, EVERY = 60, 120, 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("program"))


def run(program: Path, image: Path, kill_after_s: float = 60) -> int:
    process = subprocess.Popen(
        [program, image],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "POETFW_SYSFS": str(image.parent)},
    )
    try:
        return process.wait(kill_after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def weights(image: Path) -> dict[str, Array]:
    made = project("linux")
    tensors = {
        tensor.name: tensor for tensor in (*made.program.training.tensors, made.program.metric)
    }
    values = read_slots(image, made.slots, tensors)
    return {f"{purpose} {name}": value for (name, purpose), value in values.items()}


def test_sixty_kills(program: Path, tmp_path: Path) -> None:
    image = tmp_path / "storage.img"
    fresh = project("linux").image(STEPS, EVERY)
    image.write_bytes(fresh)
    assert run(program, image) == 0
    whole = weights(image)
    random, kills, commits = Random(1), 0, set()
    image.write_bytes(fresh)
    while kills < KILLS:
        code = run(program, image, random.uniform(0, 0.02))
        assert code in (0, -signal.SIGKILL)
        commits.add(read_commit(image, project("linux").slots).step)
        kills += code != 0
        if code == 0:
            assert all((weights(image)[name] == value).all() for name, value in whole.items())
            image.write_bytes(fresh)
    assert run(program, image) == 0
    assert all((weights(image)[name] == value).all() for name, value in whole.items())
    assert len(commits) > 5
