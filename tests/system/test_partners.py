# SPDX-License-Identifier: Apache-2.0
"""A training step on several devices with a program each, which a host brings together."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from poetfw.common.errors import DeviceError, NoisyLineError
from poetfw.firmware import RunRequest, SlotPurpose
from poetfw.report import BuildReport
from poetfw.runs.desks import by_desk, on_a_twin
from poetfw.runs.execution import BuiltProject, open_build
from poetfw.runs.observer import RunObserver
from poetfw.runs.running import make_request, run_build
from poetfw.settings import RunSettings
from poetfw.tools.link import DeviceLink, PortLine
from system.commands import needs_twin, poetfw, succeed
from unit.workers.device_plans import FILES, PAIR, any_plan, case_of

ON_LINUX = ",".join(map(str, PAIR))
REPOSITORY = Path(__file__).parents[2]


def write_plan(path: Path, model: str, seed: int, names: dict[str, str] | None = None) -> Path:
    """An answer of which there is the plan only."""
    named = names or {}
    steps = [
        {"step": kind.value, "node": node, "device": named.get(device, device)}
        | ({} if target is None else {"target": named.get(target, target)})
        for kind, node, device, target in any_plan(case_of(model).problem, seed)
    ]
    path.write_text(json.dumps({"plan": steps}))
    return path


def values_of(folder: Path) -> dict[str, bytes]:
    """What the partners in a folder trained together."""
    build = open_build(folder)
    images = {name: folder / name / "run/storage.img" for name in build.projects}
    return {
        name: value.tobytes()
        for (name, purpose), value in build.values(images).items()
        if purpose is SlotPurpose.PERSISTENT
    }


def check(build: Any, run: Any) -> None:
    """Weights have the bits of one device's; each device takes what was planned, and no more."""
    assert run["verify"]["ok"]
    assert run["verify"]["max_rel_error_weights"] < 1e-4
    for name, one in run["memories"].items():
        (part,) = build["memories"][name]["parts"]
        arena = part["arena"]
        assert one["arenas"] == {name: arena["size_bytes"]}
        assert one["step_traffic"] == one["planned_traffic"]
        assert one["high_water_bytes"] == build["memories"][name]["peak_bytes"]
        assert arena["size_bytes"] <= arena["limit_bytes"]
    assert sum(one["sent_bytes"] for one in run["memories"].values()) == run["message_bytes"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two programs for this computer, of a plan that computes on both and again."""
    folder = tmp_path_factory.mktemp("built")
    answer = write_plan(folder / "answer.json", "mlp", 1)
    options = ("--devices", ON_LINUX, "--apart", "--model", "mlp", "--batch", "4")
    succeed("build", *options, "--replay", answer, "--out", folder / "two", cwd=folder)
    return folder / "two"


@pytest.fixture
def two(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "two"))


def trains_to_the_bits_of_one_device(two: Path, build: Any, model: str) -> None:
    """Messages go both ways, of tensors and of parameters, and something is computed again."""
    run = succeed("run", "--out", two, "--steps", "3", "--verify", cwd=two)
    check(build, run)
    assert all(one["computed"] and one["sent_bytes"] for one in run["memories"].values())
    alone = two.parent / "alone"
    options = ("--board", "linux", "--ram", "64M", "--model", model, "--batch", "4")
    succeed("build", *options, "--out", alone, cwd=two.parent)
    report = succeed("run", "--out", alone, "--steps", "3", cwd=two.parent)
    assert (report["loss"], report["accuracy"]) == (run["loss"], run["accuracy"])
    from system.test_two_workers import trained

    weights = trained(alone)
    assert weights == values_of(two)


def test_a_plan_trains_to_the_bits_of_one_device(two: Path) -> None:
    trains_to_the_bits_of_one_device(two, json.loads((two / "build.json").read_text()), "mlp")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_any_plan_trains_to_the_bits_of_one_device(tmp_path: Path, seed: int) -> None:
    answer = write_plan(tmp_path / "answer.json", "digits-cnn", seed)
    options = ("--devices", ON_LINUX, "--apart", "--model", "digits-cnn", "--batch", "4")
    build = succeed("build", *options, "--replay", answer, "--out", tmp_path / "two", cwd=tmp_path)
    trains_to_the_bits_of_one_device(tmp_path / "two", build, "digits-cnn")


def test_reports_have_the_shape_of_one_devices(built: Path, tmp_path: Path) -> None:
    """A program's keys are under its memory's name; beside that those of the evaluator."""
    one = succeed("build", "--board", "linux", "--generate-only", "--model", "mlp", cwd=tmp_path)
    assert one["memories"][""].items() <= one.items()
    whole = json.loads((built / "build.json").read_text())
    assert json.loads(json.dumps(BuildReport.read(built / "build.json").to_json())) == whole
    assert set(one) == set(whole)
    evaluates = json.loads((built / "linux-big/plan.json").read_text())["evaluates"]
    for name, program in whole["memories"].items():
        own = json.loads((built / name / "build.json").read_text())
        assert own == whole | program
        assert (own == whole) == (name == evaluates)
    assert whole["messages"]
    assert not one["messages"]


def test_a_run_of_several_is_written_as_that_of_one(two: Path) -> None:
    run = succeed("run", "--out", two, "--steps", "2", "--metrics", "run.csv", cwd=two)
    assert run["steps"] == 2
    assert [row.split(",")[0] for row in (two / "run.csv").read_text().splitlines()] == [
        *("step", "1", "2"),
    ]
    evaluates = json.loads((two / "linux-big/plan.json").read_text())["evaluates"]
    assert run["memories"][evaluates].items() <= run.items()
    assert all(one["blocks_written"] for one in run["memories"].values())
    shown = poetfw("run", "--out", two, "--steps", "2", cwd=two).stdout
    assert re.search(r"messages per step +│ \d+, ", shown)
    assert len(re.findall("… of linux-(?:big|small) +│ [0-9,]+ B of [0-9,]+ B planned", shown)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [(), ("--parallel",)], ids=["in turn", "at once"])
def test_a_search_within_limits_is_run(tmp_path: Path, parallel: tuple[str, ...]) -> None:
    options = ("--devices", ON_LINUX, "--apart", "--model", "digits-cnn", "--batch", "8", *parallel)
    limits = ("--ram-fraction", "0.35,0.8", "--work-limit", "8")
    build = succeed("build", *options, *limits, "--out", tmp_path / "two", cwd=tmp_path)
    run = succeed("run", "--out", tmp_path / "two", "--steps", "2", "--verify", cwd=tmp_path)
    check(build, run)
    assert all(one["computed"] for one in run["memories"].values())


@pytest.mark.slow
def test_a_device_that_the_plan_leaves_idle(tmp_path: Path) -> None:
    """A search puts all of a small network on the faster device."""
    options = ("--devices", ON_LINUX, "--apart", "--model", "mlp", "--batch", "4")
    more = ("--optimizer", "adam", "--work-limit", "2", "--out", tmp_path / "two")
    succeed("build", *options, *more, cwd=tmp_path)
    run = succeed("run", "--out", tmp_path / "two", "--steps", "2", "--verify", cwd=tmp_path)
    assert run["verify"]["ok"]
    assert {one["computed"] > 0 for one in run["memories"].values()} == {False, True}
    assert run["messages"] == 0


@needs_twin
@pytest.mark.slow
def test_a_computer_and_an_nrf52840(tmp_path: Path) -> None:
    """On QEMU, and the program that is flashed on the model of the chip."""
    names = {"linux-big": "gateway", "linux-small": "sensor"}
    answer = write_plan(tmp_path / "answer.json", "digits-cnn", 1, names)
    able = re.sub(r"(?m)^lacks = .*\n", "", (FILES / "gateway.toml").read_text())
    (tmp_path / "gateway.toml").write_text(able)
    devices = f"{tmp_path / 'gateway.toml'},{FILES / 'sensor.toml'}"
    options = ("--devices", devices, "--apart", "--model", "digits-cnn", "--batch", "4")
    build = succeed("build", *options, "--replay", answer, "--out", tmp_path / "two", cwd=tmp_path)
    for chosen, twin in (((), "qemu"), (("--emulator", "unicorn"), "unicorn")):
        run = succeed(
            *("run", "--out", tmp_path / "two", "--steps", "2", "--verify", *chosen), cwd=tmp_path
        )
        check(build, run)
        sensor = run["memories"]["sensor"]
        assert (sensor["board"], sensor["emulated"]) == ("nrf52840", True)
        assert sensor["emulator"] == twin
        assert sensor["computed"] > 10


@needs_twin
@pytest.mark.slow
def test_the_pages_commands(tmp_path: Path) -> None:
    """What docs/devices.md shows of devices on boards of their own."""
    page = (REPOSITORY / "docs/devices.md").read_text().split("## On boards of their own")[1]
    page = page.split("\n## ")[0]
    typed = [shlex.split(line) for line in page.splitlines() if line.startswith("    poetfw ")]
    assert [words[1] for words in typed] == ["build", "run"]
    for _, *words in typed:
        words = [word.replace("examples/", f"{REPOSITORY}/examples/") for word in words]
        report = succeed(*words, cwd=tmp_path)
    assert report["verify"]["ok"]
    assert all(one["computed"] for one in report["memories"].values())
    assert report["message_bytes"] == report["memories"]["sensor"]["sent_bytes"] > 0  # the samples
    exported = succeed("export-weights", "--out", "pair", "-o", "all.npz", cwd=tmp_path)
    assert exported["weights"]
    refused = poetfw("export-weights", "--out", "pair/sensor", "-o", "s.npz", cwd=tmp_path)
    assert refused.code == 1
    assert "--out pair" in refused.stderr
    succeed("export-weights", "--out", "pair/gateway", "-o", "gateway.npz", cwd=tmp_path)
    with np.load(tmp_path / "all.npz") as one, np.load(tmp_path / "gateway.npz") as other:
        assert {name: x.tobytes() for name, x in one.items()} == {
            name: x.tobytes() for name, x in other.items()
        }


@pytest.mark.slow
def test_a_program_refuses_what_is_out_of_its_order(two: Path) -> None:
    """It goes on behind a sealed message only, and no byte goes elsewhere than a message's."""
    build = open_build(two)
    project = build.projects["linux-big"]
    request = make_request(project, RunSettings(steps=2))
    sent = build.messages_of_a_step
    own = [message for message in sent if "linux-big" in (message.source, message.target)]
    arrives = [message.target == "linux-big" for message in own]
    end = len(own) + 1
    with on_a_twin(project, request) as line:
        link = DeviceLink(line)

        def ask(word: str, *numbers: int, data: bytes | None = None) -> tuple[str, ...]:
            return link.ask(word, *numbers, data=data).values

        refused = ("-4",)
        assert ask("part", 1, 1)[0] == "-4"  # nothing has begun
        assert ask("take", 1, 0, 4) == refused
        assert ask("begin", 2, 0) == ("0", "0")
        for step, stop in ((0, end), (1, 0), (1, 2), (1, end), (2, 1), (3, 1)):
            assert ask("part", step, stop) == refused, (step, stop)
        assert ask("save") == ("0",)
        for number, message in enumerate(own, 1):
            size = build.size_bytes(message)
            stopped = ask("part", 1, number)
            assert stopped[0] == "0"
            assert ask("part", 1, number) == stopped  # again: nothing was computed since
            for wrong in (number - 1, number + 1, 0, len(own) + 2, 2**32 - 1):
                assert ask("seal", wrong, 0) == refused
                assert ask("take", wrong, 0, 1) == refused
                assert ask("give", wrong, 0, data=b"x") == refused
            goes, other = ("give", "take") if arrives[number - 1] else ("take", "give")
            parts = {"take": ((0, size + 1), (size, 1), (2**32 - 1, 2)), "give": ((size,),)}
            for numbers in parts[goes]:
                assert ask(goes, number, *numbers, data=b"x" if goes == "give" else None) == refused
            if other == "take":
                assert ask("take", number, 0, 1) == refused
                content = bytes(size)
                for at in range(0, size, 264):
                    assert ask("give", number, at, data=content[at : at + 264]) == ("0",)
            else:
                assert ask("give", number, 0, data=b"x") == refused
                content = b""
                while len(content) < size:
                    wanted = min(512, size - len(content))
                    content += link.ask("take", number, len(content), wanted).data or b""
            assert ask("save") == refused
            assert ask("eval", 1) == refused
            assert ask("part", 1, number + 1) == refused  # it is not sealed
            assert ask("seal", number, crc32(content) ^ 1) == ("-6",)
            assert ask("part", 1, number + 1) == refused
            assert ask("seal", number, crc32(content)) == ("0",)
            assert ask("part", 1, number + 2) == refused
        ended = ask("part", 1, end)
        assert ended[0] == "0"
        assert ask("part", 1, end) == ended
        assert ask("part", 1, 1) == refused
        assert ask("take", 1, 0, 1) == refused
        assert ask("save") == ("0",)
        with pytest.raises(DeviceError, match="does not know the command 'step'"):
            ask("step", 2)


# What goes wrong ------------------------------------------------------------------------------


class Noisy:
    """A line that flips a bit of so many of its bytes, both ways."""

    def __init__(self, line: PortLine, rate: float, seed: int) -> None:
        self._line, self._rate, self._random = line, rate, Random(seed)
        self.faults = 0

    def _through(self, data: bytes) -> bytes:
        result = bytearray(data)
        for n in range(len(result)):
            if self._random.random() < self._rate:
                result[n] ^= 1 << self._random.randrange(7)
                self.faults += 1
        return bytes(result)

    def write(self, data: bytes) -> None:
        self._line.write(self._through(data))

    def read(self, timeout_s: float) -> bytes:
        return self._through(self._line.read(timeout_s))

    def now_s(self) -> float:
        return self._line.now_s()


def run_over(folder: Path, rate: float) -> tuple[Any, int]:
    """A run over noisy lines, and how many bytes were changed."""
    lines = []

    @contextlib.contextmanager
    def connect(project: BuiltProject, port: str | None, request: RunRequest) -> Iterator[PortLine]:
        with on_a_twin(project, request) as line:
            lines.append(Noisy(line, rate, seed=len(lines)))
            yield lines[-1]

    settings = RunSettings(steps=2, timeout_s=120.0)
    launch = partial(by_desk, {}, connect=connect)
    report = run_build(open_build(folder), settings, launch, RunObserver())
    return report, sum(line.faults for line in lines)


@pytest.mark.slow
def test_damaged_bytes_are_sent_again(two: Path) -> None:
    report, faults = run_over(two, 0.0)
    clean = values_of(two)
    assert faults == 0
    noisy, faults = run_over(two, 2e-4)
    assert faults > 5
    assert sum(one.repeated_commands for one in noisy.memories.values()) > 0
    assert noisy.loss == report.loss
    assert values_of(two) == clean


@pytest.mark.slow
def test_a_line_that_is_too_noisy_is_given_up(two: Path) -> None:
    with pytest.raises(DeviceError, match="device 'linux-") as found:
        run_over(two, 0.05)
    assert isinstance(found.value.__cause__, NoisyLineError | DeviceError)


def program_of(folder: Path, name: str) -> Path:
    return folder / name / ".pio/build/linux/firmware.elf"


def disturb(folder: Path, name: str, name_of_signal: str) -> None:
    """Have a device's program get a signal, some time after it began to train."""
    program = program_of(folder, name)
    itself = Path(shutil.move(program, folder / f"{name}.elf"))
    program.write_text(f'#!/bin/sh\nexec timeout -s {name_of_signal} 2 "{itself}" "$@"\n')
    program.chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linux-big", "linux-small"])
def test_a_partner_that_dies_ends_the_run(two: Path, name: str) -> None:
    disturb(two, name, "KILL")
    begun = time.monotonic()
    ended = poetfw("run", "--out", two, "--steps", "1000000", cwd=two)
    assert ended.code == 4
    assert f"device {name!r}: the firmware has ended" in ended.stderr
    assert "goes on where it stopped" not in ended.stderr
    assert time.monotonic() - begun < 60


@pytest.mark.slow
def test_a_partner_that_hangs_ends_the_run(two: Path) -> None:
    disturb(two, "linux-small", "STOP")
    ended = poetfw("run", "--out", two, "--steps", "1000000", "--timeout", "10", cwd=two)
    assert ended.code == 4
    assert "device 'linux-small': the board did not end within 10 s" in ended.stderr


@pytest.mark.slow
def test_ctrl_c_ends_a_run_whose_partner_hangs(two: Path, interruptible: None) -> None:
    """It waits for no answer that cannot come."""
    disturb(two, "linux-small", "STOP")
    words = [
        sys.executable,
        "-m",
        "poetfw.cli.main",
        "run",
        "--out",
        str(two),
        "--steps",
        "1000000",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as run:
        assert run.stderr is not None
        while not run.stderr.readline().startswith("training"):  # on a busy computer, it loads long
            assert run.poll() is None
        time.sleep(5)
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) == 130


@pytest.mark.slow
def test_another_program_is_refused(two: Path) -> None:
    """That of a partner: it is of the same build, and of the same board, but not this one."""
    shutil.copy(program_of(two, "linux-big"), program_of(two, "linux-small"))
    refused = poetfw("run", "--out", two, cwd=two)
    assert refused.code == 4
    assert re.search(r"'linux-small': the firmware .* is of another build \(plan", refused.stderr)


@pytest.mark.slow
def test_a_project_of_another_build_is_refused(two: Path, tmp_path: Path) -> None:
    answer = write_plan(tmp_path / "answer.json", "mlp", 2)
    options = ("--devices", ON_LINUX, "--apart", "--model", "mlp", "--batch", "4")
    other = tmp_path / "other"
    succeed(
        *("build", *options, "--replay", answer, "--generate-only", "--out", other), cwd=tmp_path
    )
    for file in ("build.json", "plan.json", "memory.json", "slots.json"):
        document = json.loads((other / "linux-small" / file).read_text())
        if file == "build.json":
            kept = json.loads((two / "linux-small" / file).read_text())
            document |= {key: kept[key] for key in ("elf", "twin_elf")}
        (two / "linux-small" / file).write_text(json.dumps(document))
    refused = poetfw("run", "--out", two, cwd=two)
    assert refused.code == 1
    assert "linux-small is of another build than its partners" in refused.stderr
    (two / "build.json").write_text("{}")
    refused = poetfw("run", "--out", two, cwd=two)
    assert refused.code == 1
    assert "build.json is not what `poetfw build` wrote" in refused.stderr


def lose(path: str) -> Any:
    return lambda two: (two / path).unlink()


def swap_images(two: Path) -> None:
    shutil.copy(two / "linux-big/storage.img", two / "linux-small/storage.img")


def cut_image(two: Path) -> None:
    image = two / "linux-small/storage.img"
    image.write_bytes(image.read_bytes()[:-512])


def leave_uncompiled(two: Path) -> None:
    """As Ctrl-C does where one program is compiled already."""
    report = two / "linux-small/build.json"
    report.write_text(json.dumps(json.loads(report.read_text()) | {"elf": None}))


def change_messages(two: Path) -> None:
    """As if all stage files were of a build whose plan sends something else."""
    document = json.loads((two / "build.json").read_text())
    document["messages"][0]["tensor"] = "other"
    (two / "build.json").write_text(json.dumps(document))


BUILD_AGAIN = "run `poetfw build` again"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "code", "said", "hint"),
    [
        (lose("linux-big/storage.img"), 4, "linux-big/storage.img cannot be used", BUILD_AGAIN),
        (lose("linux-small/storage.img"), 4, "linux-small/storage.img cannot be used", BUILD_AGAIN),
        (swap_images, 4, "small/storage.img is the storage image of another build", BUILD_AGAIN),
        (cut_image, 4, "linux-small/storage.img is not a storage image", BUILD_AGAIN),
        (
            lose("linux-small/.pio/build/linux/firmware.elf"),
            1,
            "linux-small/.pio/build/linux/firmware.elf, the compiled firmware, is gone",
            BUILD_AGAIN,
        ),
        (leave_uncompiled, 1, "linux-small was generated but not compiled", "to its end"),
        (change_messages, 1, "linux-big is of another build than its partners", BUILD_AGAIN),
        (lose("linux-small/plan.json"), 1, "linux-small: a stage file is missing", BUILD_AGAIN),
        (lose("linux-big/build.json"), 1, "there is no build in", "poetfw build"),
        (lose("build.json"), 1, "there is no build in", "poetfw build"),
    ],
)
def test_what_is_left_of_a_build_that_is_not_whole(
    two: Path, change: Any, code: int, said: str, hint: str
) -> None:
    change(two)
    refused = poetfw("run", "--out", two, "--steps", "1", cwd=two)
    assert refused.code == code, refused.stderr
    assert said in refused.stderr
    assert hint in refused.stderr
    assert not (two / "linux-small/run").exists()


@pytest.mark.slow
def test_one_of_them_does_not_train_alone(two: Path) -> None:
    refused = poetfw("run", "--out", two / "linux-big", cwd=two)
    assert refused.code == 1
    assert "one of several programs, which train together only" in refused.stderr
    image = two / "linux-big/storage.img"
    ended = subprocess.run(
        [program_of(two, "linux-big"), image], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, "@error status=-97 at=train" in ended.stdout) == (1, True)
    refused = poetfw("export", "--project", two / "linux-big", cwd=two)
    assert refused.code != 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--resume",), 2, "all start from the initial weights in each run"),
        (("--trace",), 2, "--trace is for a build of one program"),
        (("--threads", "2"), 2, "--threads is for a build of one program"),
        (("--checkpoint-every", "2"), 2, "--checkpoint-every is for a build of one program"),
        (("--emulator", "none"), 1, "has no emulator called 'none'"),
    ],
)
@pytest.mark.slow
def test_options_that_are_for_one_program(
    built: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    refused = poetfw("run", "--out", built, *arguments, cwd=built)
    assert refused.code == code, refused.stderr
    assert said in refused.stderr
