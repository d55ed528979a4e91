# SPDX-License-Identifier: Apache-2.0
"""The compiler of a board: a board file's texts become flags through an allow-list only."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from poetfw.resources import firmware_templates_dir


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler, and what it must be told of a processor.

    Attributes:
        compiler: the program, whose name ends in gcc.
        machine_flags: what names the processor, for compiling as for linking.
        hosted: whether programs run under an operating system, with its C library.
        packages: what to install on Debian or Ubuntu.
        shared_hal: the HAL family that all its boards share, or None.
        fast_fma: whether its cores multiply and add as fast in one instruction as they multiply.
    """

    compiler: str
    machine_flags: tuple[str, ...]
    hosted: bool
    packages: str
    shared_hal: str | None
    fast_fma: bool

    @property
    def soft_float(self) -> bool:
        """Whether floating-point numbers are calculated by functions: how fast, depends on them."""
        return "-mfloat-abi=soft" in self.machine_flags

    @property
    def prefix(self) -> str:
        """What its other tools begin with, such as `arm-none-eabi-`."""
        return self.compiler.removesuffix("gcc")


def make_toolchain(
    compiler: str, core: str | None, float_abi: str | None, fpu: str | None, flags: Sequence[str]
) -> Toolchain:
    """A toolchain from the texts of a board file, each of which must be in `toolchains.toml`.

    Args:
        compiler: the program.
        core: what follows -mcpu=; None where the compiler has no choice of cores.
        float_abi: what follows -mfloat-abi=; None for the compiler's own choice.
        fpu: what follows -mfpu=; None for the compiler's own choice.
        flags: further flags.

    Raises:
        ValueError: a text is not allowed, or the core is missing.
    """
    known = _allowed()
    entry = known[_one_of("compiler", compiler, known)]
    if core is None and "cores" in entry:
        raise ValueError(f"core is missing: it must be one of {', '.join(entry['cores'])}")
    if float_abi in ("softfp", "hard") and fpu is None:
        raise ValueError(f"fpu is missing, which float_abi {float_abi!r} needs")
    machine_flags = []
    if core is not None:
        machine_flags.append("-mcpu=" + _one_of("core", core, entry.get("cores", ())))
    machine_flags += [_one_of("flags", flag, entry["flags"]) for flag in flags]
    if float_abi is not None:
        abis = entry.get("float_abis", ())
        machine_flags.append("-mfloat-abi=" + _one_of("float_abi", float_abi, abis))
    if fpu is not None:
        machine_flags.append("-mfpu=" + _one_of("fpu", fpu, entry.get("fpus", ())))
    return Toolchain(
        compiler,
        tuple(machine_flags),
        entry["hosted"],
        entry["packages"],
        entry.get("shared_hal"),
        entry["fast_fma"],
    )


def _one_of(key: str, text: str, allowed: Sequence[str] | MappingProxyType[str, Any]) -> str:
    for known in allowed:
        if text == known:
            return known
    choice = f"must be one of {', '.join(allowed)}" if allowed else "is nothing this compiler takes"
    raise ValueError(f"{key} {choice}, not {text!r:.60}")


@cache
def _allowed() -> MappingProxyType[str, Any]:
    path = firmware_templates_dir() / "toolchains.toml"
    return MappingProxyType(tomllib.loads(path.read_text()))
