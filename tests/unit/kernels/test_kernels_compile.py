# SPDX-License-Identifier: Apache-2.0
"""The kernels compile without a warning for every target, and run clean under sanitizers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from emulator.firmware_tools import CORTEX_M0PLUS
from emulator.kernel_core import Build, kernel_objects, needs_compiler
from unit.kernels.conftest import TEMPLATES, compile_kernels

HERE = Path(__file__).parent
BUILDS = {
    "cortex-m4": Build(),
    "cortex-m0plus": Build(CORTEX_M0PLUS),
    "without-unrolling": Build(flags=("-DPOET_NO_UNROLL",)),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@needs_compiler
def test_kernels_compile_without_warnings(build: Build, tmp_path: Path) -> None:
    assert kernel_objects(build, tmp_path)


@pytest.mark.slow
def test_kernels_compile_for_this_computer_without_warnings(tmp_path: Path) -> None:
    """With more optimisation than where a test runs them (`conftest.WARNINGS`)."""
    compile_kernels(tmp_path, "-O3")


def test_only_one_header_knows_a_pragma_that_older_compilers_do_not() -> None:
    """GCC 7 of PlatformIO's stock platforms warns of `GCC unroll`, clang of any but its own."""
    told = re.compile(r"GCC unroll|clang loop|pragma unroll")
    folders = (TEMPLATES, TEMPLATES.parent / "profiler_sketches")
    kinds = ("*.[ch]", "*.[ch].j2")
    sources = [path for folder in folders for kind in kinds for path in folder.rglob(kind)]
    assert {path.name for path in sources if told.search(path.read_text())} == {"unroll.h"}


def test_names_of_assembly_are_the_linkers() -> None:
    """A header renames them, but for what macros put together."""
    files = [*TEMPLATES.rglob("*_asm.[Sh]"), TEMPLATES / "runtime/assembly.h"]
    macros = [name for path in files for name in re.findall(r"\.macro (\w+)", path.read_text())]
    assert "function" in macros
    assert [name for name in macros if name.startswith("poet")] == []
    c = [
        path for path in TEMPLATES.rglob("*.[ch]") if re.search("^__asm__", path.read_text(), re.M)
    ]
    assert c == [], "functions in assembly at file scope of C, which LTO does not see"


def test_no_two_structs_have_one_name() -> None:
    """Any operator can be in a project with any part of the runtime."""
    folders = ("kernels", "runtime", "storage", "hal")
    headers = [path for name in folders for path in (TEMPLATES / name).glob("*.h")]
    pattern = re.compile(r"^(?:extern |typedef )?struct (\w+) {", re.MULTILINE)
    found = Counter(name for path in headers for name in pattern.findall(path.read_text()))
    assert found["poet_slice"] == found["poet_progress"] == 1
    assert [name for name, count in found.items() if count > 1] == []


def test_kernels_run_clean_under_sanitizers() -> None:
    """The whole comparison with the references again, in buffers without a byte to spare."""
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    ).stdout.strip()
    if not Path(runtime).is_file():
        pytest.skip("GCC's address sanitizer is not installed")
    environment = {
        **os.environ,
        "POETFW_TEST_SANITIZE": "1",
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    tests = HERE / "test_kernels_match_reference.py"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
