# SPDX-License-Identifier: Apache-2.0
"""Exported libraries, built as their users build them: what their examples do is right."""

from __future__ import annotations

import re
import shutil
import subprocess
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from poetfw.common.resources import firmware_templates_dir
from poetfw.exports.library import export_project
from poetfw.firmware import RunRequest, read_samples, read_slots, set_request
from poetfw.runs.execution import BuiltProject, open_project
from poetfw.settings import ExportSettings
from poetfw.tools import build_environments
from system.commands import needs_twin, succeed

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
STEPS = 30
PLATFORMIO = """\
[platformio]
core_dir = .pio/core
[toolchain]
cc = gcc
cxx = g++
ar = gcc-ar
ranlib = gcc-ranlib
objcopy = objcopy
hex = ihex
machine_flags =
link_flags =
libs =
size_flags =
hosted = yes
[env:native]
platform = symlink://./platforms/systemgcc
board = posix_native
lib_deps = net=symlink://{library}
lib_compat_mode = off
build_flags = -Wl,--gc-sections
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that was trained for some steps on this computer."""
    folder = tmp_path_factory.mktemp("built")
    succeed("build", "--board", "linux", "--batch", "16", "--out", "project", cwd=folder)
    succeed("run", "--out", "project", "--steps", str(STEPS), cwd=folder)
    return folder / "project"


@pytest.fixture(scope="module")
def opened(built: Path) -> BuiltProject:
    return open_project(built)


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples with the trained weights, built by CMake."""
    folder = tmp_path_factory.mktemp("cmake")
    export_project(built, folder / "net", ExportSettings("cmake", "net", "trained"))
    return cmake(folder / "net", folder / "build")


def cmake(source: Path, build: Path, *options: str) -> Path:
    for command in (["-S", source, "-B", build, *options], ["--build", build, "-j", "2"]):
        subprocess.run(["cmake", *map(str, command)], check=True, capture_output=True, timeout=300)
    return build


def run(program: Path | Sequence[str], given: bytes = b"", *arguments: str, cwd: Path) -> str:
    command = [str(program)] if isinstance(program, Path) else list(program)
    result = subprocess.run(
        [*command, *arguments], input=given, cwd=cwd, capture_output=True, timeout=300, check=True
    )
    return result.stdout.decode()


def outputs(said: str) -> np.ndarray:
    return np.array([[float(v) for v in line.split()] for line in said.splitlines()], np.float32)


def held_out(project: BuiltProject, count: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = read_samples(project.image, project.stages.program).held_out
    return x[:count], y[:count]


def by_torch(values: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """What PyTorch takes samples for, with these weights: digits-cnn, written down again."""
    given = {name: torch.tensor(value.astype(np.float64)) for name, value in values.items()}
    h = torch.tensor(x.astype(np.float64))
    for layer in (1, 2, 3):
        h = functional.conv2d(h, given[f"conv{layer}.weight"], padding=1)
        affine, running = given[f"bn{layer}.affine"], given[f"bn{layer}.running"]
        h = functional.batch_norm(h, running[0], running[1], affine[0], affine[1], eps=1e-5)
        h = functional.relu(h)
        h = functional.max_pool2d(h, 2) if layer > 1 else h
    return functional.linear(h.flatten(1), given["logits.weight"], given["logits.bias"]).numpy()


def trained(project: BuiltProject) -> dict[str, np.ndarray]:
    image = project.folder / "run/storage.img"
    slots = read_slots(image, project.stages.slots, project.tensors)
    return {name: value for (name, purpose), value in slots.items() if purpose == "persistent"}


def test_predictions_agree_with_pytorch(
    opened: BuiltProject, programs: Path, tmp_path: Path
) -> None:
    x, y = held_out(opened, 200)
    predicted = outputs(run(programs / "predict", x.tobytes(), cwd=tmp_path))
    expected = by_torch(trained(opened), x)
    assert np.abs(predicted - expected).max() <= 1e-5 * np.abs(expected).max()
    assert (predicted.argmax(1) == y).mean() > 0.5  # it has learned something to agree on


def test_one_sample_has_the_bits_that_it_has_in_a_batch(
    opened: BuiltProject, programs: Path, tmp_path: Path
) -> None:
    """As the reference evaluates whole batches, so the device counts right answers of each."""
    x, y = held_out(opened, 64)
    predicted = outputs(run(programs / "predict", x.tobytes(), cwd=tmp_path))
    image = tmp_path / "storage.img"
    shutil.copyfile(opened.folder / "run/storage.img", image)
    set_request(image, RunRequest(0))
    counted = re.findall(r"metric (\d+)", run(programs / "train_from_card", cwd=tmp_path))[:4]
    right = (predicted.argmax(1) == y).reshape(4, 16).sum(1)
    assert [int(count) for count in counted] == right.tolist()


def test_training_from_a_card_is_what_the_firmware_does(
    opened: BuiltProject, programs: Path, tmp_path: Path
) -> None:
    image = tmp_path / "storage.img"
    shutil.copyfile(opened.image, image)
    set_request(image, RunRequest(STEPS))
    said = run(programs / "train_from_card", cwd=tmp_path)
    assert said.count("step ") == STEPS
    assert "step " not in run(programs / "train_from_card", cwd=tmp_path)  # all is done
    slots = read_slots(image, opened.stages.slots, opened.tensors)
    for name, value in trained(opened).items():
        assert value.tobytes() == slots[name, "persistent"].tobytes(), name  # type: ignore[index]


def _records(x: np.ndarray, y: np.ndarray) -> bytes:
    return b"".join(a.tobytes() + b.tobytes() for a, b in zip(x, y, strict=True))


def test_learning_live_learns(opened: BuiltProject, tmp_path: Path) -> None:
    export_project(opened.folder, tmp_path / "net", ExportSettings("cmake", "net", "initial"))
    program = cmake(tmp_path / "net", tmp_path / "build") / "learn_live"
    x, y = read_samples(opened.image, opened.stages.program).training
    said = run(program, _records(x[:900], y[:900]), cwd=tmp_path)
    right = [int(count) for count in re.findall(r": (\d+) of the last 100", said)]
    assert len(right) == 9
    assert right[-1] > max(80, right[0] + 10), right


def test_words_are_learned_from_samples(tmp_path: Path) -> None:
    """Of three tones of any loudness in noise, from what a microphone gives."""
    random, samples = np.random.default_rng(4), 480 + 9 * 320

    def word(label: int) -> np.ndarray:
        seconds = np.arange(samples) / 16_000
        hertz = (400, 900, 2000)[label] * random.uniform(0.95, 1.05)
        tone = random.uniform(0.05, 0.5) * np.sin(2 * np.pi * hertz * seconds)
        clip = tone + 0.02 * random.standard_normal(samples)
        return np.round(clip * 2**15).astype("<i2")

    for label in range(3):
        (tmp_path / f"words/{label}").mkdir(parents=True)
        for number in range(12):
            with wave.open(str(tmp_path / f"words/{label}/{number}.wav"), "wb") as file:
                file.setparams((1, 2, 16_000, samples, "NONE", ""))
                file.writeframes(word(label).tobytes())
    torch.manual_seed(2)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 8 * 8, 3),
    )
    exported = torch.export.export(net.train(), (torch.randn(4, 1, 10, 10),))
    torch.export.save(exported, tmp_path / "net.pt2")
    options = "--model net.pt2 --data words --batch 8 --weights-in-flash --out project"
    succeed("build", "--board", "linux", *options.split(), cwd=tmp_path)
    library = ExportSettings("cmake", "ear", "initial")
    export_project(tmp_path / "project", tmp_path / "ear", library)
    program = cmake(tmp_path / "ear", tmp_path / "build") / "learn_keywords"
    labels = random.integers(0, 3, 320)
    heard = b"".join(word(label).tobytes() + label.astype("<i4").tobytes() for label in labels)
    said = run(program, heard, cwd=tmp_path)
    right = [int(count) for count in re.findall(r": (\d+) of the last 8", said)]
    assert len(right) == 40
    assert sum(right[:3]) < 20
    assert sum(right[-10:]) > 76, right


def test_the_last_layer_becomes_its_users(opened: BuiltProject, tmp_path: Path) -> None:
    """Trained on digits whose classes the user calls otherwise."""
    options = ("--board", "linux", "--batch", "64", "--freeze", "conv*,bn*", "--out", "mine")
    weights = tmp_path / "trained.npz"
    exported = ("--board", "linux", "--out", opened.folder, "--output", weights)
    succeed("export-weights", *exported, cwd=tmp_path)
    options += ("--learning-rate", "0.05", "--weights", weights)
    succeed("build", *options, cwd=tmp_path)
    export_project(tmp_path / "mine", tmp_path / "net", ExportSettings("cmake", "net", "initial"))
    program = cmake(tmp_path / "net", tmp_path / "build") / "personal_layer"
    x, y = read_samples(opened.image, opened.stages.program).training
    others = (y[:600] + 1) % 10
    said = run(program, _records(x[:600], others.astype("<i4")), "60", cwd=tmp_path)
    before, after = (int(n) / 536 for n in re.findall(r": (\d+) of 536 right", said))
    assert before < 0.2
    assert after > 0.6


def test_make_and_platformio_build_the_same_program(
    built: Path, opened: BuiltProject, programs: Path, tmp_path: Path
) -> None:
    x = held_out(opened, 20)[0].tobytes()
    expected = run(programs / "predict", x, cwd=tmp_path)
    made = tmp_path / "made"
    export_project(built, made, ExportSettings("cmake", "net", "trained"))
    subprocess.run(["make", "-j2", "examples"], cwd=made, check=True, capture_output=True)
    assert run(made / "build/predict", x, cwd=tmp_path) == expected

    library, project = tmp_path / "library", tmp_path / "project"
    export_project(built, library, ExportSettings("platformio-lib", "net", "trained"))
    shutil.copytree(firmware_templates_dir() / "platformio", project / "platforms")
    (project / "src").mkdir()
    shutil.copy(library / "examples/predict.c", project / "src/main.c")
    (project / "platformio.ini").write_text(PLATFORMIO.format(library=library))
    elf = build_environments(project, ["native"])["native"]
    assert run(elf, x, cwd=tmp_path) == expected


@needs_twin
def test_a_cortex_m_predicts_the_same_bits(
    built: Path, opened: BuiltProject, programs: Path, tmp_path: Path
) -> None:
    """The library by its toolchain file; the rest is an application's own, within 256 KB."""
    x = held_out(opened, 5)[0].tobytes()
    export_project(built, tmp_path / "net", ExportSettings("cmake", "net", "trained"))
    core = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    toolchain = tmp_path / "net/cortex-m.cmake"
    options = (f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DCORTEX_M_FLAGS={core}")
    build = cmake(tmp_path / "net", tmp_path / "build", *options, "-DNET_EXAMPLES=OFF")
    elf = tmp_path / "predict.elf"
    command = ["arm-none-eabi-gcc", *core.split(), "-O2", f"-I{tmp_path / 'net/src'}"]
    sources = [tmp_path / "net/examples/predict.c", HERE / "twin_start.c", build / "libnet.a"]
    link = ["--specs=rdimon.specs", "-Wl,--gc-sections", f"-T{HERE / 'twin.ld'}"]
    subprocess.run([*command, *map(str, sources), *link, "-o", str(elf)], check=True, timeout=120)
    qemu = "qemu-system-arm -M mps2-an386 -display none -monitor none -serial none"
    semihosting = ["-semihosting-config", "enable=on,target=native", "-kernel", str(elf)]
    said = run([*qemu.split(), *semihosting], x, cwd=tmp_path)
    assert said.splitlines() == run(programs / "predict", x, cwd=tmp_path).splitlines()


def test_weights_in_flash_begin_a_training_without_a_storage(tmp_path: Path) -> None:
    settings = ("--board", "linux", "--model", "mlp", "--weights-in-flash", "--generate-only")
    succeed("build", *settings, "--ram", "200000", "--out", "project", cwd=tmp_path)
    source = tmp_path / "project/lib/poetfw/generated/initial_weights.c"
    image = tmp_path / "project/storage.img"
    weights = re.findall(r"0x([0-9a-f]{8})u", source.read_text())
    assert len(weights) == 64 * 64 + 64 * 32 + 32 * 10  # biases are 0
    first = bytes.fromhex(weights[0])[::-1] + bytes.fromhex(weights[1])[::-1]
    assert first in image.read_bytes()
