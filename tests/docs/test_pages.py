# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ tell the reader to type is typed here, and what they name exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
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
from poetfw.costs import Database
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.report import BuildReport
from poetfw.schedule import SCHEDULERS, ScheduleSummary
from system.commands import needs_twin, poetfw, succeed
from unit.costs.test_measured_costs import by_macs, rows_of

HARMLESS = {
    r"make (\S+)": rf"make -n -C {REPOSITORY} \1",
    r"(python benchmarks/(?:op_costs|step|sparse_updates|overlap|figures)\.py)": r"\1 --help",
    r"(python benchmarks/\w+\.py) (?:--record|--json FILE|ec0e13a .*)": r"\1 --help",
    r"(poetfw \w+) .*--(?:port|host) .*": r"\1 --help",
    r"(poetfw profile) .*": r"\1 --help",
    r"poetfw build --board nrf52840 .*--(?:optimizer|train|no-decay|micro-batch) .*": (
        r"\g<0> --generate-only --ram 250000 --work-limit 0.2"
    ),
    r"poetfw build --board (?:mkr1000|rpi4|.* --train .*)": (
        r"\g<0> --generate-only --work-limit 0.2"
    ),
}
"""How commands are typed here that need a board, a registry or hours: by their text, as a whole."""

ELSEWHERE = {
    "tests/system/test_two_workers.py": r"poetfw (?:build .* --parallel .*|run) --out two.*",
    "tests/system/test_partners.py": r"poetfw (?:build .* --apart .*|run) --out pair.*",
    "tests/system/test_profile.py": "poetfw run --board nrf52840 --steps 1 --trace",
    "tests/system/test_portable.py": "(?:env .*)?poetfw demo",
    "tests/system/test_ring.py": r"poetfw (?:pull --ring|push) --image .*",
    "tests/system/test_platformio.py": r"pio run -e \S+ -t \S+",
    "tests/docs/test_library_page.py": "poetfw export --as cmake .*",
    "tests/docs/test_adding_a_board.py": r"poetfw (?:build|run) --board (?:\S+/)?my-f405.*",
    "tests/power/test_killed_programs.py": "python -m pytest -m slow tests/power/.*",
    "tests/system/test_pooled_networks.py": r"poetfw build .* --data images\.npz .*",
    "tests/emulator/test_serial_line.py": r"python -m poetfw\.tools\.emulators\.unicorn .*",
}
"""Tests of their own that type commands of pages, beside what these need."""

NOT_RUN = {
    r"pip install (?:'(?:poetfw|\.)\[\w+\]'|poetfw)": "it needs a registry; extras are looked for",
    "poetfw flash": "it needs a board; typed below without one",
    "python benchmarks/flash.py ELF": "ELF stands for a file; test_nrf52840.py counts flash",
    "sudo dd .*": "it needs a card",
    "(?:sudo apt-get install|pip uninstall) .*": "it changes the system or what the tests run",
    r"pio (run|pkg install) -e nrf52840": "it needs PlatformIO's registry",
}
"""Commands that no test types, and why."""

assert len(NOT_RUN) <= 10


def as_typed(command: str) -> str | None:
    """How a command is typed here; None where another test types it, or none."""
    for pattern, instead in HARMLESS.items():
        if match := re.fullmatch(pattern, command):
            return match.expand(instead)
    if any(re.fullmatch(pattern, command) for pattern in (*NOT_RUN, *ELSEWHERE.values())):
        return None
    return f"{command} {SHORTENED.get(command, '')}"


SHORTENED = {
    "poetfw run --board nrf52840 --live": "--steps 2",
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
    "python benchmarks/fine_tuning.py --run": "--help",
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
    if page == "docs/tutorials/your-network.md":
        pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
        for text in python_blocks(page):
            subprocess.run([sys.executable, "-W", "ignore", "-c", text], cwd=folder, check=True)
    if page == "docs/fine-tuning.md":
        pytest.importorskip("torch", reason="needs PyTorch (the extra `torch`)")
        (folder / "pretrain.py").write_text(block_behind(page, "`pretrain.py`"))
    if page == "docs/costs.md":
        settings = BuildSettings(board="nrf52840", model="resnet8", batch=32)
        graph = derive_program(settings, load_model(settings)).training
        request.getfixturevalue("monkeypatch").setenv("XDG_DATA_HOME", str(folder / "data"))
        Database(Database.default_path()).add(rows_of(graph, by_macs))
    if page == "docs/scheduling.md":
        (folder / "problem.json").write_text(block_behind(page, "`problem.json`"))


def typed(page: str) -> list[Command]:
    """The commands that a reader of a page may type: those in blocks, and whole ones in prose.

    A command that several pages have is typed on the first of them.
    """
    before = [c.text for earlier in PAGES[: PAGES.index(page)] for c in all_commands(earlier)]
    return [c for c in all_commands(page) if c.text not in before]


@cache
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
    """Type a command into a shell, or begin it without where it needs none; returns its stdout."""
    if re.fullmatch(r"poetfw [\w\s./:,=@-]+", command):
        done = poetfw(*command.split()[1:], cwd=folder)
        assert done.code == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout
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


def takes_minutes(page: str) -> bool:
    """True if a page trains, measures something, has a large network or what is shortened."""
    typed_here = [c.text for c in typed(page) if (as_typed(c.text) or "").strip() == c.text]
    return any(c.text in SHORTENED for c in typed(page)) or any(
        re.match("poetfw run|python benchmarks|.* resnet", text) for text in typed_here
    )


@needs_twin
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if takes_minutes(page) else ())
        for page in PAGES
        if typed(page)
    ],
)
def test_every_command_on_a_page_works(
    page: str, scratch: Path, bin_folder: Path, request: pytest.FixtureRequest
) -> None:
    provide(page, scratch, request)
    for command in typed(page):
        line = as_typed(command.text)
        if line is None:
            continue
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
    for pattern in (*HARMLESS, *NOT_RUN, *ELSEWHERE.values()):
        assert any(re.fullmatch(pattern, command) for command in on_pages), pattern
    assert SHORTENED.keys() <= on_pages
    assert all((REPOSITORY / test).exists() for test in ELSEWHERE)


def test_extras_that_pages_install_are_the_packages() -> None:
    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named = {
        extra
        for page in PAGES
        for command in typed(page)
        for extra in re.findall(r"poetfw\[(\w+)\]", command.text)
    }
    assert named
    assert named <= known["optional-dependencies"].keys()


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
    return {flag for parameter in command.params for flag in parameter.opts} | {
        "--help",
        "--help-all",
    }


def options_of_others() -> set[str]:
    """The options of the benchmarks, of the test suite, and of what runs the mutations."""
    sources = [*(REPOSITORY / "benchmarks").rglob("*.py"), *(REPOSITORY / "tests").glob("*.py")]
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
