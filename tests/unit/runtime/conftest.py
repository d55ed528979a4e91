# SPDX-License-Identifier: Apache-2.0
"""The runtime as a shared library on this computer, over a block device in memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c

BLOCK_DEVICE = Path(__file__).with_name("block_device.c")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_runtime(tmp_path_factory.mktemp("runtime") / "runtime.so")


def compile_runtime(out: Path, *flags: str) -> Path:
    """The runtime, without generated steps."""
    return compile_c(
        out,
        [
            BLOCK_DEVICE,
            SAMPLE / "src/generated/plan.c",
            *(
                TEMPLATES / "storage" / f"{name}.c"
                for name in ("commits", "crc32", "image", "pages", "slots", "storage")
            ),
            *(
                TEMPLATES / "runtime" / f"{name}.c"
                for name in ("console", "data", "poet_math", "sample_order")
            ),
        ],
        [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("runtime", "storage", "hal"))],
        "-shared",
        "-fPIC",
        *flags,
    )


@pytest.fixture
def runtime(library: Path) -> ctypes.CDLL:
    """The library; its block device is emptied for each test."""
    loaded = ctypes.CDLL(str(library))
    loaded.test_device_reset()
    loaded.poet_sample_at.restype = ctypes.c_uint32
    loaded.poet_crc32.restype = ctypes.c_uint32
    loaded.poet_slot_blocks.restype = ctypes.c_uint32
    return loaded
