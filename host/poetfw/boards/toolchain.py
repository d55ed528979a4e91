# SPDX-License-Identifier: Apache-2.0
"""Toolchain of a board; texts of a board file become flags through an allow-list only."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from poetfw.common.resources import firmware_templates_dir

SYSTEM = "gcc"
"""Toolchain of a board that no other is chosen for."""

STOCK = "stock"
"""GCC of a board's stock PlatformIO platform, which PlatformIO installs."""

PROGRAMS = ("cc", "cxx", "ar", "ranlib", "objcopy")
"""Programs of a toolchain, by their key in `toolchains.toml`."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Programs that build for a processor, and their flags.

    Attributes:
        compiler: name of the GCC that board files call the target by.
        machine_flags: flags that name the processor, for compiling and linking.
        hosted: True if programs run under an operating system, with its C library.
        packages: packages to install on Debian or Ubuntu; empty for none.
        shared_hal: HAL family that all boards of this compiler share, or None.
        fast_fma: True if a fused multiply-add is as fast as a multiplication.
        runs_tiles: True for a core that `poetfw.kernels` generates tiles for.
        soft_float: True if floating-point arithmetic is done by functions of a library.
        name: name in `toolchains.toml`, or `stock`.
        commands: command of each program; PACKAGE:PROGRAM is in a Python package.
        link_flags: further flags for linking.
        libs: libraries to link with.
        size_flags: flags for sources that are compiled for size, where a pragma does not say it.
        hex_format: the objcopy's word for Intel HEX.
        install: what installs the toolchain, as a sentence with its condition first.
        links: False if it only compiles for this processor.
        asked: texts of the board file, from which the flags of any toolchain follow.
    """

    compiler: str
    machine_flags: tuple[str, ...]
    hosted: bool
    packages: str
    shared_hal: str | None
    fast_fma: bool
    runs_tiles: bool
    soft_float: bool
    name: str
    commands: Mapping[str, str] = field(hash=False)
    link_flags: tuple[str, ...]
    libs: tuple[str, ...]
    size_flags: tuple[str, ...]
    hex_format: str
    install: str
    links: bool
    asked: Asked

    @property
    def prefix(self) -> str:
        """Prefix of the names of GCC's tools, such as `arm-none-eabi-`."""
        return self.compiler.removesuffix("gcc")

    def of(self, name: str) -> Toolchain:
        """Another toolchain for the same processor.

        Raises:
            ValueError: It does not build for this processor.
        """
        return self if name == self.name else _make(name, self.compiler, self.asked)

    @property
    def others(self) -> tuple[Toolchain, ...]:
        """The other toolchains of `toolchains.toml` that build for this processor."""
        return tuple(_others(self))


@dataclass(frozen=True, slots=True)
class Asked:
    """Texts of a board file about its processor, as `make_toolchain` takes them."""

    core: str | None
    float_abi: str | None
    fpu: str | None
    flags: tuple[str, ...]


def make_toolchain(
    compiler: str, core: str | None, float_abi: str | None, fpu: str | None, flags: Sequence[str]
) -> Toolchain:
    """Create GCC for texts of a board file, which must be listed in `toolchains.toml`.

    Args:
        compiler: name of the target, which is that of its GCC.
        core: value of -mcpu; None if the compiler has no choice of cores.
        float_abi: value of -mfloat-abi; None for the compiler's default.
        fpu: value of -mfpu; None for the compiler's default.
        flags: further flags.

    Raises:
        ValueError: A text is not allowed, or the core is missing.
    """
    targets = _listed()["targets"]
    entry = targets.get(compiler)
    if entry is None:
        raise ValueError(_choice("compiler", compiler, targets))
    given = [("core", core, entry.get("cores", ()))]
    given += [("flags", flag, entry["flags"]) for flag in flags]
    given += [
        ("float_abi", float_abi, entry.get("float_abis", ())),
        ("fpu", fpu, entry.get("fpus", ())),
    ]
    flaws = [
        _choice(key, text, allowed)
        for key, text, allowed in given
        if text is not None and text not in allowed
    ]
    if core is None and "cores" in entry:
        flaws.append(f"core is missing: it must be one of {', '.join(entry['cores'])}")
    if float_abi in ("softfp", "hard") and fpu is None:
        flaws.append(f"fpu is missing, which float_abi {float_abi!r} needs")
    if flaws:
        raise ValueError("; ".join(flaws))
    return _make(SYSTEM, compiler, Asked(core, float_abi, fpu, tuple(flags)))


def toolchain_names() -> tuple[str, ...]:
    """Names of all toolchains in `toolchains.toml`; the first is preferred."""
    return tuple(_listed()["toolchains"])


def _make(name: str, compiler: str, asked: Asked) -> Toolchain:
    """Create a toolchain for texts that are allowed.

    Raises:
        ValueError: The toolchain does not build for this processor.
    """
    target = _listed()["targets"][compiler]
    entry = _listed()["toolchains"].get(SYSTEM if name == STOCK else name)
    if entry is None:
        raise ValueError(f"there is no toolchain {name!r:.60}")
    of_target = entry["targets"].get(compiler)
    if of_target is None:
        raise ValueError(f"{name} does not build what {compiler} builds")
    prefix = compiler.removesuffix("gcc")
    packages = of_target["packages"]
    return Toolchain(
        compiler=compiler,
        machine_flags=tuple(_flags(name, of_target, asked)),
        hosted=target["hosted"],
        packages=packages,
        shared_hal=target.get("shared_hal"),
        fast_fma=target["fast_fma"],
        runs_tiles=asked.core in target.get("tile_cores", ()) and asked.fpu is not None,
        soft_float=asked.float_abi == "soft",
        name=name,
        commands=MappingProxyType({key: entry[key].format(prefix=prefix) for key in PROGRAMS}),
        link_flags=tuple(of_target.get("link", ())),
        libs=tuple(of_target.get("libs", ())),
        size_flags=tuple(entry.get("size_flags", ())),
        hex_format=entry["hex"],
        install=entry["install"].format(packages=packages),
        links=of_target.get("links", True),
        asked=asked,
    )


def _flags(name: str, of_target: Mapping[str, Any], asked: Asked) -> Iterator[str]:
    """Flags for a processor in a toolchain's words, one word each.

    Raises:
        ValueError: The toolchain has no word for a text.
    """
    absent, words = of_target.get("absent", {}), of_target.get("words")

    def said(text: str) -> str:
        if words is not None and text not in words:
            raise ValueError(f"{name} cannot build for {text!r}")
        return str(text if words is None else words[text])

    texts = {
        key: absent.get(key) if text is None else said(text)
        for key, text in (("core", asked.core), ("float_abi", asked.float_abi), ("fpu", asked.fpu))
    }
    for template in of_target["flags"]:
        if template == "{flags}":
            for flag in asked.flags:
                yield from said(flag).split()
        elif not any(text is None and f"{{{key}}}" in template for key, text in texts.items()):
            yield from template.format_map(texts).split()


def _others(toolchain: Toolchain) -> Iterator[Toolchain]:
    for name in toolchain_names():
        if name not in (toolchain.name, SYSTEM if toolchain.name == STOCK else None):
            try:
                other = toolchain.of(name)
            except ValueError:
                continue
            if other.links:
                yield other


def _choice(key: str, text: str, allowed: Iterable[str]) -> str:
    choice = ", ".join(allowed)
    must = f"must be one of {choice}" if choice else "is nothing this compiler takes"
    return f"{key} {must}, not {text!r:.60}"


@cache
def _listed() -> MappingProxyType[str, Any]:
    path = firmware_templates_dir() / "toolchains.toml"
    return MappingProxyType(tomllib.loads(path.read_text(encoding="utf-8")))
