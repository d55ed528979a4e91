# SPDX-License-Identifier: Apache-2.0
"""Measuring firmware in this process, whose cases take what is known beforehand."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c
from poetfw.boards import load_board
from poetfw.common.resources import profiler_sketches_dir
from poetfw.costs import TAKEN, Case, Counter, Measurement, Setup
from poetfw.firmware import Project
from poetfw.firmware.sketch import Sketch
from poetfw.ir import Dtype
from poetfw.profiling.session import Refused, measure_sketch
from poetfw.tools.link import DeviceLink, PortLine, Profiler
from unit.link.link_device import Device

HERE = Path(__file__).parent
GENERATED = SAMPLE / "src/generated"
FLOATS = ((4, 150), Dtype.F32)
CASES = {
    Case("relu", (FLOATS,)): 137,
    Case("add", (FLOATS, FLOATS)): 5_000_000,
    Case("page_out", size_bytes=2400): 4300,
    Case("page_in", size_bytes=2400): 3100,
    Case("load_x", attributes={"shape": (4, 150)}): 20_011,
    Case("page_out_taken", size_bytes=2400): 617,
    Case("relu", (FLOATS,), numbers="5" * 16): 1012,
}
"""What each takes, in ticks; on average over its sets of numbers, which are three of the last."""
NOTHING = 7
SKETCH = Sketch(Project(), "5a3b1e00", tuple(CASES), (*[0] * 6, 3), 16)
BOARD = load_board("nrf52840")
SETUP = Setup("nrf52840", BOARD.core, BOARD.clock_hz, "qemu", "gcc")


def compile_sketch_device(out: Path) -> Path:
    """The sketch's application as a shared library, on the sample project's plan."""
    sketches = profiler_sketches_dir()
    application = sketches / "application"  # first: the runtime has a main.c, too
    folders = [TEMPLATES / "runtime", TEMPLATES / "storage"]
    needed = (
        "console",
        "link",
        "data",
        "sample_order",
        "crc32",
        "slots",
        "pages",
        "storage",
        "commits",
        "poet_math",
    )
    sources = [
        HERE / "sketch_device.c",
        HERE / "sketch_marks.c",
        GENERATED / "plan.c",
        application / "scratch.c",
    ]
    for name in needed:
        sources += [path for folder in folders if (path := folder / f"{name}.c").exists()]
    includes = [application, sketches / "hal", GENERATED, *folders, TEMPLATES / "hal"]
    names = ("SMALL", "LARGE", "OUT", "IN", "LOAD", "TAKEN", "FED")
    keys = [f'-DKEY_{name}="{case.key}"' for name, case in zip(names, CASES, strict=True)]
    room = ("-DPOET_SCRATCH_BLOCKS=16u", "-DPOET_SCRATCH_SLOTS=8u")
    return compile_c(out, sources, includes, *keys, *room, "-shared", "-fPIC")


class SketchDevice(Device):
    """The firmware, with variables of its own."""

    BLOCKS = 64

    def passes(self) -> int:
        """Of the kernel beside a transfer, in half of a page-out's time."""
        return int(self._library.test_passes())

    def operand(self, offset: int, words: int) -> list[float]:
        """What lies in the arena."""
        arena = ctypes.addressof(ctypes.c_uint8.in_dll(self._library, "poet_arena"))
        return list((ctypes.c_float * words).from_address(arena + offset))

    def marks(self) -> list[tuple[int, int]]:
        """When each case began and ended since the last time that this was asked, in ticks."""
        count = self.get("test_mark_count")
        self.set("test_mark_count", 0)
        at = list((ctypes.c_uint64 * 4096).in_dll(self._library, "test_marks"))[:count]
        return list(zip(at[::2], at[1::2], strict=True))


def measure(line: PortLine, **changed: Any) -> Iterator[Measurement | Refused]:
    settings: dict[str, Any] = {"sketch": SKETCH, "setup": SETUP, "board": BOARD, **changed}
    return measure_sketch(
        Profiler(DeviceLink(line)),
        version_of=lambda case: "0123456789abcdef",
        now=lambda: "2026-01-01T00:00:00Z",
        **settings,
    )


def is_right(row: Measurement | Refused) -> bool:
    """Whether a row is what the firmware's case takes, whatever happened on the way."""
    assert isinstance(row, Measurement)
    calls = 0 if row.case.kind in TAKEN else NOTHING  # calls of two runs make no difference
    ticks = CASES[row.case] - calls
    assert (row.ticks, row.spread_ticks, row.counter) == (ticks, 0.0, Counter.INSTRUCTIONS)
    assert row.time_s == ticks / BOARD.clock_hz
    return True
