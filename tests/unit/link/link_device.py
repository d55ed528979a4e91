# SPDX-License-Identifier: Apache-2.0
"""A board at the other end of a line that loses, changes and repeats bytes, all in this process."""

from __future__ import annotations

import ctypes
import math
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

import pytest

from emulator import firmware_tools
from emulator.firmware_tools import (
    SAMPLE,
    SAMPLE_BATCH,
    SAMPLE_FEATURES,
    SLOT_BLOCKS,
    TEMPLATES,
    compile_c,
)
from poetfw.firmware import PARTITION_BLOCK, Slot, SlotPurpose
from poetfw.ir import Dtype, Op, Tensor
from poetfw.memory import ONLY, on_one
from poetfw.report import RunReport
from poetfw.runs.desks import _Desks
from poetfw.runs.execution import BuildFolder, BuiltProject
from poetfw.runs.observer import RunObserver
from poetfw.runs.running import Training, run_build
from poetfw.schedule import Step, StepKind
from poetfw.settings import RunSettings
from poetfw.tools.link import Desk

BLOCK = 512
HERE = Path(__file__).parent


def compile_device(out: Path) -> Path:
    """The firmware, but for its HAL, as a shared library with the sample project in it."""
    folders = [SAMPLE / "src/generated", TEMPLATES / "runtime", TEMPLATES / "storage"]
    left_out = ("desk.c", "main.c", "poet_memory.c", "sd.c", "sd_storage.c")
    sources = [f for d in folders for f in sorted(d.glob("*.c")) if f.name not in left_out]
    flags = ("-shared", "-fPIC", "-Wl,--wrap=poet_train_step")
    return compile_c(out, [HERE / "device.c", *sources], [*folders, TEMPLATES / "hal"], *flags)


class Device:
    """The firmware, with variables of its own."""

    BLOCKS = 128
    """How many its storage has."""

    def __init__(self, library: Path) -> None:
        with NamedTemporaryFile(suffix=".so") as copy:
            copy.write(library.read_bytes())
            copy.flush()
            self._library = ctypes.CDLL(copy.name)
        self._memory = (ctypes.c_uint8 * (self.BLOCKS * BLOCK)).in_dll(self._library, "test_device")
        self._said = (ctypes.c_char * 65536).in_dll(self._library, "test_said")
        self._said_bytes = ctypes.c_uint32.in_dll(self._library, "test_said_bytes")
        self.reset()

    def reset(self) -> None:
        self._library.test_start()

    def set(self, name: str, value: int) -> None:
        ctypes.c_uint32.in_dll(self._library, name).value = value

    def get(self, name: str) -> int:
        return ctypes.c_uint32.in_dll(self._library, name).value

    def forget(self, block: int, count: int) -> None:
        self._library.poet_hal_storage_forget(block, count)

    @property
    def storage(self) -> bytes:
        return bytes(self._memory)

    @storage.setter
    def storage(self, content: bytes) -> None:
        ctypes.memmove(self._memory, content, len(content))

    def tell(self, text: bytes) -> bytes:
        """What it answers."""
        self._library.test_feed(text, len(text))
        said = self._said.raw[: self._said_bytes.value]
        self._said_bytes.value = 0
        return said


@dataclass
class Noise:
    """Drops, flips a bit of, and repeats each byte with the same probability each."""

    rate: float = 0.0
    random: Random = field(default_factory=Random)
    faults: int = 0

    def through(self, data: bytes) -> bytes:
        if not self.rate:
            return data
        result, rest = bytearray(), data
        while True:
            spared = int(math.log(1 - self.random.random()) / math.log(1 - 3 * self.rate))
            result += rest[:spared]
            if spared >= len(rest):
                return bytes(result)
            byte, rest = rest[spared], rest[spared + 1 :]
            kind = self.random.randrange(3)
            if kind == 1:
                result.append(byte ^ 1 << self.random.randrange(8))
            elif kind == 2:
                result += bytes([byte, byte])
            self.faults += 1


class Simulated:
    """A line to a device in this process; its clock goes on by what is waited for.

    Attributes:
        dead_after: writes after which nothing arrives at the device any more.
    """

    def __init__(self, device: Device, noise: Noise | None = None) -> None:
        self._device, self._noise = device, noise or Noise()
        self._arrived = b""
        self._now_s = 0.0
        self.writes = 0
        self.dead_after: float = math.inf

    def write(self, data: bytes) -> None:
        self.writes += 1
        if self.writes <= self.dead_after:
            answer = self._device.tell(self._noise.through(data))
            self._arrived += self._noise.through(answer)

    def read(self, timeout_s: float) -> bytes:
        arrived, self._arrived = self._arrived, b""
        self._now_s += 0.001 if arrived else max(0.001, timeout_s)
        return arrived

    def now_s(self) -> float:
        return self._now_s


def sample_image(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> bytes:
    """The sample project's storage image, laid out as the host lays out its own."""
    monkeypatch.setattr(firmware_tools, "PARTITION_BLOCK", PARTITION_BLOCK)
    monkeypatch.setattr(firmware_tools, "SUPERBLOCK", PARTITION_BLOCK * BLOCK)
    image = firmware_tools.sample_image(**settings)
    blocks = len(image) // BLOCK - PARTITION_BLOCK
    ends = b"\xfe\xff\xff"  # beyond what cylinders can say
    image[446:462] = struct.pack("<B3sB3sII", 0, ends, 0xDA, ends, PARTITION_BLOCK, blocks)
    return bytes(image)


def sample_project(folder: Path, image: bytes) -> BuiltProject:
    """The sample project, as far as the line's commands look at it."""
    path = folder / "storage.img"
    path.write_bytes(image)
    purposes = {"weight": SlotPurpose.PERSISTENT, "gradient": SlotPurpose.CAPTURE}
    slots = tuple(
        Slot("weight", purpose, SLOT_BLOCKS[name][0], 4) for name, purpose in purposes.items()
    )
    loss: Any = SimpleNamespace(name="loss", updates=("loss",), kind="mse", output=None)
    moved = {
        "x": Tensor("x", (SAMPLE_BATCH, SAMPLE_FEATURES), Dtype.F32),
        "y": Tensor("y", (SAMPLE_BATCH, 1), Dtype.F32),
        "mean": Tensor("mean", (SAMPLE_BATCH,), Dtype.F32),
    }
    kinds = {"x": "load_x", "y": "load_y", "mean": "linear"}
    program = SimpleNamespace(
        loss=loss,
        training=SimpleNamespace(
            ops=(loss, *(Op(name, kind, (), name) for name, kind in kinds.items())), by_name=moved
        ),
        to_json=dict,
        x=SimpleNamespace(size_bytes=4 * SAMPLE_FEATURES),
        y=SimpleNamespace(size_bytes=4),
    )
    loaded = [Step(StepKind.COMPUTE, name) for name in ("x", "y", "loss")]
    ways = (StepKind.PAGE_OUT, StepKind.PAGE_IN)
    steps = [*loaded, *(Step(kind, name) for kind in ways for name in ("x", "mean"))]
    project = SimpleNamespace(
        folder=folder,
        image=path,
        board=SimpleNamespace(name="sample", label="sample", clock_hz=1_000_000),
        twin=SimpleNamespace(name="none"),
        report=SimpleNamespace(
            plan_id="5a3b1e00",
            train_samples=10,
            held_out_samples=8,
            batch=4,
            classifies=False,
            board="sample",
            schedule=SimpleNamespace(time_s=0.5),
            costs="analytic",
        ),
        stages=SimpleNamespace(slots=slots, training=on_one(steps), program=program, messages=()),
        evaluations=2,
        tensors={"weight": Tensor("weight", (1,), Dtype.F32)},
    )
    return project  # type: ignore[return-value]


def run_at_desk(
    project: BuiltProject, settings: RunSettings, desk: Desk, port: str, observer: RunObserver
) -> RunReport:
    """A run of the sample project on a board."""
    report: Any = SimpleNamespace(memories={ONLY: project.report}, messages=())
    build = BuildFolder(project.folder, report, {ONLY: project})

    def launch(
        build: BuildFolder, request: Any, settings: RunSettings, observer: RunObserver
    ) -> Training:
        with ThreadPoolExecutor(1) as pool:
            desks = _Desks(build, {ONLY: port}, {ONLY: desk}, pool, observer)
            return desks.train(request, settings)

    return run_build(build, settings, launch, observer)
