# SPDX-License-Identifier: Apache-2.0
"""Samples of every size: how many blocks they take, and where in them features and targets are."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import (
    BLOCK,
    SAMPLE,
    SAMPLE_BATCH,
    SAMPLE_IDENTITY,
    SAMPLE_PLAN_ID,
    SET_BLOCKS,
    SLOTS_BLOCKS,
    TEMPLATES,
    compile_c,
    partition_table,
    sample_record,
    with_crc,
)
from unit.runtime.conftest import BLOCK_DEVICE

SAMPLES = 9
SLOTS = SLOTS_BLOCKS + 2 * SET_BLOCKS


def _runtime(folder: Path, x_bytes: int, y_bytes: int) -> ctypes.CDLL:
    """The runtime with the sample project's plan, but for the size of a sample."""
    plan = (SAMPLE / "src/generated/plan.h").read_text()
    for name, size in (("X", x_bytes), ("Y", y_bytes)):
        plan = re.sub(rf"(POET_{name}_BYTES) \d+u", rf"\1 {size}u", plan)
    (folder / "plan.h").write_text(plan)
    library = compile_c(
        folder / "runtime.so",
        [
            *(BLOCK_DEVICE, SAMPLE / "src/generated/plan.c"),
            *(
                TEMPLATES / "storage" / f"{name}.c"
                for name in ("commits", "crc32", "image", "slots", "storage")
            ),
            *(
                TEMPLATES / "runtime" / f"{name}.c"
                for name in ("data", "poet_math", "sample_order")
            ),
        ],
        [folder, *(TEMPLATES / d for d in ("runtime", "storage", "hal"))],
        *("-shared", "-fPIC"),
    )
    runtime = ctypes.CDLL(str(library))
    runtime.test_device_reset()
    return runtime


def _image(records: np.ndarray, record_blocks: int) -> bytes:
    """The records, twice: to train with and held out."""
    end = 1 + len(records) * record_blocks
    last = end + (len(records) - 1) * record_blocks  # held-out samples are whole batches
    header = struct.pack(
        "<8s18I",
        *(b"POETIMG1", 3, SAMPLE_PLAN_ID, BLOCK, last + SLOTS, 0, 1, 0),
        *(1, len(records), record_blocks, end, len(records) - 1, record_blocks, last),
        *(last + SLOTS_BLOCKS, 2, 0, SAMPLE_IDENTITY),
    )
    content = records.tobytes() + records[:-1].tobytes()
    partition = with_crc(header) + content
    return partition_table((0xDA, 1, last + SLOTS)) + partition


@pytest.mark.parametrize(
    ("x_bytes", "y_bytes"),
    [
        (4, 4),
        (508, 4),
        (512, 4),
        (100, 924),
        (100, 1000),
        (1500, 36),
        (1024, 512),
        (1020, 1200),
        (500, 4),
        (504, 4),
        (510, 4),
        (1008, 4),
    ],
)
def test_samples_are_read_from_where_they_are(tmp_path: Path, x_bytes: int, y_bytes: int) -> None:
    runtime = _runtime(tmp_path, x_bytes, y_bytes)
    sample_bytes = x_bytes + y_bytes
    blocks = -(-(sample_bytes + 8) // BLOCK)
    rng = np.random.default_rng(1)
    records = rng.integers(0, 256, (SAMPLES, blocks * BLOCK), np.uint8)
    for record in records:
        x, y = record[:x_bytes].tobytes(), record[x_bytes:sample_bytes].tobytes()
        record[: sample_bytes + 8] = np.frombuffer(sample_record(x, y), np.uint8)
    device = (ctypes.c_uint8 * (256 * BLOCK)).in_dll(runtime, "test_device")
    header = ctypes.create_string_buffer(128)
    for claimed, status in ((blocks, 0), (blocks + 1, -1), (blocks - 1, -1)):
        content = _image(records, claimed)
        memoryview(device).cast("B")[: len(content)] = content
        assert runtime.poet_storage_open(header) == status, claimed
    content = _image(records, blocks)
    memoryview(device).cast("B")[: len(content)] = content
    held_out = (ctypes.c_uint32 * 3)(2 + SAMPLES * blocks, SAMPLES - 1, blocks)
    for batch in range((SAMPLES - 1) // SAMPLE_BATCH):
        runtime.poet_data_select_evaluation(held_out, ctypes.c_uint32(batch))
        rows = records[batch * SAMPLE_BATCH : (batch + 1) * SAMPLE_BATCH]
        for name, expected in (
            ("x", rows[:, :x_bytes]),
            ("y", rows[:, x_bytes:sample_bytes]),
        ):
            ram = np.zeros(expected.size + 64, np.uint8)
            assert runtime[f"poet_data_load_{name}"](ram.ctypes.data_as(ctypes.c_void_p)) == 0
            assert ram[: expected.size].tobytes() == expected.tobytes()
            assert not ram[expected.size :].any()
