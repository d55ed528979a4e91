# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ tell the reader to type is typed here, and what they name exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from docs.pages import (
    LINKING,
    PAGES,
    REPOSITORY,
    Command,
    block_behind,
    commands,
    inline_code,
    python_blocks,
    read,
    split,
)
from poetfw.cli.main import COMMANDS
from poetfw.report import BuildReport
from poetfw.schedule import SCHEDULERS, ScheduleSummary
from system.commands import needs_twin, succeed

NOT_RUN = {
    "make demo": "it sets up the machine, then types what the first block of README.md shows",
    "make test": "it is what runs this test",
    "make test-all": "it is what runs this test as well",
    "make test-faults": "tests/unit/runtime/test_storage_faults.py has its table",
    "python benchmarks/flash.py ELF": "tests/system/test_nrf52840.py counts flash",
    "python benchmarks/overlap.py": "tests/system/test_overlap_on_the_chip.py runs it",
    "python benchmarks/sparse_updates.py": "it takes minutes; test_update_plan.py runs its parts",
    "poetfw build --board linux --model lenet5 --batch 8 --train plan.json": (
        "test_update_plan.py derives what it builds, tests/system/test_linux.py builds such"
    ),
    "pip install 'poetfw[meters]'": "it needs a package registry",
    "python benchmarks/op_costs.py": "it takes minutes; tests/unit/costs has what it recorded",
    "python benchmarks/figures.py": "tests/docs/test_figures.py runs its parts",
    "python benchmarks/step.py": "it takes a minute, and times PyTorch",
    "make test-power": "it sets up the machine, then runs tests/power",
    "make mutants": "it takes a quarter of an hour; tests/unit/test_mutants.py tries its program",
    "make bench-kernels": "it sets up the machine, then runs benchmarks/kernels.py",
    "python benchmarks/kernels.py --record": "it writes to the checkout",
    "python benchmarks/kernels_since.py ec0e13a --only depthwise --count 20": (
        "it needs the repository's history; tests/unit/kernels/test_kernel_bench.py runs its parts"
    ),
    "make bench-devices": "it sets up the machine, then runs benchmarks/devices.py",
    "make bench-memory": "it sets up the machine, then runs benchmarks/memory.py",
    "make bench-models": "it takes 8 minutes; test_torch_networks.py runs its parts",
    "make bench-schedule": "it sets up the machine, then runs benchmarks/schedule.py",
    "python benchmarks/memory.py --json FILE": "it is --quick, at length",
    "pip install .": "it changes what the tests run; tests/system/test_linux.py installs a wheel",
    "pip install 'poetfw[joulescope]'": "it needs a package registry",
    "poetfw profile --board nrf52840 --model digits-cnn --emulator qemu --report": (
        "it writes to the user's database; test_profile.py names another"
    ),
    "poetfw profile --board nrf52840 --model digits-cnn --port /dev/ttyACM0 --meter "
    "ppk2:/dev/ttyACM1@3000": "it needs a board and a meter; test_metered_session.py has both",
    "pip install 'poetfw[sweep]'": "it needs a package registry",
    "pip install 'poetfw[tensorboard]'": "it needs a package registry",
    "pip install 'poetfw[unicorn]'": "it needs a package registry",
    "pip install 'poetfw[images]'": "it needs a package registry",
    "sudo dd if=build/nrf52840/storage.img of=/dev/sdX bs=512 conv=fsync": "it needs a card",
    **dict.fromkeys(
        (
            "poetfw profile --board nrf52840 --model digits-cnn --emulator qemu",
            "poetfw profile --board nrf52840 --model digits-cnn --emulator qemu --json",
        ),
        "it writes to the user's database; tests/system/test_profile.py names another",
    ),
    "poetfw run --board nrf52840 --steps 1 --trace": "tests/system/test_profile.py does it",
    "poetfw profile --board nrf52840 --model digits-cnn --port /dev/ttyACM0": (
        "it needs a board; tests/system/test_profile.py has an emulator at another port"
    ),
    **dict.fromkeys(
        (
            "poetfw build --board nrf52840 --optimizer adam --learning-rate 0.002",
            "poetfw build --board nrf52840 --train last:1",
            "poetfw build --board nrf52840 --train bias,norm",
            "poetfw build --board nrf52840 --optimizer adamw --no-decay bias,norm",
        ),
        "tests/system/test_linux.py builds and runs such; the page's last block is typed",
    ),
    "poetfw build --board mkr1000": "tests/system/test_mkr1000.py does it",
    **dict.fromkeys(
        (
            "poetfw build --devices examples/devices/linux-big.toml,"
            "examples/devices/linux-small.toml --model mlp --batch 8 --ram-fraction 0.9,1.0 "
            "--parallel --work-limit 4 --out two",
            "poetfw run --out two --steps 5 --verify",
        ),
        "tests/system/test_two_workers.py types them",
    ),
    **dict.fromkeys(
        (
            "poetfw build --devices examples/devices/gateway.toml,examples/devices/sensor.toml "
            "--apart --model digits-cnn --batch 4 --ram-fraction 0.7,0.5 --work-limit 2 --out pair",
            "poetfw run --out pair --steps 5 --verify",
        ),
        "tests/system/test_partners.py types them",
    ),
    **dict.fromkeys(
        (
            "poetfw flash --out pair/sensor --port /dev/ttyACM0",
            "poetfw flash --storage --out pair/sensor --port /dev/ttyACM0",
            "poetfw run --out pair --steps 5 --verify --port sensor=/dev/ttyACM0",
        ),
        "it needs a board; tests/system/test_partners_at_ports.py has one at another port",
    ),
    "python -m poetfw.devices.emulators.unicorn nrf52840 firmware.elf 5555": (
        "it waits for somebody; tests/emulator/test_serial_line.py comes"
    ),
    "python -m pytest -m slow tests/power/test_killed_programs.py": "it is one of the slow tests",
    **dict.fromkeys(
        (
            "poetfw pull --ring --image build/linux/run/storage.img -o samples.npz",
            "poetfw push --image build/linux/run/storage.img samples.npz",
        ),
        "tests/system/test_ring.py types them",
    ),
    "poetfw flash": "it needs a board; typed below without one",
    **dict.fromkeys(
        (
            "poetfw flash --storage --port /dev/ttyACM0",
            "poetfw run --on-board --port /dev/ttyACM0 --verify",
            "poetfw pull --port /dev/ttyACM0 -o trained.img",
            "poetfw pull --ring --port /dev/ttyACM0 -o own.npz",
            "poetfw push --port /dev/ttyACM0 own.npz",
            "poetfw monitor --port /dev/ttyACM0",
        ),
        "it needs a board; tests/system/test_on_board.py has one at another port",
    ),
    **dict.fromkeys(
        (
            "poetfw flash --storage --board mkr1000 --port socket://127.0.0.1:5555",
            "poetfw run --on-board --board mkr1000 --port socket://127.0.0.1:5555 --steps 2 "
            "--verify --json",
        ),
        "it needs an emulator; tests/system/test_on_board.py starts one",
    ),
    **dict.fromkeys(
        (
            "poetfw flash --board rpi4 --host user@host",
            "poetfw run --on-board --board rpi4 --host user@host --verify",
        ),
        "it needs a computer; tests/system/test_on_board.py reaches this one",
    ),
    **dict.fromkeys(
        (
            "poetfw build --board linux --model mlp --ram 200000 --generate-only",
            "poetfw export --as cmake -o keyword --name keyword build/linux",
        ),
        "tests/docs/test_library_page.py types it",
    ),
    "pio run -e nrf52840 -t upload": "it needs a board and PlatformIO's registry",
    "pio run -e nrf52840-system -t upload": "it needs a board; typed below without one",
    "pio run -e mkr1000-system -t upload": "it needs a board; tests/system uploads without one",
    "pio run -e mkr1000 -t upload": "it needs a board and PlatformIO's registry",
    "pio run -e stm32f405-system -t upload": "it needs a board; tests/system uploads without one",
    "pio run -e stm32f405 -t upload": "it needs a board and PlatformIO's registry",
    "pio run -e nrf52840-system -t erase": "it needs a board; typed below without one",
    "poetfw build --board my-f405": "tests/docs/test_adding_a_board.py types it",
    "poetfw build --board path/to/my-f405.toml": "it is the same board; tests/invalid gives paths",
    "poetfw run --board my-f405 --steps 20 --verify": "tests/docs/test_adding_a_board.py types it",
}
"""Commands that no test can type, and why."""

SHORTENED = {
    "poetfw compare --board rpi4 --model resnet18": "--fractions 0.5 --schedulers dtr,chen-sqrt",
    (
        "poetfw compare --board nrf52840 --batch 32 --schedulers dtr,checkmate,poet "
        "--plot energy.svg"
    ): "--fractions 0.6 --work-limit 3",
    "poetfw compare --board nrf52840 --batch 32 --plot compare.png": (
        "--fractions 0.6 --schedulers dtr,poet --work-limit 3"
    ),
    (
        "poetfw sweep --boards nrf52840,rpi4 --models resnet18,vgg16 --deadlines none,1.2,1.5 "
        "--out sweep.jsonl --csv sweep.csv --plots plots"
    ): "--fractions 0.5 --schedulers dtr,capuchin,chen-sqrt --jobs 1",
    "poetfw schedule --board rpi4 --model resnet18 --ram-fraction 0.7": "--scheduler dtr",
    (
        "poetfw schedule --devices examples/devices/igpu-gpu.toml,examples/devices/igpu-cpu.toml "
        "--model vgg16 --ram-fraction 0.62,0.62"
    ): "--work-limit 2",
    (
        "poetfw schedule --devices examples/devices/igpu-gpu.toml,examples/devices/igpu-cpu.toml "
        "--model vgg16 --ram-fraction 0.62,0.62 --parallel --plot devices.png"
    ): "--work-limit 1",
    (
        "poetfw compare --devices examples/devices/igpu-gpu.toml,examples/devices/igpu-cpu.toml "
        "--model mlp"
    ): "--work-limit 0.5",
    "python benchmarks/schedule.py --quick": "--help",
    "python benchmarks/placement.py --count 20 --seed 1000": "--count 1 --buffers 150",
}
"""Commands that take minutes to hours, and what is put behind them here."""


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs that the pages call, as the tests' own environment has them."""
    folder = tmp_path_factory.mktemp("bin")
    for name, arguments in {"poetfw": "-m poetfw.cli.main", "python": ""}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the net.pt2 and samples.npz that docs/your-model.md makes."""
    pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
    folder = tmp_path_factory.mktemp("digits")
    for text in python_blocks("docs/your-model.md"):
        subprocess.run([sys.executable, "-W", "ignore", "-c", text], cwd=folder, check=True)
    assert sorted(path.name for path in folder.iterdir()) == ["net.pt2", "samples.npz"]
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder like a checkout, to type commands in."""
    for name in ("examples", "benchmarks", "boards"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=ignored)
    return tmp_path


def provide(page: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Make the files that a page says there are."""
    if page == "README.md":
        shutil.copytree(request.getfixturevalue("digits"), folder, dirs_exist_ok=True)
    if page == "docs/scheduling.md":
        (folder / "problem.json").write_text(block_behind(page, "`problem.json`"))


def typed(page: str) -> list[Command]:
    """The commands that a reader of a page may type: those in blocks, and whole ones in prose.

    A command that several pages have is typed on the first of them.
    """
    before = [c.text for earlier in PAGES[: PAGES.index(page)] for c in all_commands(earlier)]
    return [c for c in all_commands(page) if c.text not in before]


def all_commands(page: str) -> list[Command]:
    inline = [
        Command(code)
        for code in dict.fromkeys(inline_code(page))
        if code in ("poetfw doctor", "poetfw models", "poetfw boards")
        or code.startswith(("pip ", "pio run -", "make ", "python "))
        or (code.startswith("poetfw ") and " --board " in code)
    ]
    return [c for c in (*commands(page), *inline) if not c.is_synopsis]


def type_in(command: str, folder: Path, bin_folder: Path) -> str:
    """Type a command into a shell; returns what it prints on stdout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("POETFW_")}
    paths = [str(REPOSITORY / "host"), environment.get("PYTHONPATH", "")]
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env={
            **environment,
            "PATH": f"{bin_folder}:{environment['PATH']}",
            "PYTHONPATH": ":".join(filter(None, paths)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def shown_rows(stdout: str) -> dict[str, str]:
    """Names and values of a table that poetfw prints."""
    rows = (line.split("│") for line in stdout.splitlines() if line.startswith("│"))
    return {row[1].strip(): row[2].strip() for row in rows}


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+ s\b", "… s", text)


@needs_twin
@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)])
def test_every_command_on_a_page_works(
    page: str, scratch: Path, bin_folder: Path, request: pytest.FixtureRequest
) -> None:
    provide(page, scratch, request)
    for command in typed(page):
        if command.text in NOT_RUN:
            continue
        line = f"{command.text} {SHORTENED.get(command.text, '')}"
        rows = shown_rows(type_in(line, scratch, bin_folder))
        for shown in command.shown:
            name, value, *_ = re.split(r" {2,}", shown)
            assert without_times(rows[name]) == without_times(value), (command.text, name)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "command",
    [command for command in SHORTENED if not re.search("sweep|resnet18$", command)],
)
def test_long_commands_work_as_they_stand(command: str, scratch: Path, bin_folder: Path) -> None:
    """Those that take minutes; those that take hours are only ever typed shortened."""
    type_in(command, scratch, bin_folder)


def test_exceptions_are_not_stale() -> None:
    on_pages = {command.text for page in PAGES for command in typed(page)}
    assert NOT_RUN.keys() | SHORTENED.keys() <= on_pages
    assert not NOT_RUN.keys() & SHORTENED.keys()


def test_the_exported_example_is_what_its_command_writes(scratch: Path, bin_folder: Path) -> None:
    (export,) = (c.text for c in commands("docs/scheduling.md") if "--export" in c.text)
    example = scratch / export.split()[-1]
    before = example.read_bytes()
    example.unlink()
    type_in(export, scratch, bin_folder)
    assert example.read_bytes() == before


def test_the_settings_file_on_the_page_is_read(tmp_path: Path) -> None:
    (tmp_path / "poetfw.toml").write_text(block_behind("docs/builds.md", "`poetfw.toml`"))
    report = succeed("build", "--generate-only", "--ram", "1000000", cwd=tmp_path)
    assert (report["board"], report["batch"]) == ("nrf52840", 16)
    assert report["frozen"] == ["conv1.weight", "bn1.affine"]


def test_the_buffers_on_the_page_are_placed(tmp_path: Path) -> None:
    (table,) = (block.text for block in split("docs/placement.md")[0] if "id,lower" in block.text)
    (tmp_path / "buffers.csv").write_text(table)
    placed = succeed("place", "buffers.csv", cwd=tmp_path)
    assert {b["id"] for b in placed["buffers"]} == {
        line.split(",")[0] for line in table.splitlines()[1:]
    }


def test_the_keys_of_a_report_are_those_on_the_page() -> None:
    text = re.sub(r"\s+", " ", split("docs/builds.md")[1])
    (report, schedule) = re.findall(r"on stdout: `([^`]+)` and `schedule: {([^}]+)}`", text)[0]
    assert {*report.split(", "), "schedule"} == {field.name for field in fields(BuildReport)}
    assert {*schedule.split(", ")} == {field.name for field in fields(ScheduleSummary)}


@needs_twin
def test_the_whole_chip_is_erased_only_if_asked_to_as_the_page_says(tmp_path: Path) -> None:
    """With a program in nrfjprog's place that writes down what it is to do."""
    succeed("build", "--board", "nrf52840", "--model", "mlp", "--batch", "4", cwd=tmp_path)
    project = tmp_path / "build/nrf52840"
    nrfjprog = tmp_path / "bin/nrfjprog"
    nrfjprog.parent.mkdir()
    nrfjprog.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/told"\n')
    nrfjprog.chmod(0o755)
    typed = [c.text for c in commands("docs/hardware.md") if "nrf52840-system" in c.text]
    assert [command.split()[-1] for command in typed] == ["upload", "erase"]
    for command in typed:
        subprocess.run(
            [sys.executable, "-m", "platformio", *command.split()[1:]],
            cwd=project,
            env={**os.environ, "PATH": f"{nrfjprog.parent}:{os.environ['PATH']}"},
            check=True,
        )
    succeed("flash", cwd=tmp_path, PATH=f"{nrfjprog.parent}:{os.environ['PATH']}")
    upload, erase, again = (tmp_path / "told").read_text().splitlines()
    assert again == upload
    assert re.fullmatch(
        r"-f nrf52 --program \S+firmware.hex --sectorerase --verify --reset", upload
    )
    assert erase == "-f nrf52 --recover"
    assert f"erases the whole chip** (`nrfjprog {erase.split()[-1]}`)" in read("docs/hardware.md")
    assert "-t erase` erases the whole chip" in (project / "platformio.ini").read_text()


def options_of(command: click.Command) -> set[str]:
    return {flag for parameter in command.params for flag in parameter.opts} | {"--help"}


def options_of_others() -> set[str]:
    """The options of the benchmarks, of the test suite, and of what runs the mutations."""
    sources = [*(REPOSITORY / "benchmarks").rglob("*.py"), REPOSITORY / "tests/conftest.py"]
    sources.append(REPOSITORY / "tests/mutants/run.py")
    return {
        flag
        for source in sources
        for flag in re.findall(
            r'(?:add_argument|addoption|option)\(\s*"(--[\w-]+)"', source.read_text()
        )
    }


def code_of(page: str) -> Iterator[str]:
    yield from inline_code(page)
    yield from (command.text for command in commands(page))


@pytest.mark.parametrize("page", PAGES)
def test_every_option_on_a_page_exists(page: str) -> None:
    known = options_of_others().union(*map(options_of, COMMANDS.values()))
    for code in code_of(page):
        program, *words = code.split()
        flags = {word.partition("=")[0] for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)}
        if program == "poetfw" and words and not words[0].startswith("-"):
            assert words[0] in COMMANDS, code
            assert flags <= options_of(COMMANDS[words[0]]), code
        elif program == "poetfw" or code.startswith("-") or "benchmarks/" in code:
            assert flags <= known, code


def anchors(page: str) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", split(page)[1], re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", LINKING)
def test_every_link_on_a_page_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (REPOSITORY / page).parent / path if path else REPOSITORY / page
        assert file.exists(), target
        if anchor:
            there = file.resolve().relative_to(REPOSITORY).as_posix()
            assert anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    folders = r"(?:host|firmware_templates|tests|benchmarks|boards|docs|examples)/[\w./-]*"
    made_on_the_page = {code for code in inline_code(page) if "softsign" in code}
    for name in {c for c in inline_code(page) if re.fullmatch(folders, c)} - made_on_the_page:
        if name != "boards/myboard.toml":
            assert (REPOSITORY / name).exists(), name


def test_the_number_of_schedulers_is_the_one_in_the_readme() -> None:
    (count,) = re.findall(r"any of (\d+) schedulers", read("README.md"))
    assert int(count) == len(SCHEDULERS)
    table = re.findall(r"^\| (`.+`) \|", split("docs/scheduling.md")[1], re.M)
    listed = {name for row in table for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert listed >= set(SCHEDULERS)
