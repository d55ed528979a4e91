# SPDX-License-Identifier: Apache-2.0
"""The kernels' executed instructions and estimated cycles, beside the goals and the peers' figures.

Builds a firmware of the project's own kernels for a Cortex-M4F and a Cortex-M0+, runs it on their
emulated machines with a plugin that counts, and prints a table. Run it with

    python benchmarks/kernels.py [--record] [--compare FILE] [--only TEXT] [--survey]

The kept figures are those of benchmarks/kernels.json, which --record writes. With --survey, ops of
many shapes are run on the Cortex-M4F, and those listed that miss 1.5 times the goals.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
from kernel_bench.cases import CASES, Call, Case, missing_kinds, surveyed

from poetfw.boards import Board, Machine, load_board
from poetfw.common.resources import firmware_templates_dir
from poetfw.firmware.lower import ConstantTable
from poetfw.firmware.project import kernel_files, template_environment
from poetfw.ir import Dtype, Tensor
from poetfw.ops import KINDS, Kernel
from poetfw.tools import emulator_of

HERE = Path(__file__).parent
BENCH = HERE / "kernel_bench"
KEPT = HERE / "kernels.json"
PUBLISHED = HERE / "published/kernels.toml"
TEMPLATES = firmware_templates_dir()

TOLERANCE = 0.03
"""A kernel may take so much more than the kept figure says before it counts as worse."""

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
    """What running a case once took.

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


class BenchError(Exception):
    """The benchmark could not be built or run."""


def measure(board_name: str, cases: Sequence[Case], folder: Path) -> Results:
    """Run cases on a board's emulated machine; results by the cases' keys.

    Raises:
        BenchError: a tool failed.
    """
    board = load_board(board_name)
    machine = board.twin("qemu").machine
    elf = _firmware(board, machine, cases, folder)
    plugin = folder / "plugin.so"
    _run("gcc", *PLUGIN_COMPILE, "-o", str(plugin), str(BENCH / "plugin.c"))
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
    """Which cases of both take more instructions now than they may, and by how much."""
    return [
        f"{key}: {one.instructions:,} instructions, "
        f"{one.instructions / kept[key].instructions - 1:+.1%} of the kept "
        f"{kept[key].instructions:,}"
        for key, one in now.items()
        if key in kept and one.instructions > kept[key].instructions * (1 + TOLERANCE)
    ]


def changed(kept: Mapping[str, Measured], now: Mapping[str, Measured]) -> list[str]:
    """Which cases of both leave other bits now."""
    return [key for key, one in now.items() if key in kept and one.crc32 != kept[key].crc32]


def load(path: Path = KEPT) -> tuple[str, dict[str, Results]]:
    """The compiler and the figures in a file that `--record` wrote."""
    document = json.loads(path.read_text())
    results = {
        board: {key: Measured(**one) for key, one in entry["cases"].items()}
        for board, entry in document["boards"].items()
    }
    return document["compiler"], results


def text_of(document: Mapping[str, object]) -> str:
    """JSON with one case a line."""
    spread = json.dumps(document, indent=1) + "\n"
    return re.sub(r'\{\s+"instructions"[^}]*\}', lambda case: " ".join(case[0].split()), spread)


def _includes(hal: str) -> list[str]:
    folders = ("kernels", "runtime", "storage", "hal", "hal/cortex_m", f"hal/{hal}")
    return [f"-I{BENCH}", *(f"-I{TEMPLATES / folder}" for folder in folders)]


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


def _firmware(board: Board, machine: Machine, cases: Sequence[Case], folder: Path) -> Path:
    hal = str(machine.hal)
    text, arena_bytes = _cases_header(cases)
    (folder / "cases.h").write_text(text)
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
        BENCH / "main.c",
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
        TEMPLATES / "hal/cortex_m/startup.c",
        *(TEMPLATES / f"hal/{hal}/{name}" for name in ("board.c", "guard.c")),
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


def _cases_header(cases: Sequence[Case]) -> tuple[str, int]:
    """cases.h, and how large an arena it needs."""
    views = []
    constants = ConstantTable()
    arena_bytes = 8
    for case in cases:
        ops = []
        for call in case.calls:
            op, used, result = _op_view(call, constants)
            arena_bytes = max(arena_bytes, used)
            ops.append(op)
        views.append({"name": case.key, "ops": ops, "result": result})
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(BENCH),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    sources = sorted({s for view in views for op in view["ops"] for s in op.kernel.sources})
    text = environment.get_template("cases.h.j2").render(
        cases=views, sources=sources, constants=constants.views()
    )
    return text, arena_bytes


def _op_view(call: Call, constants: ConstantTable) -> tuple[_Op, int, tuple[int, int]]:
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


def _fill(call: Call, inputs: Sequence[str], tensor: Tensor, offset: int) -> str:
    count = math.prod(tensor.shape)
    position = inputs.index(tensor.name) if tensor.name in inputs else -1
    if tensor.dtype is Dtype.I32:
        return f"fill_labels({offset}u, {count}u, {call.classes}u)"
    kind = "positive" if position in call.positive else "signed"
    return f"fill_{kind}({offset}u, {count}u)"


def _peer(published: Mapping[str, Any], path: str) -> tuple[float, str] | None:
    """The fewest instructions of a public library, and which that is."""
    if not path:
        return None
    found: Any = published
    for part in path.split("."):
        found = found[part]
    public = {name: value for name, value in found.items() if not name.startswith("prototype")}
    name = min(public, key=lambda one: float(_least(public[one])))
    return float(_least(public[name])), name


def _least(value: float | Sequence[float]) -> float:
    return min(value) if isinstance(value, Sequence) else value


def table(
    cases: Sequence[Case], now: Mapping[str, Measured], before: Mapping[str, Measured]
) -> Iterator[str]:
    """Lines of a Markdown table: instructions and estimated cycles per unit of work."""
    published = tomllib.loads(PUBLISHED.read_text())
    yield "| kernel | pass | per | before | now | goal | peer | stack |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for case in cases:
        if case.key not in now:
            continue
        one = now[case.key]
        old = before.get(case.key)
        peer = _peer(published, case.peers)
        goal = case.goal
        columns = (
            case.name,
            case.part,
            case.unit,
            "" if old is None else _per(case, old),
            _per(case, one),
            ""
            if goal is None
            else f"{goal.instructions:.3g}"
            + ("" if goal.cycles is None else f" / {goal.cycles:.3g}"),
            "" if peer is None else f"{peer[0]:.3g} {peer[1]}",
            str(one.stack_bytes),
        )
        yield f"| {' | '.join(columns)} |"


def _per(case: Case, one: Measured) -> str:
    return f"{one.instructions / case.work:.2f} / {one.cycles / case.work:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="keep the figures")
    parser.add_argument("--compare", type=Path, default=KEPT, help="figures to compare with")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--survey", action="store_true", help="which of many shapes miss the goals")
    arguments = parser.parse_args()
    if arguments.record and (arguments.only or arguments.survey):
        parser.error("--record keeps the figures of all cases: leave out --only and --survey")
    known = list(surveyed() if arguments.survey else chain.from_iterable(CASES.values()))
    if not any(arguments.only in case.key for case in known):
        parser.error(f"--only {arguments.only!r}: no such case; there is {known[0].name!r}")
    try:
        if arguments.survey:
            return survey(arguments.only)
        return run(arguments.record, arguments.compare, arguments.only)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 3


def survey(only: str) -> int:
    """Print which of many shapes take more than their goals on the Cortex-M4F."""
    cases = [case for case in surveyed() if only in case.key]
    with tempfile.TemporaryDirectory(prefix="poetfw-kernels-") as folder:
        now = measure("nrf52840", cases, Path(folder)) if cases else {}
    outside = [case for case in cases if misses(case, now[case.key])]
    print("\n".join(table(outside, now, {})))
    print(f"\n{len(outside)} of {len(cases)} are outside")
    return 0


def misses(case: Case, one: Measured) -> bool:
    goal = case.goal
    return goal is not None and (
        one.instructions > goal.instructions * case.work
        or (goal.cycles is not None and one.cycles > goal.cycles * case.work)
    )


def run(record: bool, compare: Path, only: str) -> int:
    """Measure and print; 1 if a kernel is worse, or leaves other bits, than what is compared."""
    before = load(compare)[1] if compare.exists() else {}
    boards = {}
    lines = []
    for name, every in CASES.items():
        cases = [case for case in every if only in case.key]
        with tempfile.TemporaryDirectory(prefix="poetfw-kernels-") as folder:
            now = measure(name, cases, Path(folder)) if cases else {}
            sizes = code_bytes(name, Path(folder))
        print(f"\n{name}: executed instructions / estimated cycles\n")
        print("\n".join(table(cases, now, before.get(name, {}))))
        print(f"\ncode: {', '.join(f'{source} {size:,}' for source, size in sizes.items())} B")
        lines += [f"worse: {name}: {line}" for line in worse(before.get(name, {}), now)]
        lines += [f"other bits: {name}: {key}" for key in changed(before.get(name, {}), now)]
        boards[name] = {
            "code_bytes": sizes,
            "cases": {key: asdict(one) for key, one in now.items()},
        }
    print(f"\nnot measured: {', '.join(missing_kinds())}")
    print("\n".join(lines))
    if record:
        document = {"compiler": compiler_version("nrf52840"), "boards": boards}
        KEPT.write_text(text_of(document))
        return 0
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
