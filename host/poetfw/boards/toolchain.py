# SPDX-License-Identifier: Apache-2.0
"""Compiler of a board; texts of a board file become flags through an allow-list only."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from poetfw.common.resources import firmware_templates_dir


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler and its flags for a processor.

    Attributes:
        compiler: name of the program, which ends in gcc.
        machine_flags: flags that name the processor, for compiling and linking.
        hosted: True if programs run under an operating system, with its C library.
        packages: packages to install on Debian or Ubuntu.
        shared_hal: HAL family that all boards of this compiler share, or None.
        fast_fma: True if a fused multiply-add is as fast as a multiplication.
        runs_tiles: True for a core that `poetfw.kernels` generates tiles for.
    """

    compiler: str
    machine_flags: tuple[str, ...]
    hosted: bool
    packages: str
    shared_hal: str | None
    fast_fma: bool
    runs_tiles: bool

    @property
    def soft_float(self) -> bool:
        """True if floating-point arithmetic is done by functions of a library."""
        return "-mfloat-abi=soft" in self.machine_flags

    @property
    def prefix(self) -> str:
        """Prefix of the names of the compiler's tools, such as `arm-none-eabi-`."""
        return self.compiler.removesuffix("gcc")


def make_toolchain(
    compiler: str, core: str | None, float_abi: str | None, fpu: str | None, flags: Sequence[str]
) -> Toolchain:
    """Create a toolchain from texts of a board file, which must be listed in `toolchains.toml`.

    Args:
        compiler: name of the program.
        core: value of -mcpu; None if the compiler has no choice of cores.
        float_abi: value of -mfloat-abi; None for the compiler's default.
        fpu: value of -mfpu; None for the compiler's default.
        flags: further flags.

    Raises:
        ValueError: A text is not allowed, or the core is missing.
    """
    known = _allowed()
    entry = known.get(compiler)
    if entry is None:
        raise ValueError(_choice("compiler", compiler, known))
    given = [("core", "-mcpu=", core, entry.get("cores", ()))]
    given += [("flags", "", flag, entry["flags"]) for flag in flags]
    given += [
        ("float_abi", "-mfloat-abi=", float_abi, entry.get("float_abis", ())),
        ("fpu", "-mfpu=", fpu, entry.get("fpus", ())),
    ]
    flaws = [
        _choice(key, text, allowed)
        for key, _, text, allowed in given
        if text is not None and text not in allowed
    ]
    if core is None and "cores" in entry:
        flaws.append(f"core is missing: it must be one of {', '.join(entry['cores'])}")
    if float_abi in ("softfp", "hard") and fpu is None:
        flaws.append(f"fpu is missing, which float_abi {float_abi!r} needs")
    if flaws:
        raise ValueError("; ".join(flaws))
    return Toolchain(
        compiler,
        tuple(option + text for _, option, text, _ in given if text is not None),
        entry["hosted"],
        entry["packages"],
        entry.get("shared_hal"),
        entry["fast_fma"],
        core in entry.get("tile_cores", ()) and fpu is not None,
    )


def _choice(key: str, text: str, allowed: Iterable[str]) -> str:
    choice = ", ".join(allowed)
    must = f"must be one of {choice}" if choice else "is nothing this compiler takes"
    return f"{key} {must}, not {text!r:.60}"


@cache
def _allowed() -> MappingProxyType[str, Any]:
    path = firmware_templates_dir() / "toolchains.toml"
    return MappingProxyType(tomllib.loads(path.read_text()))
