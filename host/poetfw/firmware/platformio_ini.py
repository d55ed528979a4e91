# SPDX-License-Identifier: Apache-2.0
"""A project's platformio.ini: the chosen environments of the one that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from poetfw.boards import Toolchain
from poetfw.boards.environments import read_environments
from poetfw.common.resources import platformio_ini

SANITIZE_SUFFIX = "-sanitize"
"""Ends the name of the environment that builds for this computer with sanitizers."""

_LICENCE = "; SPDX-License-Identifier: Apache-2.0"
_SHARED = ("platformio", "toolchain", "poetfw", "env")


def compile_flags() -> tuple[str, ...]:
    """Flags that every environment compiles with, beside the processor's."""
    return tuple(read_environments()["poetfw"]["compile"].split())


@cache
def code_flags() -> tuple[str, ...]:
    """The `compile_flags` that affect the generated code."""
    return tuple(flag for flag in compile_flags() if flag.startswith(("-O", "-f", "-std")))


def select_environments(
    names: Sequence[str], defaults: Sequence[str], toolchain: Toolchain, console_baud: int
) -> bytes:
    """A platformio.ini of the named environments and what they extend.

    Args:
        names: the environments.
        defaults: those that a plain `pio run` builds.
        toolchain: what they build with.
        console_baud: bits per second on the board's serial line.
    """
    everything = read_environments()
    wanted = [*_SHARED]
    for name in names:
        chain = [f"env:{name}"]
        while "extends" in everything[chain[-1]]:
            chain.append(everything[chain[-1]]["extends"])
        wanted += [section for section in reversed(chain) if section not in wanted]
    texts = _texts()
    texts["platformio"] = [
        f"default_envs = {', '.join(defaults)}" if line.startswith("default_envs") else line
        for line in texts["platformio"]
    ]
    texts["env"] = [
        f"monitor_speed = {console_baud}" if line.startswith("monitor_speed") else line
        for line in texts["env"]
    ]
    texts["toolchain"] = [
        *(line for line in texts["toolchain"] if line.startswith(";")),
        "[toolchain]",
        *(f"{key} = {value}".rstrip() for key, value in _toolchain(toolchain).items()),
    ]
    sections = ("\n".join(texts[section]) for section in wanted)
    return ("\n\n".join([_LICENCE, *sections]) + "\n").encode()


def _toolchain(toolchain: Toolchain) -> dict[str, str]:
    """The section `toolchain` of a project's platformio.ini."""
    return {
        **toolchain.commands,
        "hex": toolchain.hex_format,
        "install": toolchain.install,
        "machine_flags": " ".join(toolchain.machine_flags),
        "link_flags": " ".join(toolchain.link_flags),
        "libs": " ".join(toolchain.libs),
        "size_flags": " ".join(toolchain.size_flags),
        "hosted": "yes" if toolchain.hosted else "no",
    }


def _texts() -> dict[str, list[str]]:
    """The lines of each section, with the comments that stand right above it or its keys."""
    texts: dict[str, list[str]] = {}
    comments: list[str] = []
    section = ""
    for line in platformio_ini().read_text(encoding="utf-8").splitlines():
        if line.startswith(";"):
            comments += [line] if line != _LICENCE else []
            continue
        if line.startswith("["):
            section = line.strip("[]")
        if line:
            texts.setdefault(section, []).extend([*comments, line])
        comments = []
    return texts
