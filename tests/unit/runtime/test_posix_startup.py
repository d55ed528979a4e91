# SPDX-License-Identifier: Apache-2.0
"""A program for Linux does not train on a processor that lacks what it is compiled for."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c

STUBS = """\
void poet_listen_to_input(int listens) { (void)listens; }
void poet_storage_file(const char *name) { (void)name; }
_Noreturn void poet_run(void) { __builtin_exit(7); }
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 may lack the instructions")
@pytest.mark.parametrize(("has_fma", "code"), [(1, 7), (0, 1)])
def test_a_processor_without_fma_is_told(tmp_path: Path, has_fma: int, code: int) -> None:
    (stubs := tmp_path / "stubs.c").write_text(STUBS)
    folders = ("hal", "hal/posix", "runtime", "storage", "port")
    includes = [*(TEMPLATES / name for name in folders), SAMPLE / "src/generated"]
    flags = ("-DPOET_FMA=1", f"-D__builtin_cpu_supports(name)={has_fma}", "-Wno-missing-prototypes")
    sources = [TEMPLATES / "hal/posix/startup.c", stubs]
    program = compile_c(tmp_path / "program", sources, includes, *flags)
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    assert ran.returncode == code
    assert ("AVX2 and FMA: build it with" in ran.stderr) == (not has_fma)
