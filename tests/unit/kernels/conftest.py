# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels for this computer and runs one the way generated code would call it."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiling import compile_each
from poetfw.boards import Arithmetic
from poetfw.firmware.project import kernel_files
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops import KINDS, Array, Constants, Kernel, infer_output
from poetfw.ops.base import Field, TileTable

TEMPLATES = Path(__file__).parents[3] / "firmware_templates"
KERNELS = TEMPLATES / "kernels"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror")
SEMANTICS = ("-std=c11", "-ffp-contract=off", "-fno-math-errno")
INCLUDES = (f"-I{KERNELS}", f"-I{TEMPLATES / 'runtime'}")
SANITIZE = os.environ.get("POETFW_TEST_SANITIZE") == "1"
if SANITIZE:
    os.environ.pop("LD_PRELOAD")  # the sanitizer's: compilers do without
GUARD_BYTES = 64


@dataclass(frozen=True)
class Ran:
    """What a kernel left behind, and the reference's answer to the same call in float64.

    `bounds` says how far the output, if there is one, and then the updates may lie from that.
    """

    output: Array | None
    updates: tuple[Array, ...]
    expected_output: Array | None
    expected_updates: tuple[Array, ...]
    bounds: tuple[Array, ...]

    @property
    def results(self) -> tuple[Array, ...]:
        return self.updates if self.output is None else (self.output, *self.updates)

    @property
    def expected(self) -> tuple[Array, ...]:
        if self.expected_output is None:
            return self.expected_updates
        return (self.expected_output, *self.expected_updates)


Run = Callable[..., Ran]
_POINTERS = {str: "function", tuple: "const float *"}
_C_TYPES = {float: "float", int: "int32_t", **_POINTERS}
_TILES = "const struct poet_tiles *"


WITHOUT_FPU = "-DPOET_SOFT_FLOAT"


SCALAR = "-DPOET_SCALAR"
NARROW = "-D__builtin_cpu_supports(feature)=0"
"""For vectors that every computer of this one's kind has."""


@cache
def _depends_on_the_core(path: Path) -> bool:
    """True if a source includes what says of the core if it has an FPU or vectors."""
    included = re.findall(r'#include "(\w+\.h)"', path.read_text())
    headers = [path.parent / name for name in included if (path.parent / name).exists()]
    return any(h.name in ("fpu.h", "vectors.h") or _depends_on_the_core(h) for h in headers)


def compile_kernels(
    folder: Path,
    *flags: str,
    dot: str = "dot.c",
    compiler: str = "gcc",
    only: tuple[str, ...] = ("",),
    beside: Path | None = None,
) -> ctypes.CDLL:
    """All kernels, or those that begin so, with one of the two files that sum without an FPU.

    Where there is a folder `beside`, what does not know of these files is taken from there.
    """
    kernels = [path for path in sorted(KERNELS.glob("*.c")) if not path.name.startswith("dot")]
    kernels = [path for path in kernels if path.name.startswith(only)]
    sources = [*kernels, KERNELS / dot, TEMPLATES / "runtime" / "poet_math.c"]
    library = folder / "kernels.so"
    options = ["-fPIC", *SEMANTICS, *WARNINGS, *INCLUDES, *flags]
    own = [
        path
        for path in sources
        if beside is None or path.name.startswith("dot") or _depends_on_the_core(path)
    ]
    objects = compile_each([compiler, *options], own, folder)
    if beside is not None:
        objects += [str(beside / f"{path.stem}.o") for path in sources if path not in own]
    subprocess.run([compiler, "-shared", *options, "-o", str(library), *objects], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def run_fused(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Array]:
    """Runs a kernel of arithmetic class "fma", and gives what it puts out."""
    if platform.machine() == "x86_64" and "fma" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this computer does not multiply and add in one instruction")
    fused = ("-include", str(KERNELS / "fma/product.h"))
    sums = ("conv2d", "linear", "matmul", "panel", "update", "dot.c")
    library = compile_kernels(tmp_path_factory.mktemp("fused"), "-O0", *fused, only=sums)

    def run(
        kind: str, inputs: Sequence[Array], attributes: Mapping[str, Attribute] | None = None
    ) -> Array:
        op, graph = graph_of_one(kind, inputs, attributes or {}, ())
        kernel = KINDS[kind].kernel(op, graph)
        (left,) = call(library, kernel, op, graph, inputs, (), prefill=0xA5)
        output = np.frombuffer(left, np.float32).reshape(graph.by_name["out"].shape)
        doubles = [_double(value) for value in inputs]
        expected = KINDS[kind].compute(op, doubles, [])
        bounds = KINDS[kind].error_bounds(op, doubles, [])
        _check_bounds(kind, Ran(output, (), expected, (), bounds))
        return output

    return run


@dataclass(frozen=True)
class Libraries:
    """The kernels, as compiled for this computer and for cores without vectors and without an FPU.

    Bits must not depend on the compiler and its optimisation level, nor on what the core has.
    """

    optimised: ctypes.CDLL
    plain: ctypes.CDLL
    narrow: ctypes.CDLL
    without_fpu: ctypes.CDLL
    fused: ctypes.CDLL


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    optimised = tmp_path_factory.mktemp("optimised")

    def compiled(
        *flags: str, folder: Path | None = None, compiler: str = "gcc", **how: Any
    ) -> ctypes.CDLL:
        if SANITIZE:
            checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
            kept = (flag for flag in flags if flag.startswith("-D"))
            flags, compiler = ("-O0", "-g1", *checks, *kept), "gcc"
            how["beside"] = None if folder else optimised
        folder = folder or tmp_path_factory.mktemp("kernels")
        return compile_kernels(folder, *flags, compiler=compiler, **how)

    return Libraries(
        compiled("-O2", folder=optimised),
        compiled("-O0", SCALAR),
        compiled("-O3", NARROW, compiler="clang" if shutil.which("clang") else "gcc"),
        compiled("-O2", WITHOUT_FPU, beside=optimised),
        compiled("-O2", WITHOUT_FPU, dot="dot_fused.c", beside=optimised),
    )


@pytest.fixture(scope="session")
def run_kernel(libraries: Libraries) -> Run:
    def run(
        kind: str,
        inputs: Sequence[Array],
        attributes: Mapping[str, Attribute] | None = None,
        updates: Sequence[Array] = (),
    ) -> Ran:
        op, graph = graph_of_one(kind, inputs, attributes or {}, updates)
        kernel = KINDS[kind].kernel(op, graph)
        _check_against_header(kernel)
        first = call(libraries.optimised, kernel, op, graph, inputs, updates, prefill=0xA5)
        second = call(libraries.plain, kernel, op, graph, inputs, updates, prefill=0x5A)
        assert first == second, f"{kernel.function}: bits depend on build or on old contents"
        narrow = call(libraries.narrow, kernel, op, graph, inputs, updates, prefill=0x5A)
        assert first == narrow, f"{kernel.function}: other bits with narrow vectors"
        for position in KINDS[kind].in_place:
            if position < len(inputs) and inputs[position].nbytes == len(first[0]):
                over = op.inputs[position]
                again = call(libraries.optimised, kernel, op, graph, inputs, updates, 0, over=over)
                assert first == again, f"{kernel.function}: another result when written over {over}"
        exact = [value.astype(np.float64) for value in updates]
        bounds = KINDS[kind].error_bounds(op, [_double(value) for value in inputs], exact)
        expected = KINDS[kind].compute(op, [_double(value) for value in inputs], exact)

        def ran(results: Sequence[bytes]) -> Ran:
            left = [np.frombuffer(data, np.float32) for data in results]
            output = None
            if op.output is not None:
                made = graph.by_name[op.output]
                typed = left[0].view(np.int32) if made.dtype is Dtype.I32 else left[0]
                output = typed.reshape(made.shape)
            updated = left if op.output is None else left[1:]
            new = tuple(v.reshape(old.shape) for v, old in zip(updated, updates, strict=True))
            return Ran(output, new, expected, tuple(exact), bounds)

        _check_bounds(kind, ran(first))
        if '"dot.h"' in (KERNELS / f"{kernel.source}.c").read_text():
            without = call(libraries.without_fpu, kernel, op, graph, inputs, updates, 0xA5)
            assert first == without, f"{kernel.function}: other bits without an FPU"
            fused = call(libraries.fused, kernel, op, graph, inputs, updates, prefill=0xA5)
            _check_bounds(kind, ran(fused))
        return ran(first)

    return run


def _check_bounds(kind: str, ran: Ran) -> None:
    """A right kernel keeps to its operator's bound, whatever the inputs."""
    for result, expected, bound in zip(ran.results, ran.expected, ran.bounds, strict=True):
        assert bound.shape == result.shape, kind
        error = np.abs(result.astype(np.float64) - expected)
        finite = np.isfinite(expected) & (np.abs(expected) + bound < np.finfo(np.float32).max)
        assert (error[finite] <= bound[finite]).all(), f"{kind}: beyond its error bound"


def _double(value: Array) -> Array:
    return value.astype(np.float64) if value.dtype == np.float32 else value


def graph_of_one(
    kind: str,
    inputs: Sequence[Array],
    attributes: Mapping[str, Attribute],
    updates: Sequence[Array],
) -> tuple[Op, Graph]:
    tensors = [
        Tensor(f"in{i}", v.shape, Dtype.I32 if v.dtype == np.int32 else Dtype.F32, Role.INPUT)
        for i, v in enumerate(inputs)
    ]
    states = [Tensor(f"state{i}", v.shape, role=Role.STATE) for i, v in enumerate(updates)]
    names = tuple(tensor.name for tensor in tensors)
    updated = tuple(tensor.name for tensor in states)
    output: str | None = None if updates and kind != "pace" else "out"
    op = Op("op", kind, names, output, attributes, updated)
    produced = infer_output(op, tensors, Role.ACTIVATION)
    every = (*tensors, *states) if produced is None else (*tensors, *states, produced)
    return op, Graph("one op", every, (op,), output or (*names, *updated)[0])


def _check_against_header(kernel: Kernel) -> None:
    """A binding must list its struct's fields in order, and as many arguments as the C function."""
    header = (KERNELS / f"{kernel.source}.h").read_text()
    structs = [] if kernel.struct is None else [(kernel.source, kernel.struct, kernel.fields)]
    structs += [
        (a.sources[0], a.struct, a.fields) for a in kernel.arguments if isinstance(a, Constants)
    ]
    for source, struct, fields in structs:
        assert f"struct {struct} {{" in _headers(source), struct
        assert _members(struct) == [(_C_TYPES.get(type(v), _TILES), name) for name, v in fields], (
            struct
        )
    prototype = re.search(rf"void {kernel.function}\((.*?)\);", header, re.DOTALL)
    assert prototype is not None, kernel.function
    given = len(kernel.arguments) + (kernel.struct is not None) + (kernel.workspace_bytes > 0)
    assert len(prototype[1].split(",")) == given


@cache
def _headers(source: str) -> str:
    """A kernel's header and those that come with it."""
    files = kernel_files([source], Arithmetic.SEPARATE)
    return "".join(path.read_text() for path in files if path.suffix == ".h")


@cache
def _members(struct: str) -> list[tuple[str, str]]:
    """Type and name of each number in a struct, those of the structs it holds included."""
    headers = "".join(path.read_text() for path in sorted(KERNELS.glob("*.h")))
    body = re.search(rf"struct {struct} {{(.*?)}};", headers, re.DOTALL)
    assert body is not None, struct
    members = []
    pointer = r"const (?:float|struct poet_tiles) \*|poet_\w+_f32 \*"
    pattern = rf"(?:struct (\w+) |(int32_t|float|{pointer}) ?)(\w+);"
    for inner, plain, name in re.findall(pattern, body[1]):
        within = [(kind, f"{name}.{part}") for kind, part in _members(inner)] if inner else []
        is_function = plain.startswith("poet_")
        members += within or [("function" if is_function else plain, name)]
    return members


class _Buffer:
    """Bytes at the address a kernel is given, with guards that it must leave alone around them.

    An input's guards are NaNs, so that reading one shows in the output; those of a written buffer
    are an ordinary number, so that writing a NaN shows too. Under the address sanitizer there are
    no guards: its own red zones catch reads as well.
    """

    def __init__(self, content: bytes, *, written: bool) -> None:
        self._guard = b"" if SANITIZE else GUARD_BYTES * (b"\x3c" if written else b"\xff")
        self._bytes = np.frombuffer(self._guard + content + self._guard, np.uint8).copy()

    @property
    def address(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._bytes.ctypes.data + len(self._guard))

    def content(self) -> bytes:
        data = self._bytes.tobytes()
        first, end = len(self._guard), len(data) - len(self._guard)
        assert data[:first] == data[end:] == self._guard, "a kernel wrote beyond its buffer"
        return data[first:end]


def _constants(library: ctypes.CDLL, fields: Sequence[tuple[str, Field]]) -> ctypes.Structure:
    """A struct of constants; a function in it is the library's, and a dot a struct in it."""
    members: dict[str, Any] = {}
    for outer, group in groupby(fields, key=lambda member: member[0].partition(".")[0]):
        inner = [(name.partition(".")[2], value) for name, value in group]
        ((name, value),) = inner[:1]
        if name:
            members[outer] = _constants(library, inner)
        elif isinstance(value, tuple):
            table = (ctypes.c_float * len(value))(*value)
            members[outer] = ctypes.cast(table, ctypes.c_void_p)
        elif isinstance(value, str):
            members[outer] = ctypes.cast(library[value], ctypes.c_void_p)
        elif value is None or isinstance(value, TileTable):  # this computer runs none
            members[outer] = ctypes.c_void_p()
        else:
            members[outer] = (ctypes.c_float if isinstance(value, float) else ctypes.c_int32)(value)
    types = [(name, type(value)) for name, value in members.items()]
    return type("Constants", (ctypes.Structure,), {"_fields_": types})(*members.values())


def call(
    library: ctypes.CDLL,
    kernel: Kernel,
    op: Op,
    graph: Graph,
    inputs: Sequence[Array],
    updates: Sequence[Array],
    prefill: int,
    over: str | None = None,
) -> list[bytes]:
    """Run the kernel; returns the output's bytes, if there is one, and the updated ones'.

    With `over`, the output is written over that input.
    """
    before = {name: v.tobytes() for name, v in zip(op.inputs, inputs, strict=True)}
    before |= {name: v.tobytes() for name, v in zip(op.updates, updates, strict=True)}
    if op.output is not None:
        before[op.output] = bytes([prefill]) * graph.by_name[op.output].size_bytes
    written = op.updates if op.output is None else (op.output, *op.updates)
    buffers = {
        name: _Buffer(data, written=name in (*written, over)) for name, data in before.items()
    }
    if over is not None:
        assert op.output is not None
        buffers[op.output] = buffers[over]
    arguments: list[Any] = [
        buffers[argument].address
        if isinstance(argument, str)
        else ctypes.byref(_constants(library, argument.fields))
        if isinstance(argument, Constants)
        else argument
        for argument in kernel.arguments
    ]
    if kernel.struct is not None:
        arguments.insert(0, ctypes.byref(_constants(library, kernel.fields)))
    workspace = _Buffer(bytes([prefill]) * kernel.workspace_bytes, written=True)
    if kernel.workspace_bytes:
        arguments.append(workspace.address)
    function = library[kernel.function]
    function.restype = None
    function(*arguments)
    for name in (name for name in op.inputs if name != over):
        assert buffers[name].content() == before[name], f"{kernel.function} changed input {name}"
    workspace.content()
    return [buffers[name].content() for name in written]
