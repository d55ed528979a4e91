# SPDX-License-Identifier: Apache-2.0
"""A project's platformio.ini: the chosen environments of the one that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from poetfw.boards import Toolchain
from poetfw.boards.environments import read_environments
from poetfw.common.resources import platformio_ini

SYSTEM_SUFFIX = "-system"
"""Ends the name of the environment that builds for a board with this computer's compiler."""

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
        f"prefix = {toolchain.prefix}".rstrip(),
        f"packages = {toolchain.packages}",
        f"machine_flags = {' '.join(toolchain.machine_flags)}".rstrip(),
        f"hosted = {'yes' if toolchain.hosted else 'no'}",
    ]
    sections = ("\n".join(texts[section]) for section in wanted)
    return ("\n\n".join([_LICENCE, *sections]) + "\n").encode()


def _texts() -> dict[str, list[str]]:
    """The lines of each section, with the comments that stand right above it or its keys."""
    texts: dict[str, list[str]] = {}
    comments: list[str] = []
    section = ""
    for line in platformio_ini().read_text().splitlines():
        if line.startswith(";"):
            comments += [line] if line != _LICENCE else []
            continue
        if line.startswith("["):
            section = line.strip("[]")
        if line:
            texts.setdefault(section, []).extend([*comments, line])
        comments = []
    return texts
