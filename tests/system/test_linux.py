# SPDX-License-Identifier: Apache-2.0
"""The same C on this computer: every scheduler, tight budgets, sanitizers, the wheel."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from system.commands import ON_LINUX, poetfw, succeed

REPOSITORY = Path(__file__).parent.parent.parent


def build_and_run(folder: Path, *arguments: str, steps: int = 2) -> tuple[Any, Any]:
    build = succeed("build", *ON_LINUX, *arguments, cwd=folder)
    return build, succeed("run", "--board", "linux", "--steps", str(steps), cwd=folder)


def trained_slots(folder: Path) -> dict[str, bytes]:
    from poetfw.firmware import SlotPurpose, read_slots
    from poetfw.runs.execution import open_project

    project = open_project(folder / "build/linux")
    image = project.folder / "run/storage.img"
    values = read_slots(image, project.stages.slots, project.tensors)
    return {
        name: value.tobytes()
        for (name, purpose), value in values.items()
        if purpose is SlotPurpose.PERSISTENT
    }


@pytest.fixture(scope="module")
def unscheduled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("unscheduled")
    build, run = build_and_run(folder, "--scheduler", "checkpoint-all", "--batch", "8")
    return build, run, trained_slots(folder)


@pytest.mark.parametrize(
    ("scheduler", "share"),
    [
        pytest.param("poet", 0.75, marks=pytest.mark.slow),
        ("poet", 0.57),
        pytest.param("poet-paging-off", 0.7, marks=pytest.mark.slow),
        pytest.param("poet-remat-off", 0.57, marks=pytest.mark.slow),
    ],
)
def test_every_schedule_trains_to_the_same_bits(
    tmp_path: Path, unscheduled: tuple[Any, Any, dict[str, bytes]], scheduler: str, share: float
) -> None:
    everything, run_everything, weights = unscheduled
    ram = int(everything["peak_bytes"] * share)
    build, run = build_and_run(
        tmp_path, "--scheduler", scheduler, "--batch", "8", "--ram", str(ram)
    )
    assert build["schedule"]["recomputes"] + build["schedule"]["page_ins"] > 0
    assert run["high_water_bytes"] == build["peak_bytes"] <= ram
    assert run["loss"] == run_everything["loss"]
    assert trained_slots(tmp_path) == weights


@pytest.mark.parametrize(
    "model",
    ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lenet5", "resnet8"))],
)
def test_built_in_models_train_and_verify(tmp_path: Path, model: str) -> None:
    succeed("build", *ON_LINUX, "--model", model, "--batch", "4", cwd=tmp_path)
    run = succeed("run", "--board", "linux", "--steps", "3", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"] is True
    assert run["verify"]["max_rel_error_loss"] <= 1e-5
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    ["ds-cnn", "mobilenet", "autoencoder", "squeeze-excite", "lstm", "gru", "transformer-tiny"],
)
def test_more_built_in_models_train_on_synthetic_data(tmp_path: Path, model: str) -> None:
    """Deep networks of batch norms amplify roundings, so some are judged op by op."""
    options = ("--model", model, "--data", "synthetic", "--batch", "4", "--work-limit", "5")
    succeed("build", "--board", "linux", *options, cwd=tmp_path)
    run = succeed("run", "--board", "linux", "--steps", "3", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"] is True
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.slow
def test_mean_squared_error_trains_and_verifies(tmp_path: Path) -> None:
    arguments = ("--model", "mlp", "--loss", "mse", "--learning-rate", "0.05")
    succeed("build", "--board", "linux", *arguments, cwd=tmp_path)
    run = succeed("run", "--board", "linux", "--epochs", "2", "--verify", cwd=tmp_path)
    assert run["accuracy"] is None
    assert 0 < run["held_out_loss"] < 0.1
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["softmax_cross_entropy --label-smoothing 0.1", "nll"])
def test_weighted_classes_train_and_verify(tmp_path: Path, loss: str) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 64)).astype(np.float32)
    y = np.where(random.random(100) < 0.2, -100, x[:, :10].argmax(1))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    data = "--model mlp --data data.npz --batch 8 --micro-batch 4 --ignore-index -100"
    weights = "--class-weights 1,2,3,1,1,1,1,1,1,0.5"
    options = f"{data} {weights} --loss {loss}".split()
    build = succeed("build", "--board", "linux", *options, cwd=tmp_path)
    assert any("mean over the weights in each micro-batch" in said for said in build["warnings"])
    run = succeed("run", "--board", "linux", "--steps", "12", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"] is True
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.slow
def test_a_part_trains_with_clipped_gradients(tmp_path: Path) -> None:
    part = "--freeze conv1*,bn1* --freeze bn2* --clip-norm 0.5"
    tight = "--batch 8 --ram 80000 --scheduler poet-remat-off --work-limit 5"
    build = succeed("build", "--board", "linux", *f"{part} {tight}".split(), cwd=tmp_path)
    assert build["minimum_budget_bytes"] <= build["peak_bytes"] <= 80000
    assert build["schedule"]["page_ins"] > 0
    run = succeed("run", "--board", "linux", "--steps", "3", "--verify", cwd=tmp_path)
    assert run["high_water_bytes"] == build["peak_bytes"]
    assert run["verify"]["max_rel_error_gradients"] <= 1e-5
    assert run["verify"]["max_rel_error_weights"] <= 1e-5
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        "adam --schedule cosine:9 --warm-up 2 --clip-value 0.1 --batch 16 --micro-batch 8",
        "sgd --nesterov --schedule step:2:0.5 --batch 8",
        "adamw --betas 0.8,0.99 --no-decay bias,norm --batch 8",
        "rmsprop --momentum 0.9 --weight-decay 0.01 --batch 8",
        "adagrad --train norm,last:1 --batch 8",
        "adamw --train conv[23].weight@1/2,logits.weight@1/4,norm --clip-value 0.1 --batch 8",
        "sgd --train conv?.weight@0.3,last:1 --micro-batch 4 --batch 8",
    ],
)
def test_optimizers_train_and_verify(tmp_path: Path, options: str) -> None:
    """On a schedule that recomputes or pages, to the bits of one that keeps everything."""
    wanted = ("--board", "linux", "--optimizer", *options.split())
    everything = ("--scheduler", "checkpoint-all", "--generate-only")
    roomy = succeed("build", *wanted, *everything, cwd=tmp_path)
    ram = str(int(0.8 * roomy["peak_bytes"]))
    build = succeed("build", *wanted, "--ram", ram, "--scheduler", "dtr", cwd=tmp_path)
    assert build["schedule"]["recomputes"] + build["schedule"]["page_ins"] > 0
    run = succeed("run", "--board", "linux", "--steps", "5", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"] is True
    assert run["verify"]["bit_identical_to_unscheduled"] is True


@pytest.mark.slow
def test_a_model_without_stored_gradients_verifies(tmp_path: Path) -> None:
    """Its weights' gradients are applied element by element, and its biases are frozen."""
    arguments = ("--model", "mlp", "--batch", "1", "--freeze", "*.bias")
    for momentum, compared in (("0.9", True), ("0", False)):
        succeed("build", "--board", "linux", *arguments, "--momentum", momentum, cwd=tmp_path)
        run = succeed("run", "--board", "linux", "--steps", "3", "--verify", cwd=tmp_path)
        error = run["verify"]["max_rel_error_gradients"]
        assert error is not None and error <= 1e-5 if compared else error is None
        assert run["verify"]["max_rel_error_weights"] <= 1e-5
        assert run["verify"]["bit_identical_to_unscheduled"] is True
    text = poetfw("run", "--board", "linux", "--steps", "1", "--verify", cwd=tmp_path)
    assert text.code == 0
    assert "none stored" in text.stdout


def test_firmware_runs_clean_under_sanitizers(tmp_path: Path) -> None:
    from poetfw.firmware import RunRequest, set_request
    from poetfw.tools import build_environments, run_firmware

    succeed("build", "--board", "linux", "--batch", "8", "--ram", "90000", cwd=tmp_path)
    folder = tmp_path / "build/linux"
    elf = build_environments(folder, ["linux-sanitize"])["linux-sanitize"]
    set_request(folder / "storage.img", RunRequest(steps=2, capture=True))
    log = run_firmware([str(elf.resolve())], folder, timeout_s=120, steps=2, evaluations=45)
    assert len(log.losses) == 2


def tree_digest(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "build.json"
    }


@pytest.mark.parametrize("optimize", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_same_input_gives_the_same_bytes(tmp_path: Path, optimize: str) -> None:
    """Whatever the folder, the user's settings, and the seed of Python's hashes."""
    here, there = tmp_path / "here", tmp_path / "somewhere/else/ü"
    for folder in (here, there):
        folder.mkdir(parents=True)
    (there / "matplotlibrc").write_text("savefig.dpi: 50\nfont.size: 20\nlines.linewidth: 9\n")
    arguments = ("build", "--board", "nrf52840", "--ram", "230000", "--generate-only")
    plain = {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "OMP_NUM_THREADS": "1"}
    other = {
        **{"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "OMP_NUM_THREADS": "2"},
        **{"HOME": str(there), "COLUMNS": "40", "PYTHONOPTIMIZE": optimize},
        "XDG_CACHE_HOME": str(Path.home() / ".cache"),  # of fonts, which are those of the computer
    }
    succeed(*arguments, cwd=here, **plain)
    umask = os.umask(0o077)
    try:
        succeed(*arguments, cwd=there, **other)
    finally:
        os.umask(umask)
    assert tree_digest(here / "build/nrf52840") == tree_digest(there / "build/nrf52840")


@pytest.mark.slow
def test_wheel_builds_the_demo_outside_the_checkout(tmp_path: Path) -> None:
    wheels, site, work = tmp_path / "wheels", tmp_path / "site", tmp_path / "work"
    work.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", wheels, REPOSITORY], check=True, timeout=300)
    (wheel,) = wheels.glob("poetfw-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True, timeout=300)
    where = subprocess.run(
        [sys.executable, "-c", "import poetfw; print(poetfw.__file__)"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))
    top = {path.name for path in site.iterdir() if path.suffix != ".dist-info"}
    assert top == {"bin", "poetfw"}  # and no package of the benchmarks and tests
    succeed("build", "--board", "linux", cwd=work, PYTHONPATH=str(site))
    run = succeed("run", "--board", "linux", cwd=work, PYTHONPATH=str(site))
    assert run["accuracy"] >= 0.90
    succeed("report", "--board", "linux", "-o", "report.html", cwd=work, PYTHONPATH=str(site))
    assert f"{100 * run['accuracy']:.2f}" in (work / "report.html").read_text()
