# SPDX-License-Identifier: Apache-2.0
"""Storage in a file, as a program under Linux moves it: by a thread of its own."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import BLOCK, SAMPLE, TEMPLATES, compile_c

TRANSFERS = 4
BLOCKS = 1200
MANY = 1030  # more than the buffer holds, twice
ERROR_STORAGE = -3

SYSTEM = """
/* A console, and a system in which reads stop at a gate, and O_DIRECT can be refused twice. */
#define _GNU_SOURCE
#include "hal.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

char said[64];
pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
int refused;
int device_block_bytes = 512;

void poet_hal_console_write(const char *text, uint32_t bytes) { memcpy(said, text, bytes); }
void close_gate(void);
void close_gate(void) { pthread_mutex_lock(&gate); }
void open_gate(void);
void open_gate(void) { pthread_mutex_unlock(&gate); }

ssize_t pread(int file, void *to, size_t bytes, off_t at)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    const int direct = fcntl(file, F_GETFL) & O_DIRECT;
    if (direct && bytes % (size_t)device_block_bytes != 0) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_pread64, file, to, bytes, at);
}

int open(const char *name, int flags, ...)
{
    if (refused && (flags & O_DIRECT)) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, name, flags);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storage_file")
    (folder / "system.c").write_text(SYSTEM)
    return compile_c(
        folder / "storage_file.so",
        [folder / "system.c", TEMPLATES / "hal/posix/storage_file.c"],
        [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("runtime", "storage", "hal"))],
        *("-shared", "-fPIC", "-pthread", "-Wl,-Bsymbolic", f"-DPOET_TRANSFERS={TRANSFERS}u"),
    )


@pytest.fixture
def storage(library: Path, tmp_path: Path) -> Iterator[ctypes.CDLL]:
    """The library, loaded anew, with a file of random blocks that is not open yet."""
    (tmp_path / "image").write_bytes(np.random.default_rng(0).bytes(BLOCKS * BLOCK))
    loaded = ctypes.CDLL(str(shutil.copy(library, tmp_path)))
    name = os.fsencode(tmp_path / "image")
    loaded.poet_storage_file(name)
    yield loaded
    assert name  # the library has kept its address


def content(folder: Path) -> bytes:
    return (folder / "image").read_bytes()


def said(storage: ctypes.CDLL) -> bytes:
    return (ctypes.c_char * 64).in_dll(storage, "said").value


def buffer(blocks: int) -> ctypes.Array[ctypes.c_char]:
    """RAM that is not aligned to anything."""
    return (ctypes.c_char * (blocks * BLOCK)).from_buffer(bytearray(blocks * BLOCK + 5), 5)


def test_transfers_go_on_while_the_core_does(storage: ctypes.CDLL, tmp_path: Path) -> None:
    assert storage.poet_hal_storage_open() == 0
    targets = [buffer(MANY), *(buffer(number) for number in range(1, TRANSFERS))]
    storage.close_gate()
    for number, target in enumerate(targets):
        count = len(target) // BLOCK
        assert storage.poet_hal_storage_read_begin(7 * number, target, count) == 0
    assert all(not any(target.raw) for target in targets)
    storage.open_gate()
    for number, target in enumerate(targets):
        assert storage.poet_hal_storage_wait() == 0
        start = 7 * number * BLOCK
        assert target.raw == content(tmp_path)[start : start + len(target)]


def test_transfers_are_done_in_their_order(storage: ctypes.CDLL, tmp_path: Path) -> None:
    assert storage.poet_hal_storage_open() == 0
    before = content(tmp_path)
    new = [buffer(MANY), buffer(1)]
    new[0].raw = np.random.default_rng(1).bytes(MANY * BLOCK)
    new[1].raw = b"\1" * BLOCK
    old, back = buffer(1), buffer(1)
    for _ in range(3):  # round the queue
        assert storage.poet_hal_storage_read_begin(3, old, 1) == 0
        assert storage.poet_hal_storage_write_begin(2, new[0], MANY) == 0
        assert storage.poet_hal_storage_write_begin(3, new[1], 1) == 0
        assert storage.poet_hal_storage_read_begin(3, back, 1) == 0
        assert [storage.poet_hal_storage_wait() for _ in range(4)] == [0] * 4
        assert back.raw == new[1].raw
    assert old.raw == new[1].raw
    first = 2 * BLOCK
    expected = bytearray(before)
    expected[first : first + len(new[0])] = new[0].raw
    expected[3 * BLOCK : 4 * BLOCK] = new[1].raw
    assert content(tmp_path) == bytes(expected)


def test_each_transfer_says_how_it_ended(storage: ctypes.CDLL, tmp_path: Path) -> None:
    assert storage.poet_hal_storage_open() == 0
    blocks = ctypes.c_uint32()
    assert storage.poet_hal_storage_blocks(ctypes.byref(blocks)) == 0
    assert blocks.value == BLOCKS
    good, bad = buffer(1), buffer(2)
    assert storage.poet_hal_storage_read_begin(0, good, 1) == 0
    assert storage.poet_hal_storage_read_begin(BLOCKS - 1, bad, 2) == 0
    assert storage.poet_hal_storage_read_begin(1, good, 1) == 0
    ended = [storage.poet_hal_storage_wait() for _ in range(3)]
    assert ended == [0, ERROR_STORAGE, 0]


@pytest.mark.parametrize(("name", "value"), [("refused", 1), ("device_block_bytes", 4096)])
def test_where_the_cache_cannot_be_passed_it_is_used(
    storage: ctypes.CDLL, tmp_path: Path, name: str, value: int
) -> None:
    """The file system does not know of it, or the device has larger blocks."""
    ctypes.c_int.in_dll(storage, name).value = value
    assert storage.poet_hal_storage_open() == 0
    assert said(storage) == b"@storage file=cached\n"
    block = buffer(1)
    assert storage.poet_hal_storage_read_begin(5, block, 1) == 0
    assert storage.poet_hal_storage_wait() == 0
    assert block.raw == content(tmp_path)[5 * BLOCK : 6 * BLOCK]


def test_the_cache_is_passed_where_it_can_be(storage: ctypes.CDLL, tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path / "image", os.O_RDWR | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system of temporary files knows no O_DIRECT")
    assert storage.poet_hal_storage_open() == 0
    assert said(storage) == b"@storage file=direct\n"


def test_a_file_that_is_not_there(storage: ctypes.CDLL, tmp_path: Path) -> None:
    (tmp_path / "image").unlink()
    assert storage.poet_hal_storage_open() == ERROR_STORAGE
    assert said(storage) == b""
