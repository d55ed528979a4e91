# SPDX-License-Identifier: Apache-2.0
"""Executed instructions and estimated cycles of kernels, counted on emulated machines.

A firmware of the project's own kernels runs on a board's emulated machine, with a plugin that
counts. Kept figures are in `figures.json`, which `benchmarks/kernels.py --record` writes.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import jinja2

from poetfw import ir
from poetfw.boards import Board, Machine, load_board
from poetfw.common.resources import firmware_templates_dir
from poetfw.costs.features import case_tiles
from poetfw.firmware.project import kernel_files, render_blocks, template_environment
from poetfw.firmware.tensor_names import ConstantTable
from poetfw.ir import Dtype, Tensor
from poetfw.ops import KINDS, Kernel
from poetfw.tools import emulator_of
from workloads.kernels.cases import Case

HERE = Path(__file__).parent
FIRMWARE = HERE / "firmware"
KEPT = HERE / "figures.json"
REPLACED = HERE / "replaced.txt"
TEMPLATES = firmware_templates_dir()

TOLERANCE = 0.03
"""A kernel may take so much more than the kept figure says before it counts as worse."""

MOST_RATIO, FEW_CYCLES = 1.1, 500
"""A pass is slower than the kernel that it replaced from this ratio and so many cycles on."""

RAM_BYTES = {"mps2": 4 << 20, "lm3s6965": 64 << 10}
FLASH_BYTES = {"mps2": 4 << 20, "lm3s6965": 256 << 10}
STACK_BYTES = 4096
TIMEOUT_S = 600

# As a project's, in platformio.ini.
COMPILE = (
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing"),
    *("-ffunction-sections", "-fdata-sections", "-ffreestanding", "-nostdlib", "-Wl,--gc-sections"),
)
PLUGIN_COMPILE = ("-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")


@dataclass(frozen=True, slots=True)
class Measured:
    """Counts of one run of a case.

    Attributes:
        instructions: executed, the call's own among them.
        cycles: estimated.
        stack_bytes: most in use.
        crc32: of the bits of the last op's result, in hexadecimal.
    """

    instructions: int
    cycles: int
    stack_bytes: int
    crc32: str


Results = dict[str, Measured]


class Op(Protocol):
    """One op to run; see `workloads.kernels.cases.Call`."""

    @property
    def kind(self) -> str:
        """Of the op."""

    @property
    def positive(self) -> tuple[int, ...]:
        """Positions of inputs that hold positive numbers."""

    @property
    def fields(self) -> tuple[int, int]:
        """Bits of each number in a word of an integer input, and what the numbers are below."""

    def graph(self) -> tuple[ir.Op, ir.Graph]:
        """The op, alone in a graph."""


class Ops(Protocol):
    """Ops that are measured together; see `workloads.kernels.cases.Case`."""

    @property
    def key(self) -> str:
        """Name of the result."""

    @property
    def calls(self) -> Sequence[Op]:
        """They run one after the other."""


class BenchError(Exception):
    """The benchmark could not be built or run."""


def measure(board_name: str, cases: Sequence[Ops], folder: Path) -> Results:
    """Run cases on a board's emulated machine; results by the cases' keys.

    Raises:
        BenchError: a tool failed.
    """
    board = load_board(board_name)
    machine = board.twin("qemu").machine
    elf = _firmware(board, machine, cases, folder)
    plugin = folder / "plugin.so"
    _run("gcc", *PLUGIN_COMPILE, "-o", str(plugin), str(FIRMWARE / "plugin.c"))
    # Without a storage image, and at full speed: nothing here reads a clock.
    bare = replace(machine, options=("semihosting",))
    small = "on" if board.toolchain.machine_flags[0].startswith("-mcpu=cortex-m0") else "off"
    command = emulator_of(bare).command(bare, elf)
    ran = _run(*command, "-plugin", f"{plugin},m0={small}", cwd=folder)
    counted = [line.split()[1:] for line in ran.stderr.splitlines() if line.startswith("measured ")]
    printed = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("case ")]
    if len(printed) != len(cases) or len(counted) != len(cases) + 1:
        raise BenchError(f"the firmware stopped after {len(printed)} cases: {ran.stdout[-500:]}")
    return {
        case.key: Measured(int(instructions), int(cycles), int(stack), crc)
        for case, (instructions, cycles), (stack, crc) in zip(
            cases, counted[1:], printed, strict=True
        )
    }


def code_bytes(board_name: str, folder: Path) -> dict[str, int]:
    """Bytes of code and constants of each of the kernels' files, all its functions together."""
    toolchain = load_board(board_name).toolchain
    sizes: Counter[str] = Counter()
    for source in sorted((TEMPLATES / "kernels").glob("*.[cS]")):
        target = folder / f"{source.stem}.o"
        _run(
            *(toolchain.compiler, *COMPILE, *toolchain.machine_flags, *_includes("mps2")),
            *("-c", str(source), "-o", str(target)),
        )
        sized = _run(f"{toolchain.prefix}size", str(target)).stdout.splitlines()[1]
        sizes[source.stem.removesuffix("_asm")] += int(sized.split()[0])
    return sizes


def compiler_version(board_name: str) -> str:
    """The first line of what a board's compiler says of itself."""
    return _run(load_board(board_name).toolchain.compiler, "--version").stdout.splitlines()[0]


def worse(kept: Mapping[str, Measured], now: Mapping[str, Measured]) -> list[str]:
    """Cases of both that take more instructions now than they may, and by how much."""
    return [
        f"{key}: {one.instructions:,} instructions, "
        f"{one.instructions / kept[key].instructions - 1:+.1%} of the kept "
        f"{kept[key].instructions:,}"
        for key, one in now.items()
        if key in kept and one.instructions > kept[key].instructions * (1 + TOLERANCE)
    ]


def changed(kept: Mapping[str, Measured], now: Mapping[str, Measured]) -> list[str]:
    """Cases of both that leave other bits now."""
    return [key for key, one in now.items() if key in kept and one.crc32 != kept[key].crc32]


def load(path: Path = KEPT) -> tuple[str, dict[str, Results]]:
    """The compiler and the figures in a file that `--record` wrote."""
    document = json.loads(path.read_text())
    results = {
        board: {key: Measured(**one) for key, one in entry.items()}
        for board, entry in document["boards"].items()
    }
    return document["compiler"], results


def replaced(path: Path = REPLACED) -> dict[str, tuple[int, str]]:
    """Cycles and CRC-32 of each case of hand-written kernels, by the case's key."""
    lines = (line.split(maxsplit=2) for line in path.read_text().splitlines() if line[0] != "#")
    return {key: (int(cycles), crc) for cycles, crc, key in lines}


def family(key: str) -> str:
    """Kind of layer, kernel, stride and pass of a surveyed case."""
    kind, size = key.split()[:2]
    part = key.rpartition(", ")[2]
    if kind in ("dense", "matmul"):
        return f"{kind} {part}"
    return f"{kind} {size}" + (" stride 2" if "stride 2" in key else "")


def beside_replaced(before: Mapping[str, tuple[int, str]], now: Results) -> Iterator[str]:
    """Lines of a table by family: geometric mean and largest of the ratios of cycles.

    Behind it are the passes that take over a tenth more, and 500 cycles or more, and those with
    other bits.
    """
    ratios: dict[str, list[tuple[float, str]]] = {}
    for key in before.keys() & now.keys():
        ratios.setdefault(family(key), []).append((now[key].cycles / before[key][0], key))
    yield "| family | passes | cycles / replaced | largest | of |"
    yield "|---|--:|--:|--:|---|"
    for name, found in sorted(ratios.items()):
        mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        largest, key = max(found)
        yield f"| {name} | {len(found)} | {mean:.2f} | {largest:.2f} | {key} |"
    every = sorted((one for found in ratios.values() for one in found), reverse=True)
    for ratio, key in every:
        if ratio > MOST_RATIO and now[key].cycles >= FEW_CYCLES:
            yield f"slower: {ratio:.2f} {key}"
    for _, key in every:
        if now[key].crc32 != before[key][1]:
            yield f"other bits: {key}"


def text_of(document: Mapping[str, object]) -> str:
    """JSON with one case a line."""
    spread = json.dumps(document, indent=1) + "\n"
    return re.sub(r'\{\s+"instructions"[^}]*\}', lambda case: " ".join(case[0].split()), spread)


def _includes(hal: str) -> list[str]:
    folders = ("kernels", "runtime", "storage", "hal", "hal/cortex_m", f"hal/{hal}")
    return [f"-I{FIRMWARE}", *(f"-I{TEMPLATES / folder}" for folder in folders)]


def _run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        raise BenchError(f"{command[0]} failed: {error}\n{said[-2000:]}") from error


def _firmware(board: Board, machine: Machine, cases: Sequence[Ops], folder: Path) -> Path:
    hal = str(machine.hal)
    constants = ConstantTable(case_tiles(board))
    text, arena_bytes = _cases_header(cases, constants)
    (folder / "cases.h").write_text(text)
    blocks = folder / "blocks_asm.S"
    blocks.write_bytes(render_blocks("the measured cases", "0" * 8, constants.blocks()))
    script = folder / "bench.ld"
    template = template_environment().get_template(f"ld/{hal}.ld.j2")
    sizes = {"ram_bytes": RAM_BYTES[hal], "flash_bytes": FLASH_BYTES[hal]}
    script.write_text(template.render(stack_bytes=STACK_BYTES, **sizes))
    kernels = {
        source
        for case in cases
        for call in case.calls
        for source in KINDS[call.kind].kernel(*call.graph()).sources
    }
    sources = [
        FIRMWARE / "main.c",
        blocks,
        *(
            file
            for file in kernel_files(sorted(kernels), board.compute.arithmetic)
            if file.suffix != ".h"
        ),
        *(
            TEMPLATES / f"runtime/{name}"
            for name in ("console.c", "high_water.c", "poet_math.c", "poet_memory.c")
        ),
        *(TEMPLATES / "runtime").glob("soft_float*.[cS]"),
        TEMPLATES / "storage/crc32.c",
        TEMPLATES / "hal/cortex_m/stack.c",
        TEMPLATES / "hal/cortex_m/startup.c",
        *(TEMPLATES / f"hal/{hal}/{name}" for name in ("board.c", "guard.c", "output.c")),
    ]
    elf = folder / "bench.elf"
    _run(
        board.toolchain.compiler,
        *COMPILE,
        *board.toolchain.machine_flags,
        f"-I{folder}",
        *_includes(hal),
        *(f"-DPOET_{name.upper()}={size}u" for name, size in sizes.items()),
        f"-DBENCH_ARENA_BYTES={arena_bytes}u",
        *(str(source) for source in sources if source.exists()),
        *(f"-T{script}", "-lgcc", "-o", str(elf)),
    )
    return elf


@dataclass(frozen=True, slots=True)
class _Op:
    """One op of a case as the template sees it."""

    kernel: Kernel
    fills: Sequence[str]
    arguments: Sequence[str]


def _cases_header(cases: Sequence[Ops], constants: ConstantTable) -> tuple[str, int]:
    """cases.h, and how large an arena it needs."""
    views: list[dict[str, Any]] = []
    arena_bytes = 8
    for case in cases:
        ops = []
        for call in case.calls:
            op, used, result = _op_view(call, constants)
            arena_bytes = max(arena_bytes, used)
            ops.append(op)
        views.append({"name": case.key, "ops": ops, "result": result})
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FIRMWARE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    sources = sorted({s for view in views for op in view["ops"] for s in op.kernel.sources})
    text = environment.get_template("cases.h.j2").render(
        cases=views,
        sources=sources,
        constants=constants.views(),
        tiles=constants.tiles(),
        blocks=constants.blocks(),
    )
    return text, arena_bytes


def _op_view(call: Op, constants: ConstantTable) -> tuple[_Op, int, tuple[int, int]]:
    """An op's call, the bytes its tensors take, and offset and bytes of its result."""
    op, graph = call.graph()
    kernel = KINDS[call.kind].kernel(op, graph)
    offsets: dict[str, int] = {}
    fills = []
    used = 0
    for tensor in graph.tensors:
        offsets[tensor.name] = used
        if tensor.name in (*op.inputs, *op.updates):
            fills.append(_fill(call, op.inputs, tensor, used))
        used += -(-tensor.size_bytes // 8) * 8

    def address(name: str) -> str:
        integers = graph.by_name[name].dtype is Dtype.I32
        return f"{'INTEGERS' if integers else 'FLOATS'}({offsets[name]}u)"

    arguments = constants.arguments(op, kernel, address)
    if kernel.workspace_bytes:
        arguments.append(f"FLOATS({used}u)")
        used += -(-kernel.workspace_bytes // 8) * 8
    result = graph.by_name[op.output or op.updates[0]]
    written = (offsets[result.name], result.size_bytes)
    return _Op(kernel, fills, arguments), used, written


def _fill(call: Op, inputs: Sequence[str], tensor: Tensor, offset: int) -> str:
    count = math.prod(tensor.shape)
    position = inputs.index(tensor.name) if tensor.name in inputs else -1
    if tensor.dtype is Dtype.I32:
        bits, below = call.fields
        return f"fill_integers({offset}u, {count}u, {bits}u, {below}u)"
    kind = "positive" if position in call.positive else "signed"
    return f"fill_{kind}({offset}u, {count}u)"


def misses(case: Case, one: Measured) -> bool:
    """True where a case takes more than its goal."""
    goal = case.goal
    return goal is not None and (
        one.instructions > goal.instructions * case.work
        or (goal.cycles is not None and one.cycles > goal.cycles * case.work)
    )
