# SPDX-License-Identifier: Apache-2.0
"""A training step of ResNet-18 (batch 1) on this computer, beside PyTorch's.

Both run in turns, several times, and the least time of each counts, of the processor or, with
several threads, of the clock: other programs take time from both. PyTorch's step is forward,
backward and SGD with momentum and weight decay, as ours. With --fma, ours adds products in one
instruction. With --threads, the same program runs on one thread in turns, too. With --a72, the
instructions that the same step executes on an emulated Cortex-A72 are counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import torch
from torch import nn

from poetfw.boards import load_board
from poetfw.common.resources import firmware_templates_dir
from workloads.kernels.measuring import FIRMWARE, PLUGIN_COMPILE

TEMPLATES = firmware_templates_dir()
STEPS = 5
BUILD = ("--model", "resnet18", "--data", "synthetic", "--batch", "1")

# As a project's, in platformio.ini.
COMPILE = (
    *("-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing"),
    *("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"),
)


class Block(nn.Module):
    """Two 3 x 3 convolutions and what goes by them."""

    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = conv_bn(width, channels, 3, stride)
        self.second = conv_bn(channels, channels, 3)
        changes = width != channels or stride > 1
        self.shortcut = conv_bn(width, channels, 1, stride) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the module's owner calls it."""
        return torch.relu(self.second(torch.relu(self.first(x))) + self.shortcut(x))


def conv_bn(width: int, channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(width, channels, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels))


def resnet18() -> nn.Sequential:
    """The network of poetfw/models/resnet.py."""
    layers: list[nn.Module] = [conv_bn(3, 64, 3), nn.ReLU()]
    width = 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, channels, stride), Block(channels, channels, 1)]
        width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class InPyTorch:
    """The step in PyTorch."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._now = process_time if threads == 1 else perf_counter
        self._net = resnet18()
        self._optimizer = torch.optim.SGD(
            self._net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4
        )
        self._x, self._y = torch.randn(1, 3, 32, 32), torch.tensor([3])

    def least_s(self) -> float:
        """The least time of some steps."""
        return min(self._step_s() for _ in range(STEPS))

    def _step_s(self) -> float:
        start = self._now()
        self._optimizer.zero_grad()
        nn.functional.cross_entropy(self._net(self._x), self._y).backward()
        self._optimizer.step()
        return self._now() - start


def flags_of(kernels: Path, fma: bool, threads: int) -> tuple[str, ...]:
    """The compiler's flags of fused products and of threads."""
    fused = ("-include", str(kernels / "fma/product.h")) if fma else ()
    pool = str(TEMPLATES / "hal/posix/threads.c")
    several = (f"-DPOET_THREADS={threads}", "-DPOET_BENCH_CLOCK=CLOCK_MONOTONIC", pool)
    return (*fused, *(several if threads > 1 else ()), "-pthread")


def compile_step(project: Path, kernels: Path, program: Path, *compiler: str) -> None:
    """The generated step and the kernels in a folder, with what times it."""
    generated = project / "lib/poetfw/generated"
    sources = [
        *(generated / name for name in ("ops.c", "train_step.c")),
        *(path for path in sorted(kernels.glob("*.c")) if path.name != "dot_fused.c"),
        *(TEMPLATES / name for name in ("runtime/poet_math.c", "storage/crc32.c")),
        FIRMWARE / "step.c",
    ]
    folders = (generated, kernels, *(TEMPLATES / name for name in ("runtime", "storage", "hal")))
    includes = (f"-I{folder}" for folder in folders)
    run(*compiler, *COMPILE, *includes, *map(str, sources), "-o", str(program))


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    every = {**os.environ, **environment}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=every)


def ours(program: Path, threads: int) -> tuple[int, str, list[int]]:
    """A step's nanoseconds on so many threads, what its bits come to, and each op's nanoseconds."""
    printed = run(str(program), str(STEPS), POETFW_THREADS=str(threads)).stdout
    (whole,), (crc32,) = (
        re.findall(rf"^{name} (\w+)$", printed, re.M) for name in ("step", "crc32")
    )
    return int(whole), crc32, [int(time) for time in re.findall(r"^op (\d+)$", printed, re.M)]


def operators(project: Path) -> list[str]:
    """The operator of everything that is timed."""
    step = (project / "lib/poetfw/generated/train_step.c").read_text()
    parts = step.split("poet_between_ops();")[:-1]
    return [re.findall(r"POET_STATEMENT\(\d+u\); /\* .+?: (\w+)", part)[-1] for part in parts]


def side_by_side(
    project: Path, kernels: Path, program: Path, rounds: int, fma: bool, threads: int
) -> None:
    """Print the time of both, and what ours goes to."""
    compile_step(project, kernels, program, "gcc", *flags_of(kernels, fma, threads))
    torchs = InPyTorch(threads)
    whole, alone, others, ops = [], [], [], []
    for _ in range(rounds):
        time_ns, crc32, times = ours(program, threads)
        whole.append(time_ns)
        ops.append(times)
        if threads > 1:
            time_ns, crc32_alone, _ = ours(program, 1)
            alone.append(time_ns)
            if crc32 != crc32_alone:
                sys.exit(f"{threads} threads leave other bits than one: {crc32}, {crc32_alone}")
        others.append(torchs.least_s())
    ours_s, theirs_s = min(whole) * 1e-9, min(others)
    print(
        f"ResNet-18, batch 1, threads: {threads}: {ours_s * 1e3:.1f} ms of "
        f"{'processor time' if threads == 1 else 'time'} a step, ",
        end="",
    )
    print(
        f"PyTorch {torch.__version__} {theirs_s * 1e3:.1f} ms: {ours_s / theirs_s:.2f} times it\n"
    )
    if alone:
        print(
            f"On one thread {min(alone) * 1e-6:.1f} ms, to the same bits: "
            f"{min(alone) / min(whole):.2f} times as long\n"
        )
    shares: Counter[str] = Counter()
    for operator, times in zip(operators(project), zip(*ops, strict=True), strict=True):
        shares[operator] += min(times)
    for operator, time_ns in shares.most_common(10):
        print(f"{operator:32}{time_ns * 1e-6:8.2f} ms")


def on_a72(project: Path, kernels: Path, folder: Path, fma: bool) -> None:
    """Print what a step executes on a Cortex-A72: two steps less one."""
    toolchain = load_board("rpi4").toolchain
    program, plugin = folder / "a72", folder / "count.so"
    compiler = (toolchain.compiler, *toolchain.machine_flags, *flags_of(kernels, fma, 1))
    compile_step(project, kernels, program, *compiler)
    run("gcc", *PLUGIN_COMPILE, "-o", str(plugin), str(FIRMWARE / "count.c"))
    emulator = ("qemu-aarch64", "-cpu", "cortex-a72", "-plugin", str(plugin), str(program))
    said = [run(*emulator, steps).stderr for steps in ("1", "2")]
    one, two = (int(re.findall(r"executed (\d+)", text)[0]) for text in said)
    print(f"\nCortex-A72: {two - one:,} instructions a step")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/step.py --rounds 2"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kernels", type=Path, default=TEMPLATES / "kernels", help="others")
    parser.add_argument("--fma", action="store_true", help="add products in one instruction")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--a72", action="store_true", help="count instructions (some minutes)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="poetfw-step-") as name:
        folder = Path(name)
        project = folder / "project"
        command = (sys.executable, "-m", "poetfw.cli.main", "build", "--board", "linux", *BUILD)
        run(*command, "--scheduler", "checkpoint-all", "--out", str(project))
        program = folder / "step"
        side_by_side(project, given.kernels, program, given.rounds, given.fma, given.threads)
        if given.a72:
            on_a72(project, given.kernels, folder, given.fma)
    return 0


if __name__ == "__main__":
    sys.exit(main())
