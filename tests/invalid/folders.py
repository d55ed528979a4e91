# SPDX-License-Identifier: Apache-2.0
"""Output folders that are not poetfw's, or cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

from invalid.case import Case, Make
from invalid.makers import both, text

BUILD = "build --board linux --model mlp --batch 8 --ram 1000000 --generate-only"


def manifest(*files: str) -> str:
    return json.dumps({"schema_version": 1, "files": files})


def link(name: str, target: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)

    return make


CASES = (
    Case(
        "foreign files",
        f"{BUILD} --out out",
        1,
        ("out is not empty and holds no project of poetfw", "choose another folder with --out"),
        text("out/thesis.tex", "years of work"),
    ),
    Case(
        "foreign files in the default folder",
        BUILD,
        1,
        ("build/linux is not empty and holds no project of poetfw",),
        text("build/linux/notes.txt", "mine"),
    ),
    Case(
        "foreign files where poetfw's belong",
        f"{BUILD} --out out",
        1,
        (
            "out holds files that poetfw did not write, where it has to write its own: "
            "plan.json, src/runtime/desk.c",
        ),
        both(
            text("out/poetfw.json", manifest("src/main.c")),
            text("out/src/main.c", ""),
            text("out/src/runtime/desk.c", ""),
            text("out/plan.json", ""),
        ),
    ),
    Case(
        "foreign link beside poetfw's files",
        f"{BUILD} --out out",
        1,
        ("out/link is a link: what poetfw writes there would end up where it leads to",),
        both(text("out/poetfw.json", manifest()), link("out/link", "nowhere")),
    ),
    *(
        Case(
            f"link in a project: {name}",
            f"{BUILD} --out out",
            1,
            (f"out/{name} is a link: what poetfw writes there would end up where it leads to",),
            both(text("out/poetfw.json", manifest()), link(f"out/{name}", "../../elsewhere")),
        )
        for name in ("run", ".pio", ".pio/build", ".pio/build/linux/src", "run/unscheduled")
    ),
    Case(
        "damaged list of files",
        f"{BUILD} --out out",
        1,
        ("holds no project of poetfw (no readable poetfw.json)",),
        text("out/poetfw.json", '{"files": 7}'),
    ),
    Case(
        "list of files nested beyond measure",
        f"{BUILD} --out out",
        1,
        ("holds no project of poetfw (no readable poetfw.json)",),
        text("out/poetfw.json", "[" * 100_000),
    ),
    Case(
        "output is a file",
        f"{BUILD} --out out",
        2,
        ("Invalid value for '--out': Directory 'out' is a file.",),
        text("out", ""),
    ),
    Case(
        "parent is a file",
        f"{BUILD} --out out/project",
        1,
        ("'out/project' cannot be used: Not a directory", "choose another folder with --out"),
        text("out", ""),
    ),
    Case(
        "output cannot be made",
        f"{BUILD} --out /proc/poetfw/project",
        1,
        ("'/proc/poetfw/project' cannot be used:",),
    ),
    Case(
        "name with a dollar sign",
        f"{BUILD} --out 'a$HOME'",
        1,
        ("a$HOME cannot be used: PlatformIO cannot build in a path that holds '$'",),
    ),
    Case("name too long", f"{BUILD} --out {'n' * 300}", 1, ("cannot be used: File name too long",)),
    Case(
        "name with NUL",
        BUILD,
        1,
        ("poetfw.toml: out holds a NUL character",),
        text("poetfw.toml", 'out = "a\\u0000b"\n'),
    ),
    Case(
        "output is the current folder",
        f"{BUILD} --out .",
        1,
        ("is the folder you are in, or one above it",),
    ),
    Case("output is above", f"{BUILD} --out ..", 1, ("is the folder you are in, or one above it",)),
    Case(
        "output is a loop of links",
        f"{BUILD} --out a",
        1,
        ("'a' cannot be used",),
        both(link("a", "b"), link("b", "a")),
    ),
    Case(
        "link to a foreign folder",
        f"{BUILD} --out out",
        1,
        ("out is not empty and holds no project of poetfw",),
        both(text("other/thesis.tex", ""), link("out", "other")),
    ),
    *(
        Case(
            f"file of {command.split()[0]} cannot be made",
            command,
            1,
            (f"cannot write {file}: Not a directory",),
            text("out", ""),
        )
        for command, file in (
            ("place missing.csv --out out/placed.csv", "out/placed.csv"),
            ("schedule --problem missing.json --export out/p.json", "out/p.json"),
            ("compare --board none --csv out/cells.csv", "out/cells.csv"),
            ("sweep --boards none --models none --csv out/cells.csv", "out/cells.csv"),
        )
    ),
    Case(
        "picture cannot be made",
        "compare --board none --plot /proc/energy.svg",
        1,
        ("cannot write /proc/energy.svg:",),
    ),
)
