# SPDX-License-Identifier: Apache-2.0
"""`run --verify` accepts what is right, and names the op that is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from poetfw.report import Verification
from poetfw.runs import verification
from poetfw.runs.execution import open_build
from poetfw.runs.observer import RunObserver
from poetfw.runs.running import on_twin, run_build
from poetfw.settings import RunSettings
from poetfw.tools import build_environments
from system.commands import Result, needs_twin, poetfw, succeed

Edit = tuple[str, str, str]
SGD: Edit = ("sgd.c", "rate = poet_learning_rate", "rate = 0.9f * poet_learning_rate")
ENVIRONMENTS = {"linux": "linux", "nrf52840": "nrf52840-twin"}
TWIN = pytest.param("nrf52840", marks=[pytest.mark.emulator, needs_twin])


def build(folder: Path, board: str = "linux", *arguments: str) -> Path:
    succeed("build", "--board", board, *(arguments or ("--batch", "8", "--ram", "64M")), cwd=folder)
    return folder / "build" / board


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is built, to be copied."""
    return build(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A project that is built, in `tmp_path`, to be changed."""
    return Path(shutil.copytree(built, tmp_path / "build" / built.name, symlinks=True))


def change(project: Path, edit: Edit) -> None:
    """Change a source in a project's folder, as a user would."""
    name, old, new = edit
    (file,) = (file for part in ("lib", "src") for file in (project / part).rglob(name))
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def compile_again(project: Path) -> None:
    """Build what is in the folder, as `pio run` does."""
    build_environments(project, [ENVIRONMENTS[project.name]])


def verify(folder: Path, board: str = "linux", steps: int = 3) -> Result:
    command = ("run", "--board", board, "--verify", "--json", "--steps", str(steps))
    result = poetfw(*command, cwd=folder)
    assert result.code in (0, 4), result.stderr
    assert result.json["verify"]["ok"] is (result.code == 0)
    assert bool(result.json["verify"]["missed"]) is (result.code == 4)
    return result


def verified(project: Path, steps: int = 3) -> Verification:
    settings = RunSettings(steps=steps, verify=True, skip_evaluation=True)
    report = run_build(open_build(project), settings, on_twin, RunObserver())
    assert report.verify is not None
    return report.verify


BROKEN: dict[str, tuple[Edit, str]] = {
    "an update that is too small": (SGD, "linear_backward_weight_sgd"),
    "a convolution without a tap": (
        (
            "conv2d.c",
            "walk->middle.count = rows;",
            "walk->middle.count = rows == 3 ? 2 : rows;",
        ),
        "conv2d",
    ),
    "a ReLU of the wrong sign": (
        ("relu.c", "y[i] = x[i] > 0.0f ? x[i]", "y[i] = x[i] < 0.0f ? x[i]"),
        "relu",
    ),
    "a call with another tensor": (
        (
            "train_step.c",
            "poet_relu_backward_f32(&poet_op0011, T0013, T0022",
            "poet_relu_backward_f32(&poet_op0011, T0022, T0022",
        ),
        "relu_backward",
    ),
}


@pytest.mark.parametrize(
    "what",
    [
        name if number < 1 else pytest.param(name, marks=pytest.mark.slow)
        for number, name in enumerate(BROKEN)
    ],
)
def test_a_broken_kernel_is_named(tmp_path: Path, project: Path, what: str) -> None:
    edit, kind = BROKEN[what]
    change(project, edit)
    compile_again(project)
    result = verify(tmp_path)
    assert result.code == 4
    found = result.json["verify"]["ops"]["first_beyond"]
    assert found["kind"] == kind
    assert found["error"] > found["bound"]
    assert f"op '{found['op']}' ({kind}, step {found['plan_step']} of the plan" in result.stderr
    assert "Things to try" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("board", [TWIN])
def test_a_broken_kernel_is_named_on_the_twin(tmp_path: Path, board: str) -> None:
    project = build(tmp_path, board, "--batch", "16", "--ram", "130000")
    assert verify(tmp_path, board, steps=2).code == 0
    change(project, SGD)
    compile_again(project)
    result = verify(tmp_path, board, steps=2)
    assert result.code == 4
    verdict = result.json["verify"]
    assert verdict["ops"]["first_beyond"]["kind"] == "sgd"
    assert verdict["bit_identical_to_unscheduled"] is True  # it has the same kernels
    assert verdict["bit_identical_to_traced"] is True


def test_sources_that_are_not_what_ran_are_noticed(tmp_path: Path, project: Path) -> None:
    change(project, SGD)
    result = verify(tmp_path)
    assert result.code == 4
    assert result.json["verify"]["bit_identical_to_traced"] is False
    assert "was compiled from others" in result.stderr
    assert "pio run" in result.stderr


def test_a_training_step_with_other_statements_cannot_be_traced(
    tmp_path: Path, project: Path
) -> None:
    change(project, ("train_step.c", "POET_STATEMENT(2u)", "POET_STATEMENT(9u)"))
    result = poetfw("run", "--board", "linux", "--verify", "--steps", "1", cwd=tmp_path)
    assert result.code == 1
    assert "train_step.c cannot be traced" in result.stderr


def test_a_tensor_that_something_else_overwrote_is_named(tmp_path: Path, project: Path) -> None:
    overwritten = "poet_relu_forward_f32(&poet_op0004, T0003, T0004);"
    change(project, ("train_step.c", overwritten, f"{overwritten} T0002[1] += 1.0f;"))
    compile_again(project)
    result = verify(tmp_path)
    assert result.code == 4
    altered = result.json["verify"]["ops"]["first_altered"]
    assert altered["tensor"] == "bn1.statistics"
    assert result.json["verify"]["ops"]["first_beyond"] is None
    assert "found 'bn1.statistics' altered since it was written" in result.stderr


def test_a_kernel_that_was_wrong_in_the_first_step_alone_is_named(project: Path) -> None:
    """The last step is right: the way to the first leads over the states before each."""
    once = "static int32_t calls;\n    for (int32_t i = 0; calls == 0 && i < op->elements; i++) {\n"
    wrong = "        y[i] = y[i] > 0.0f ? y[i] : 0.5f;\n    }\n    calls++;"
    right = "forward(op, x, y, false);"
    change(project, ("relu.c", right, f"{right}\n    {once}{wrong}"))
    compile_again(project)
    found = verified(project)
    assert not found.ok
    assert found.examined_steps == (1,)
    assert found.ops.first_beyond is not None
    assert found.ops.first_beyond.kind == "relu"
    assert found.ops.first_beyond.training_step == 1
    assert found.ops.first_beyond.error == 0.5


def test_a_run_is_recorded_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = build(tmp_path, "linux", "--batch", "8", "--ram", "80000")
    monkeypatch.setattr(verification, "WEIGHT_BOUND", 0.0)
    whole = verified(project)
    assert whole.ok
    assert whole.examined_steps == (1, 2, 3)
    requests: list[Any] = []
    record = verification.Trace.record

    def counted(trace: verification.Trace, wanted: Any) -> Any:
        requests.append(wanted)
        return record(trace, wanted)

    monkeypatch.setattr(verification.Trace, "record", counted)
    monkeypatch.setattr(verification, "PART_BYTES", 100_000)
    assert verified(project) == whole
    assert len(requests) > 12
    assert not (project / "run/traced/run/storage.img").exists()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["resnet8", "vgg16"])
def test_a_flipped_decision_is_no_fault(tmp_path: Path, model: str) -> None:
    build(tmp_path, "linux", "--model", model, "--batch", "2")
    assert verify(tmp_path, steps=2).code == 0
