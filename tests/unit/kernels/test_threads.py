# SPDX-License-Identifier: Apache-2.0
"""Kernels that divide their work among threads leave the same bits, whatever their number."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEMPLATES = HERE.parents[2] / "firmware_templates"
SOURCES = (
    HERE / "threaded.c",
    *(
        TEMPLATES / f"kernels/{name}.c"
        for name in (
            *(
                "conv2d",
                "conv2d_vectors",
            ),
            "dot",
            *("matmul", "panel", "sgd", "update"),
        )
    ),
    TEMPLATES / "runtime/poet_math.c",
    TEMPLATES / "storage/crc32.c",
)
POOL = TEMPLATES / "hal/posix/threads.c"
FLAGS = (
    *("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-pthread"),
    *("-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *(f"-I{TEMPLATES / folder}" for folder in ("kernels", "runtime", "storage")),
)


def printed(
    folder: Path, *flags: str, compiler: str = "gcc", emulator: tuple[str, ...] = ()
) -> list[str]:
    """What the program says, built with a plan.h of nothing."""
    (folder / "plan.h").touch()
    program = folder / "threaded"
    command = [compiler, *FLAGS, *flags, f"-I{folder}", "-o", str(program), *map(str, SOURCES)]
    subprocess.run(command, check=True)
    ran = subprocess.run([*emulator, program], check=True, capture_output=True, text=True)
    return ran.stdout.splitlines()


FUSED = ("-D_POSIX_C_SOURCE=200809L", "-include", str(TEMPLATES / "kernels/fma/product.h"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return printed(tmp_path_factory.mktemp("alone"), "-O1")


@pytest.mark.parametrize(
    "threads", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_bits_do_not_depend_on_threads(alone: list[str], tmp_path: Path, threads: int) -> None:
    assert len(set(alone)) == len(alone) == 21
    assert printed(tmp_path, "-O1", f"-DPOET_THREADS={threads}", str(POOL)) == alone


@pytest.mark.slow
def test_threads_do_not_race(alone: list[str], tmp_path: Path) -> None:
    flags = ("-O1", "-g", "-fsanitize=thread", "-DPOET_THREADS=4", str(POOL))
    assert printed(tmp_path, *flags) == alone


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or shutil.which("aarch64-linux-gnu-gcc") is None,
    reason="needs qemu-aarch64 and aarch64-linux-gnu-gcc",
)
@pytest.mark.parametrize("arithmetic", ["separate", "fma"])
def test_a_cortex_a72_has_the_same_bits(alone: list[str], tmp_path: Path, arithmetic: str) -> None:
    """But of what is not a number: the sign of such results is the processor's."""
    flags = ("-O2", "-mcpu=cortex-a72", "-static", "-DPOET_THREADS=4", str(POOL))
    if arithmetic == "fma":
        separate, alone = alone, printed(tmp_path, "-O1", *FUSED)
        assert not set(separate) & set(alone)
        assert printed(tmp_path, "-O3", *FUSED, "-DPOET_THREADS=3", str(POOL)) == alone
        flags = (*flags, *FUSED)
    emulator = ("qemu-aarch64", "-cpu", "cortex-a72")
    lines = printed(tmp_path, *flags, compiler="aarch64-linux-gnu-gcc", emulator=emulator)
    finite = [
        (ours, theirs)
        for ours, theirs in zip(alone, lines, strict=True)
        if not ours.startswith("infinite")
    ]
    assert len(finite) == 18
    assert all(ours == theirs for ours, theirs in finite)
