# SPDX-License-Identifier: Apache-2.0
"""A whole run under Linux with each of its transfers failing once, from then on, or moving less."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from emulator.firmware_tools import C_FLAGS, compile_sample, sample_image

STEPS, SEED, CAPTURE_AND_EVALUATE = 1, 7, 3

FAULTS = """
/* The Nth transfer of a run, from 1, fails or is short; as the environment says. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long transfers;

static int fails(size_t *bytes)
{
    const long number = atol(getenv("FAULT_AT"));
    const char *const kind = getenv("FAULT");
    const long now = ++transfers;
    if (now < number || (now > number && strcmp(kind, "for ever") != 0)) {
        return 0;
    }
    if (strcmp(kind, "short") == 0) {
        *bytes = *bytes > 512u ? *bytes / 1024u * 512u : *bytes;
        return 0;
    }
    errno = strcmp(kind, "nothing") == 0 ? 0 : EIO;
    return 1;
}

ssize_t pread(int file, void *to, size_t bytes, off_t at)
{
    const int failed = fails(&bytes);
    return failed ? (errno ? -1 : 0) : syscall(SYS_pread64, file, to, bytes, at);
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t at)
{
    const int failed = fails(&bytes);
    return failed ? (errno ? -1 : 0) : syscall(SYS_pwrite64, file, from, bytes, at);
}

__attribute__((destructor)) static void say(void)
{
    fprintf(stderr, "%ld", transfers);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    source, object_file = folder / "faults.c", folder / "faults.o"
    source.write_text(FAULTS)
    subprocess.run(["gcc", *C_FLAGS, "-c", source, "-o", object_file], check=True, timeout=60)
    return compile_sample(folder / "program", "posix", str(object_file))


def run(program: Path, folder: Path, fault: str, at: int) -> tuple[int, list[str], bytes, int]:
    """Exit code, what was said of training, the storage, and how many transfers there were."""
    image = folder / "storage.img"
    image.write_bytes(sample_image(steps=STEPS, seed=SEED, flags=CAPTURE_AND_EVALUATE))
    result = subprocess.run(
        [program],
        cwd=folder,
        env={**os.environ, "FAULT": fault, "FAULT_AT": str(at), "POETFW_SYSFS": str(folder)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = [line.split(" ticks=")[0] for line in result.stdout.splitlines()[1:]]
    said = [line for line in lines if not line.startswith(("@storage", "@transfers"))]
    return result.returncode, said, image.read_bytes(), int(result.stderr)


@pytest.mark.parametrize("fault", ["once", "nothing", "for ever", "short"])
def test_a_fault_is_an_error_or_changes_nothing(program: Path, tmp_path: Path, fault: str) -> None:
    *right, transfers = run(program, tmp_path, "none", 10**6)
    assert right[0] == 0
    assert transfers > 20
    ends = set()
    for at in range(1, transfers + 1):
        code, said, image, _ = run(program, tmp_path, fault, at)
        if code == 0:
            assert [code, said, image] == right, at
        else:
            assert (code, said[-1].split(" at=")[0]) == (1, "@error status=-3"), at
        ends.add((at == 1, code))
    # The first finds out whether the cache can be passed; another one reads a set of nothing.
    assert (
        ends
        == {
            "once": {(True, 0), (False, 0), (False, 1)},
            "nothing": {(True, 0), (False, 0), (False, 1)},
            "for ever": {(True, 1), (False, 1)},
            "short": {(True, 0), (False, 0)},
        }[fault]
    )
