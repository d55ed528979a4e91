# SPDX-License-Identifier: Apache-2.0
"""Programs are killed in the middle of a write, again and again, and end with the same weights."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from network import HERE, Project, compile_program, project

from emulator.firmware_tools import compile_c
from poetfw.firmware import read_commit, read_committed, read_slots
from poetfw.ops import Array
from poetfw.planning.homes import STREAMING_SETS
from poetfw.runs.execution import open_project

KILLS, STEPS, EVERY = 60, 120, 3
WRITES = 200
"""A program is killed at one of so many."""

DEMO_KILLS, DEMO_STEPS = 10, 12


@pytest.fixture(scope="module", params=[False, True], ids=["resident", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    """True if weights are streamed: the storage is then written in every step."""
    streamed: bool = request.param
    return streamed


@pytest.fixture(scope="module")
def program(streamed: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("program"), streamed=streamed)


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("killer") / "killer.so"
    return compile_c(out, [HERE / "killer.c"], [], "-shared", "-fPIC")


def killed_at(killer: Path, program: str, write: int) -> dict[str, str]:
    """The environment in which a program is killed in so manyth write to its storage, from 0."""
    return {"LD_PRELOAD": str(killer), "KILL_PROGRAM": program, "KILL_AT": str(write)}


def run(program: Path, image: Path, environment: dict[str, str] | None = None) -> int:
    return subprocess.run(
        [program, image],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "POETFW_SYSFS": str(image.parent), **(environment or {})},
        timeout=60,
    ).returncode


def weights(image: Path, made: Project) -> dict[str, Array]:
    tensors = {
        tensor.name: tensor for tensor in (*made.program.training.tensors, made.program.metric)
    }
    values = read_slots(image, made.slots, tensors)
    return {f"{purpose} {name}": value for (name, purpose), value in values.items()}


def test_sixty_kills(program: Path, streamed: bool, killer: Path, tmp_path: Path) -> None:
    image, made = tmp_path / "storage.img", project("linux", streamed=streamed)
    fresh = made.image(STEPS, EVERY, STREAMING_SETS if streamed else 2)
    image.write_bytes(fresh)
    assert run(program, image) == 0
    whole = weights(image, made)
    random, kills, commits = Random(1), 0, set()
    image.write_bytes(fresh)
    while kills < KILLS:
        code = run(program, image, killed_at(killer, program.name, random.randrange(WRITES)))
        assert code in (0, -signal.SIGKILL)
        commits.add(read_commit(image, made.slots).step)
        kills += code != 0
        if code == 0:
            assert all((weights(image, made)[name] == value).all() for name, value in whole.items())
            image.write_bytes(fresh)
    assert run(program, image) == 0
    assert all((weights(image, made)[name] == value).all() for name, value in whole.items())
    assert len(commits) > 5


def poetfw(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> Any:
    """The document of a command that succeeds; None for one that fails with the device."""
    ended = subprocess.run(
        [sys.executable, "-m", "poetfw.cli.main", *arguments, "--json"],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        timeout=900,
    )
    assert ended.returncode in (0, 4)
    return json.loads(ended.stdout) if ended.returncode == 0 else None


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="needs QEMU")
def test_ten_kills_of_the_emulated_demo(killer: Path, tmp_path: Path) -> None:
    """The emulator dies in the middle of a write: same losses, accuracy, and bits as without."""
    poetfw(tmp_path, "build", "--board", "nrf52840")
    train = ("run", "--steps", str(DEMO_STEPS), "--checkpoint-every", "1")
    whole = poetfw(tmp_path, *train)
    built = open_project(tmp_path / "build/nrf52840")
    image = built.folder / "run/storage.img"
    wanted = read_committed(image, built.stages.slots, built.tensors)
    writes = whole["storage_bytes_written"] // 512
    random, kills, steps = Random(2), 0, set()
    resume: tuple[str, ...] = ()
    while kills < DEMO_KILLS:
        at = random.randrange(2 * writes // DEMO_STEPS)
        environment = killed_at(killer, "qemu", at)
        ended = poetfw(tmp_path, *train, *resume, environment=environment)
        kills += ended is None
        steps.add(read_commit(image, built.stages.slots).step)
        # One that comes to its end is as it should be, and begins anew.
        resume = ("--resume",) if ended is None else ()
        assert ended is None or ended["accuracy"] == whole["accuracy"]
    last = poetfw(tmp_path, *train, *resume)
    assert last["accuracy"] == whole["accuracy"]
    assert last["loss"] == whole["loss"][last["resumed_from"] :]
    found = read_committed(image, built.stages.slots, built.tensors)
    assert all((found[name] == value).all() for name, value in wanted.items())
    assert len(steps) > 3
