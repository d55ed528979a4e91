# SPDX-License-Identifier: Apache-2.0
"""Types of keyword arguments are those of the settings: `--update-golden` writes them anew."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import pytest

from poetfw.api import options
from poetfw.api.options import keywords
from poetfw.settings import Setting, Settings
from poetfw.settings.values import Bytes, Factor, Listed, NameOrFile, Numbers
from unit.project.spdx import ROOT

FILE = Path(options.__file__).with_name("keywords.py")
HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""Types of the keyword arguments that settings declare.

Generated from `poetfw.settings`: `pytest tests/unit/api --update-golden`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict
'''
OWN = {
    "PlanOptions": (options.PLAN, "poetfw.plan", ("model", "board", "data", "ram", "weights")),
    "RunOptions": (options.RUN, "Firmware.run", ()),
    "SweepOptions": (options.SWEEP, "poetfw.sweep", ("models", "boards")),
    "ScheduleOptions": (options.SCHEDULE, "poetfw.schedule", ("ram",)),
}
"""Each class's settings, function, and the keywords that this function names itself."""


def hint(setting: Setting) -> str:
    """Type of the values that a setting accepts from Python."""
    if isinstance(setting.default, bool) or setting.type is click.BOOL:
        return "bool"
    one = of(setting.type)
    return one if not setting.multiple or one.startswith("Sequence") else f"Sequence[{one}] | {one}"


def of(kind: click.ParamType[object] | None) -> str:
    match kind:
        case Listed():
            item = of(kind.item)
            return f"Sequence[{item}]" + ("" if item.endswith("str") else " | str")
        case Numbers():
            return "Sequence[float] | str"
        case Bytes():
            return "int | str"
        case click.Choice():
            quoted = ", ".join(f'"{choice}"' for choice in kind.choices)
            return f"Literal[{quoted}]"
        case click.types.IntParamType():
            return "int"
        case Factor():
            return "float | None"
        case click.types.FloatParamType():
            return "float"
        case click.Path() | NameOrFile():
            return "PathLike[str] | str"
        case _:
            return "str"


def written(classes: Mapping[str, tuple[Sequence[type[Settings]], str, Sequence[str]]]) -> str:
    """Text of the module that types keyword arguments."""
    lines = [HEAD]
    for name, (models, function, own) in classes.items():
        lines += ["", f"class {name}(TypedDict, total=False):"]
        lines += [f'    """Options of `{function}`; None for the default."""', ""]
        for word, (_, setting) in keywords(models).items():
            if word not in own:
                lines += member(word, setting)
        lines.append("")
    return "\n".join(lines)


def member(word: str, setting: Setting) -> Iterator[str]:
    kind = hint(setting)
    kind = kind if kind.endswith("None") else f"{kind} | None"
    yield f"    {word}: {kind}"
    text = setting.what + (f" Default: {setting.otherwise}." if setting.otherwise else "")
    quoted = text.replace("\\", r"\\")
    if len(quoted) <= 90:
        yield f'    """{quoted}"""'
    else:
        yield '    """'
        yield from textwrap.wrap(quoted, 96, initial_indent="    ", subsequent_indent="    ")
        yield '    """'


def formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--config", ROOT / "pyproject.toml", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def test_types_are_those_of_the_settings(request: pytest.FixtureRequest) -> None:
    text = formatted(written(OWN))
    if request.config.getoption("--update-golden"):
        FILE.write_text(text)
    assert FILE.read_text() == text
