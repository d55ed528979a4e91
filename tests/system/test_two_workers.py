# SPDX-License-Identifier: Apache-2.0
"""A training step on several devices, from its plan to the trained weights."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from poetfw.firmware import SlotPurpose, read_request, read_slots, set_request
from poetfw.runs.execution import open_project
from poetfw.schedule import ExecutionPlan
from system.commands import needs_aarch64, poetfw, succeed
from unit.workers.device_plans import FILES, PAIR, any_plan, case_of

REPOSITORY = Path(__file__).parents[2]
ON_LINUX = ",".join(map(str, PAIR))
ON_TX2 = ",".join(str(FILES / f"{name}.toml") for name in ("tx2-a57", "tx2-denver2"))
NAMES = ("linux-big", "linux-small"), ("tx2-a57", "tx2-denver2")


def write_plan(path: Path, plan: ExecutionPlan) -> Path:
    """An answer of which there is the plan only."""
    steps = [
        {"step": kind.value, "node": node, "device": device}
        | ({} if target is None else {"target": target})
        for kind, node, device, target in plan
    ]
    path.write_text(json.dumps({"plan": steps}))
    return path


def trained(folder: Path) -> dict[str, bytes]:
    project = open_project(folder)
    values = read_slots(folder / "run/storage.img", project.stages.slots, project.tensors)
    return {
        name: value.tobytes()
        for (name, purpose), value in values.items()
        if purpose is SlotPurpose.PERSISTENT
    }


def build_and_run(folder: Path, *options: str | Path, steps: int = 3) -> tuple[Any, Any]:
    """A build, and its run, verified: every op, and bit by bit against one device's."""
    build = succeed("build", *options, "--out", folder / "project", cwd=folder)
    run = succeed(
        *("run", "--out", folder / "project", "--steps", str(steps), "--verify"), cwd=folder
    )
    assert run["verify"]["bit_identical_to_unscheduled"]
    arenas = [part["arena"] for part in build["parts"]]
    assert run["step_traffic"] == run["planned_traffic"]
    assert run["arenas"] == {arena["device"]: arena["size_bytes"] for arena in arenas}
    assert all(arena["size_bytes"] <= arena["limit_bytes"] for arena in arenas)
    return build, run


def steps_of(folder: Path) -> list[dict[str, str]]:
    document = json.loads((folder / "project/plan.json").read_text())
    steps: list[dict[str, str]] = document["training"]
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [(), ("--parallel",)], ids=["in turn", "at once"])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_plan_trains_to_the_bits_of_one_device(
    tmp_path: Path, parallel: tuple[str, ...], seed: int
) -> None:
    """Recomputing, and copies both ways; the runs have the same bits as each other, too."""
    plan = any_plan(case_of("digits-cnn").problem, seed)
    computed = [step.node for step in plan if step.kind == "compute"]
    assert len(computed) > len(set(computed))
    assert len({step.device for step in plan if step.kind == "copy"}) == 2
    answer = write_plan(tmp_path / "answer.json", plan)
    build_and_run(
        tmp_path,
        *("--devices", ON_LINUX, "--model", "digits-cnn", "--batch", "4", "--replay", answer),
        *parallel,
    )
    alone = tmp_path / "alone"
    succeed("build", "--board", "linux", "--batch", "4", "--out", alone, cwd=tmp_path)
    succeed("run", "--out", alone, "--steps", "3", cwd=tmp_path)
    assert trained(alone) == trained(tmp_path / "project")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "batch", "fractions", "parallel"),
    [
        ("digits-cnn", "8", "0.6,0.6", ()),
        ("digits-cnn", "8", "0.35,0.8", ("--parallel",)),
        ("resnet8", "2", "0.5,0.5", ("--parallel",)),
    ],
)
def test_a_search_within_limits_is_run(
    tmp_path: Path, model: str, batch: str, fractions: str, parallel: tuple[str, ...]
) -> None:
    options = ("--devices", ON_LINUX, "--model", model, "--batch", batch, *parallel)
    data = () if model == "digits-cnn" else ("--data", "synthetic")
    build_and_run(
        tmp_path, *options, *data, "--ram-fraction", fractions, "--work-limit", "8", steps=2
    )
    assert any(step["step"] == "copy" for step in steps_of(tmp_path))


@pytest.mark.slow
def test_the_pages_commands(tmp_path: Path) -> None:
    """What docs/devices.md shows of a build and a run."""
    page = (REPOSITORY / "docs/devices.md").read_text().split("## Run")[1].split("## Compared")[0]
    typed = [shlex.split(line) for line in page.splitlines() if line.startswith("    poetfw ")]
    assert [words[1] for words in typed] == ["build", "run"]
    for _, *words in typed:
        words = [word.replace("examples/", f"{REPOSITORY}/examples/") for word in words]
        report = succeed(*words, cwd=tmp_path)
    assert report["verify"]["ok"]
    for option, said in ((("--threads", "4"), "is for several"), (("--trace",), "is for several")):
        refused = poetfw(*words, *option, cwd=tmp_path)
        assert (refused.code, said in refused.stderr) == (1, True)
    assert poetfw(*words, cwd=tmp_path, POETFW_THREADS="4").code == 1


@pytest.mark.slow
@needs_aarch64
@pytest.mark.parametrize("parallel", [(), ("--parallel",)], ids=["in turn", "at once"])
def test_two_clusters_of_a_tx2(tmp_path: Path, parallel: tuple[str, ...]) -> None:
    names = dict(zip(*NAMES, strict=True))
    plan = tuple(
        step._replace(device=names[step.device], target=step.target and names[step.target])
        for step in any_plan(case_of("mlp").problem, 1)
    )
    answer = write_plan(tmp_path / "answer.json", plan)
    _, run = build_and_run(
        tmp_path,
        *("--devices", ON_TX2, "--model", "mlp", "--batch", "4", "--replay", answer),
        *parallel,
    )
    assert run["emulated"]


def compiled(project: Path, *flags: str) -> Path:
    """The program of a project, compiled without PlatformIO."""
    parts = ("", "generated", "kernels", "storage", "runtime", "hal")
    sources = [
        str(path)
        for folder in ("lib/poetfw", "src")
        for path in sorted((project / folder).rglob("*.c"))
        if "port" not in path.parts and not path.name.startswith(("sd", "poet_memory"))
    ]
    program = project / "program"
    includes = [f"-I{project}/lib/poetfw/{part}" for part in parts]
    command = [
        *("gcc", "-std=c11", "-O1", "-g", "-ffp-contract=off", "-fno-math-errno", "-pthread"),
        *("-fno-strict-aliasing", *includes, f"-I{project}/src/runtime", *flags),
    ]
    subprocess.run([*command, *sources, "-o", str(program)], check=True)
    return program


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizers_find_nothing_unless_waits_are_missing(tmp_path: Path, sanitizer: str) -> None:
    answer = write_plan(tmp_path / "answer.json", any_plan(case_of("digits-cnn").problem, 1))
    project = tmp_path / "project"
    succeed(
        *("build", "--devices", ON_LINUX, "--model", "digits-cnn", "--batch", "4", "--parallel"),
        *("--replay", answer, "--generate-only", "--out", project),
        cwd=tmp_path,
    )
    flag = f"-fsanitize={sanitizer}"

    def run() -> subprocess.CompletedProcess[str]:
        image = Path(shutil.copy(project / "storage.img", tmp_path))  # from its first step on
        set_request(image, replace(read_request(image), steps=5, evaluate=False))
        command = [compiled(project, flag), image]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    ended = run()
    assert ended.returncode == 0, ended.stderr
    assert "@done" in ended.stdout
    if sanitizer == "thread":
        step = project / "lib/poetfw/generated/train_step.c"
        text, waits = re.subn(r" +POET_TRY\(poet_wait_for\(.*\n", "", step.read_text())
        assert waits > 10
        step.write_text(text)
        assert "data race" in run().stderr


@pytest.mark.slow
def test_a_worker_that_hangs_or_dies_ends_the_run(tmp_path: Path) -> None:
    """A thread that ends by itself leaves the others waiting, for as long as they may."""
    answer = write_plan(tmp_path / "answer.json", any_plan(case_of("mlp").problem, 1))
    project = tmp_path / "project"
    options = ("--devices", ON_LINUX, "--model", "mlp", "--batch", "4", "--replay", answer)
    succeed("build", *options, "--generate-only", "--out", project, cwd=tmp_path)
    step = project / "lib/poetfw/generated/train_step.c"
    text = step.read_text()
    copy = re.search(r"^ +poet_copy\(", text, re.MULTILINE)
    assert copy is not None
    dying = f"{text[: copy.start()]}        pthread_exit(NULL);\n{text[copy.start() :]}"
    step.write_text(
        dying.replace("#include <stddef.h>", "#include <pthread.h>\n#include <stddef.h>")
    )
    command = [compiled(project, "-DPOET_WORKER_S=2"), project / "storage.img"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "@error status=-96 at=train" in ended.stdout
