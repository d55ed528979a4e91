# SPDX-License-Identifier: Apache-2.0
"""What is particular to a board or a core is data; to an emulator, in its own file."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import poetfw
from poetfw.boards import list_boards
from poetfw.common.resources import firmware_templates_dir
from poetfw.tools.emulators import EMULATORS

PACKAGE = Path(poetfw.__file__).parent
EMULATORS_FOLDER = "tools/emulators/"

EXCEPTIONS = {
    ("boards/loader.py", "nrf52840"): "an example of a board file",
    ("boards/toolchain.py", "gcc"): "how the compilers' names end, and the default",
    ("settings/build.py", "GCC"): "choices of --toolchain",
    ("settings/build.py", "clang"): "choices of --toolchain",
    ("settings/build.py", "zig"): "choices of --toolchain",
    ("api/keywords.py", "clang"): "choices of --toolchain",
    ("api/keywords.py", "zig"): "choices of --toolchain",
    ("cli/demo.py", "nrf52840"): "the demo's board",
    ("settings/board.py", "Linux"): "an operating system",
    ("tools/inventory.py", "Linux"): "an operating system",
    ("common/system.py", "linux"): "an operating system",
}
"""Names in code that are there for another reason."""


def names() -> set[str]:
    """What shared code must not say."""
    toolchains = tomllib.loads((firmware_templates_dir() / "toolchains.toml").read_text())
    said = {*EMULATORS, *toolchains["targets"], *toolchains["toolchains"]}
    for entry in toolchains["targets"].values():
        said |= {*entry.get("cores", ()), *entry.get("fpus", ()), *entry["flags"]}
    for board in list_boards():
        said |= {board.name, board.core}
        if board.firmware is not None:
            said |= {board.hal, board.platformio_env, str(board.toolchain.shared_hal)}
        for machine in (m for twin in board.twins for m in (twin.machine, twin.reference)):
            said |= {machine.hal, str(machine.machine), str(machine.platformio_env)}
    return said - {"None"}


def texts(path: Path) -> Iterator[str]:
    """The strings of a module, without docstrings and the examples of --help."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in docstrings and not node.value.startswith("Example:"):
                yield node.value


def test_shared_code_names_no_board_no_core_and_no_emulator() -> None:
    words = {*names(), "cortex", "qemu", "arm", "mps2"}
    pattern = re.compile(
        "|".join(rf"(?<![\w-]){re.escape(word)}(?![\w+])" for word in sorted(words)), re.IGNORECASE
    )
    found = {
        (path.relative_to(PACKAGE).as_posix(), match)
        for path in PACKAGE.rglob("*.py")
        for text in texts(path)
        for match in pattern.findall(text)
    }
    shared = {(path, name) for path, name in found if not path.startswith(EMULATORS_FOLDER)}
    assert shared == set(EXCEPTIONS)
    assert found - shared  # or this finds nothing at all
