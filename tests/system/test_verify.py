"""`run --verify` accepts what is right, and names the op that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from system.commands import Result, needs_twin, poetfw, succeed

TWIN = pytest.param("nrf52840", marks=[pytest.mark.emulator, needs_twin])
SGD = ("sgd.h", "= op->learning_rate * step", "= 0.9f * op->learning_rate * step")
ENVIRONMENTS = {"linux": "linux", "nrf52840": "nrf52840-twin"}


def change(
    folder: Path, board: str, edit: tuple[str, str, str], *, compile_it: bool = True
) -> None:
    """Change a source in a project's folder, and build it again as `pio run` does."""
    from poetfw.devices import build_environments

    name, old, new = edit
    (file,) = (folder / "src").rglob(name)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    if compile_it:
        build_environments(folder, [ENVIRONMENTS[board]])


def verify(folder: Path, board: str, *arguments: str) -> Result:
    command = ("run", "--board", board, "--verify", "--json", *(arguments or ("--steps", "3")))
    result = poetfw(*command, cwd=folder)
    assert result.code in (0, 4), result.stderr
    assert result.json["verify"]["ok"] is (result.code == 0)
    return result


BROKEN = {
    "an update that is too small": (SGD, "sgd"),
    "a convolution without its last row of taps": (
        (
            "conv2d.c",
            "for (int32_t row = 0; row < walk->rows; row++)",
            "for (int32_t row = 0; row + 1 < walk->rows; row++)",
        ),
        "conv2d",
    ),
    "a ReLU of the wrong sign": (
        ("relu.c", "y[i] = x[i] > 0.0f ? x[i]", "y[i] = x[i] < 0.0f ? x[i]"),
        "relu",
    ),
    "a call of another tensor": (
        (
            "train_step.c",
            "poet_relu_backward_f32(&OP0005, T0008",
            "poet_relu_backward_f32(&OP0005, T0007",
        ),
        "relu_backward",
    ),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    succeed("build", "--board", "linux", "--batch", "8", cwd=folder)
    return folder


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_kernel_is_named(tmp_path: Path, what: str) -> None:
    edit, kind = BROKEN[what]
    succeed("build", "--board", "linux", "--batch", "8", cwd=tmp_path)
    change(tmp_path / "build/linux", "linux", edit)
    result = verify(tmp_path, "linux")
    assert result.code == 4
    found = result.json["verify"]["ops"]["first_beyond"]
    assert found["kind"] == kind
    assert found["error"] > found["bound"]
    assert f"op {found['op']!r} ({kind}, step {found['plan_step']} of the plan" in result.stderr
    assert "Things to try" in result.stderr


@pytest.mark.parametrize("board", [TWIN])
def test_a_broken_kernel_is_named_on_the_twin(tmp_path: Path, board: str) -> None:
    succeed("build", "--board", board, cwd=tmp_path)
    change(tmp_path / f"build/{board}", board, SGD)
    result = verify(tmp_path, board, "--steps", "2")
    assert result.code == 4
    verdict = result.json["verify"]
    assert verdict["ops"]["first_beyond"]["kind"] == "sgd"
    assert verdict["bit_identical_to_unscheduled"] is True
    assert verdict["bit_identical_to_traced"] is True
