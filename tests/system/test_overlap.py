# SPDX-License-Identifier: Apache-2.0
"""Transfers beside computing: the same bits, no race, and less time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from poetfw.common.resources import boards_dir
from poetfw.firmware import RunRequest, set_request
from system.commands import succeed

pytestmark = pytest.mark.slow

PAGED = "--batch 8 --ram 60000 --scheduler poet-remat-off --work-limit 5".split()
STEPS = 5
WAIT = re.compile(r"^    POET_TRY\(poet_page_wait\(\w+\)\);\n", re.MULTILINE)

KERNEL = re.compile(r"^(    poet_(?!between_ops)\w+\()", re.MULTILINE)

SLOW = """
/* Storage of 60 ns per byte, and kernels of 5 ms. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void take(size_t ns)
{
    const struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}

void test_compute(void);
void test_compute(void)
{
    take(5000000u);
}

ssize_t pread(int file, void *to, size_t bytes, off_t at)
{
    take(60u * bytes);
    return syscall(SYS_pread64, file, to, bytes, at);
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t at)
{
    take(60u * bytes);
    return syscall(SYS_pwrite64, file, from, bytes, at);
}
"""


def built(folder: Path, *model: str, overlap: bool) -> Path:
    """The project of a model that pages a lot, for this computer."""
    board = folder / "here.toml"
    text = re.sub(r"(45|24)\.5e6", "130e6", (boards_dir() / "linux.toml").read_text())
    board.write_text(text.replace('kind = "file"', f'kind = "file"\noverlap = {overlap}'.lower()))
    build = succeed("build", "--board", board, *model, "--out", "project", cwd=folder)
    assert build["schedule"]["page_ins"] >= 5
    return folder / "project"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("beside"), *PAGED, overlap=True)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("waiting"), *PAGED, overlap=False)


def run(project: Path, *arguments: str, steps: int = STEPS) -> Any:
    board = project.parent / "here.toml"
    options = ("--board", board, "--out", "project", "--steps", str(steps), *arguments)
    return succeed("run", *options, cwd=project.parent)


def test_the_bits_are_the_same(beside: Path, waiting: Path) -> None:
    runs = [run(beside, "--verify"), run(waiting, "--verify")]
    assert all(r["verify"]["ok"] and r["verify"]["bit_identical_to_unscheduled"] for r in runs)
    assert runs[0]["loss"] == runs[1]["loss"]
    assert all(r["step_traffic"] == r["planned_traffic"] for r in runs)
    assert runs[0]["step_traffic"]["written_bytes"] > 0
    assert runs[0]["storage_file"] in ("direct", "cached")


def compiled(project: Path, out: Path, *flags: str) -> Path:
    """The program of a project, outside PlatformIO."""
    sources = [path for part in ("lib", "src") for path in sorted((project / part).rglob("*.[ch]"))]
    left_out = ("poet_memory.c", "port.c", "sd.c", "sd_storage.c")
    files = [path for path in sources if path.suffix == ".c" and path.name not in left_out]
    folders = sorted({path.parent for path in sources})
    includes = [f"-I{folder}" for folder in folders]
    usual = "-std=c11 -O1 -g -fno-strict-aliasing -ffp-contract=off -fno-math-errno"
    command = ["gcc", *usual.split()]
    subprocess.run([*command, *includes, *flags, *files, "-o", out], check=True, timeout=120)
    return out


def untrained(project: Path, image: Path, steps: int) -> Path:
    """A fresh storage image; a program goes on from where the last one got on an old one."""
    image.write_bytes((project / "storage.img").read_bytes())
    set_request(image, RunRequest(steps))
    return image


def sanitized(project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """A run under ThreadSanitizer."""
    elf = compiled(project, folder / "sanitized", "-fsanitize=thread", "-pthread")
    untrained(project, folder / "storage.img", STEPS)
    command = ["setarch", "--addr-no-randomize", elf]  # which the sanitizer's shadow wants
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_there_is_no_race(beside: Path, tmp_path: Path) -> None:
    result = sanitized(beside, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "ThreadSanitizer" not in result.stderr
    assert result.stdout.count("@step") == STEPS


def test_there_would_be_one_without_waiting(beside: Path, tmp_path: Path) -> None:
    step = beside / "lib/poetfw/generated/train_step.c"
    text = step.read_text()
    waits = list(WAIT.finditer(text))
    assert len(waits) >= 10
    try:
        step.write_text(WAIT.sub("", text))
        assert "data race" in sanitized(beside, tmp_path).stderr
    finally:
        step.write_text(text)


def slowed(project: Path) -> Path:
    """The program of a project with slow storage and slow kernels, beside which load is little."""
    step = project / "lib/poetfw/generated/train_step.c"
    text, kernels = KERNEL.subn(r"    test_compute();\n\1", step.read_text())
    assert kernels > 100
    step.write_text("void test_compute(void);\n" + text)
    (project / "src/slow.c").write_text(SLOW)
    return compiled(project, project / "slowed", "-pthread")


def ticks(project: Path) -> int:
    """What one training step takes, in ns."""
    result = subprocess.run(
        [project / "slowed", untrained(project, project / "slow.img", steps=1)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r"@done ticks=(\d+) tick_unit=ns", result.stdout)
    assert found
    return int(found[1])


def test_slow_storage_takes_less_time(tmp_path: Path) -> None:
    """On storage that takes about as long as computing."""
    model = "--model resnet8 --batch 4 --ram 2000000 --scheduler swap-proactive".split()
    projects = []
    for overlap in (True, False):
        folder = tmp_path / str(overlap)
        folder.mkdir()
        projects.append(built(folder, *model, overlap=overlap))
        slowed(projects[-1])
    taken = [[ticks(project) for project in projects] for _ in range(3)]
    beside, waiting = map(min, zip(*taken, strict=True))
    assert beside < 0.75 * waiting
