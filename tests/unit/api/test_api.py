# SPDX-License-Identifier: Apache-2.0
"""The Python interface does what the commands do, and cancels cleanly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import poetfw
from poetfw.api.firmware import Firmware
from poetfw.cli.main import cli
from poetfw.common.errors import (
    ConfigError,
    DataError,
    ModelError,
    OutputError,
    ToolError,
)
from poetfw.report import BuildReport
from poetfw.report.html import report_html
from unit.project.spdx import ROOT

ON_LINUX: dict[str, Any] = {"board": "linux", "ram": "64M", "work_limit": 1}
MOST_MODULES = 60
"""Modules that `import poetfw` may add; those of NumPy are 200."""


def test_import_imports_next_to_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import poetfw; dir(poetfw)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    added = ran.stdout.split()
    assert "poetfw" in added
    assert len(added) < MOST_MODULES
    heavy = {"numpy", "click", "pydantic", "cvxpy", "torch", "matplotlib", "onnx", "poetfw.api"}
    assert not heavy.intersection(added)


def test_every_public_name_is_there() -> None:
    assert {name for name in poetfw.__all__ if not callable(getattr(poetfw, name))} == {
        "__version__"
    }
    assert set(poetfw.__all__) <= set(dir(poetfw))
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        poetfw.plans  # type: ignore[attr-defined]  # noqa: B018
    typed = (Path(poetfw.__file__).with_name("__init__.pyi")).read_text()
    listed = typed[typed.index("__all__") :]
    assert all(f'"{name}"' in listed for name in poetfw.__all__)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    folder = tmp_path_factory.mktemp("api") / "build"
    return poetfw.plan("mlp", batch=8, **ON_LINUX).compile(folder)


def test_the_command_line_builds_the_same(built: Firmware, tmp_path: Path) -> None:
    words = "--board linux --ram 64M --work-limit 1 --model mlp --batch 8 --generate-only --json"
    result = CliRunner().invoke(cli, ["build", *words.split(), "--out", str(tmp_path / "cli")])
    assert result.exit_code == 0, result.stderr
    theirs = {p.relative_to(tmp_path / "cli"): p for p in (tmp_path / "cli").rglob("*.[cht]*")}
    assert len(theirs) > 50
    for path, there in theirs.items():
        assert there.read_bytes() == (built.folder / path).read_bytes(), path
    schedule = json.loads(result.stdout)["schedule"]
    assert schedule["energy_j"] == built.figures.schedule.energy_j
    assert built.figures == BuildReport.read(built.folder / "build.json")


def test_a_module_and_arrays_are_what_their_files_are(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    x = np.random.default_rng(0).normal(size=(40, 6))
    y = np.arange(40) % 3
    program = torch.export.export(net, (torch.zeros(4, 6),))
    torch.export.save(program, tmp_path / "Sequential.pt2")
    np.savez(tmp_path / "data.npz", x=x, y=y)
    options: dict[str, Any] = {**ON_LINUX, "batch": 4, "progress": lambda text: None}
    data = tmp_path / "data.npz"
    from_files = poetfw.plan(tmp_path / "Sequential.pt2", data=data, **options).build.project.files
    files = poetfw.plan(net, data=(x, torch.from_numpy(y)), **options).build.project.files
    assert files.keys() == from_files.keys()
    assert {path for path in files if files[path] != from_files[path]} <= {"graph.json"}
    lists = {"x": x.tolist(), "y": y.tolist()}
    of_program = poetfw.plan(program, data=lists, **options).build
    state = {name: values.numpy() for name, values in net.state_dict().items()}
    assert {name: (state[name] == of_program.model.weights[name]).all() for name in state} == (
        dict.fromkeys(state, True)
    )
    assert {row.tobytes() for row in of_program.data.x_train} < {r.tobytes() for r in np.float32(x)}


class Loss:
    """A network's `forward` whose arguments are called as the arrays are."""

    training = True

    def forward(self, image: Any, word: Any, scale: float = 1.0) -> None: ...


def test_arguments_come_by_name() -> None:
    from poetfw.api.inputs import _first_samples

    data = {"which": np.arange(5), "word": np.ones((5, 2)), "image": np.zeros((5, 3))}
    first = _first_samples(Loss(), data, 2)
    assert [part.shape for part in first] == [(2, 3), (2, 2)]
    assert {part.dtype for part in first} == {np.dtype(np.float32)}
    by_place = _first_samples(Loss(), (np.zeros((5, 3)), np.arange(5)), 2)
    assert [part.shape for part in by_place] == [(2, 3), (2,)]


@pytest.mark.parametrize(
    ("model", "data", "kind", "said"),
    [
        (3, None, ConfigError, "int is no model"),
        ("mlp", (1, 2, 3), ConfigError, "data has 3 items"),
        ("mlp", {"x": [["a"]], "y": [0]}, DataError, "x: an array of numbers was expected"),
        ("mlp", {"x": [[1], [1, 2]], "y": [0]}, DataError, "x: this is not an array"),
        ("mlp", {"x": [[1.0]]}, DataError, "data.npz: there is no array y"),
        ("nothing", None, ModelError, "nothing"),
    ],
)
def test_what_is_refused(model: Any, data: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        poetfw.plan(model, data=data, **ON_LINUX)
    assert said in str(caught.value)
    assert "/tmp" not in str(caught.value)


def test_modules_that_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    net = torch.nn.Linear(3, 2)
    with pytest.raises(ConfigError, match="needs an example input"):
        poetfw.plan(net, data="digits", **ON_LINUX)
    with pytest.raises(ModelError, match=r"torch\.export cannot export Linear"):
        poetfw.plan(net, data=(np.zeros((4, 5)), np.zeros(4, int)), **ON_LINUX)
    with pytest.raises(ModelError, match="Linear is in evaluation mode"):
        poetfw.plan(net.eval(), example=torch.zeros(4, 3), **ON_LINUX)


def test_a_run_tells_of_each_step(built: Firmware) -> None:
    seen: list[poetfw.StepDone] = []
    run = poetfw.open(built.folder).run(steps=3, on_step=seen.append)
    assert [step.loss for step in seen] == list(run.loss)
    assert [step.number for step in seen] == [1, 2, 3]
    assert {type(loss) for loss in run.loss} == {float}
    assert all(step.steps == 3 and step.ticks[""] > 0 for step in seen)
    assert run.accuracy is not None
    weights = run.weights()
    assert sum(values.size for values in weights.values()) == built.figures.weights
    with pytest.raises(OutputError, match="not for nrf52840"):
        poetfw.open(built.folder, board="nrf52840").run(steps=1)


def test_a_report_is_the_page_of_the_folder(built: Firmware, tmp_path: Path) -> None:
    report = built.report()
    report.save(tmp_path / "report.html")
    assert report.html == (tmp_path / "report.html").read_text() == report_html(built.folder)


@pytest.mark.parametrize("error", [RuntimeError("enough"), KeyboardInterrupt()])
def test_an_exception_in_a_step_ends_the_run(built: Firmware, error: BaseException) -> None:
    def stop(step: poetfw.StepDone) -> None:
        raise error

    with pytest.raises(type(error)):
        built.run(steps=10_000_000, on_step=stop)
    running = subprocess.run(
        ["pgrep", "-f", str(built.folder)], capture_output=True, text=True, check=False
    )
    assert running.stdout == ""


def test_options_of_a_run_are_checked(built: Firmware) -> None:
    with pytest.raises(ConfigError, match="--port needs --on-board"):
        built.run(port="x")
    with pytest.raises(ConfigError, match="--epochs does not go with --steps"):
        built.run(steps=1, epochs=1)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_a_plan() -> None:
    stages: list[str] = []

    def progress(text: str) -> None:
        stages.append(text)
        if len(stages) == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        poetfw.plan("mlp", progress=progress, **ON_LINUX)
    assert len(stages) == 2


def test_a_problem_is_scheduled() -> None:
    path = ROOT / "examples" / "chain.json"
    document = json.loads(path.read_text())
    answers = [
        poetfw.schedule(problem, ram_fraction=0.6, work_limit=0.2) for problem in (path, document)
    ]
    assert answers[0].energy_j == answers[1].energy_j
    assert answers[0].recomputes + answers[0].page_ins > 0
    limited = poetfw.schedule(document, ram=answers[0].peak_bytes, work_limit=0.2)
    assert limited.peak_bytes <= answers[0].peak_bytes
    with pytest.raises(poetfw.InfeasibleError):
        poetfw.schedule(document, ram=1)


def test_a_sweep_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "sweep.jsonl"
    options: dict[str, Any] = {"fractions": [0.5, 0.9], "schedulers": ["dtr"], "work_limit": 0.2}
    done: list[int] = []
    table = poetfw.sweep(
        "mlp", boards=["nrf52840"], out=out, progress=lambda n, of, text: done.append(n), **options
    )
    assert (len(table), done) == (2, [0, 1, 2])
    assert {row["ram_fraction"] for row in table.rows} == {0.5, 0.9}
    assert table._repr_html_().count("<tr>") == 3
    again = poetfw.sweep("mlp", boards="nrf52840", out=out, **options)
    assert again == table
    pandas = pytest.importorskip("pandas")
    frame = table.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == [dict(row) for row in table.rows]
    assert frame["ram_fraction"].dtype == float
    assert list(frame.columns) == list(table.rows[0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ToolError, match="needs pandas"):
        table.to_dataframe()
    with pytest.raises(ConfigError, match="above 1"):
        poetfw.sweep("mlp", boards="nrf52840", fractions=2)


def test_a_sweep_with_an_unknown_model_does_not_begin(tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    options: dict[str, Any] = {"fractions": 0.9, "schedulers": ["dtr"], "work_limit": 0.1}
    with pytest.raises(ModelError, match="no model is called 'nope'"):
        poetfw.sweep(["mlp", "nope"], boards="nrf52840", out=out, **options)
    assert not out.exists()
