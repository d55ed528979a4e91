# SPDX-License-Identifier: Apache-2.0
"""Output folders that are not poetfw's, or cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

from invalid.case import Case, Make, cases, options
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
    *options(
        BUILD,
        {
            "--out /proc/poetfw/project": "'/proc/poetfw/project' cannot be used:",
            "--out 'a$HOME'": ("a$HOME cannot be used: PlatformIO cannot", "a path that holds '$'"),
            "--out .": "is the folder you are in, or one above it",
            "--out ..": "is the folder you are in, or one above it",
        },
    ),
    *cases(
        f"{BUILD} --out out",
        (
            "foreign files",
            text("out/thesis.tex", "years of work"),
            "out is not empty and holds no project of poetfw",
            "choose another folder with --out",
        ),
        (
            "foreign files where poetfw's belong",
            both(
                text("out/poetfw.json", manifest("src/main.c")),
                text("out/src/main.c", ""),
                text("out/src/runtime/desk.c", ""),
                text("out/plan.json", ""),
            ),
            "out holds files that poetfw did not write, where it has to write its own: "
            "plan.json, src/runtime/desk.c",
        ),
        (
            "foreign link beside poetfw's files",
            both(text("out/poetfw.json", manifest()), link("out/link", "nowhere")),
            "out/link is a link: what poetfw writes there would end up where it leads to",
        ),
        (
            "damaged list of files",
            text("out/poetfw.json", '{"files": 7}'),
            "holds no project of poetfw (no readable poetfw.json)",
        ),
        (
            "list of files nested beyond measure",
            text("out/poetfw.json", "[" * 100_000),
            "holds no project of poetfw (no readable poetfw.json)",
        ),
        (
            "link to a foreign folder",
            both(text("other/thesis.tex", ""), link("out", "other")),
            "out is not empty and holds no project of poetfw",
        ),
    ),
    *cases(
        BUILD,
        (
            "foreign files in the default folder",
            text("build/linux/notes.txt", "mine"),
            "build/linux is not empty and holds no project of poetfw",
        ),
        (
            "name with NUL",
            text("poetfw.toml", 'out = "a\\u0000b"\n'),
            "poetfw.toml: out holds a NUL character",
        ),
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
    Case("name too long", f"{BUILD} --out {'n' * 300}", 1, ("cannot be used: File name too long",)),
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
        (
            "'out/project' cannot be used: Not a directory",
            "choose another folder with --out",
        ),
        text("out", ""),
    ),
    Case(
        "output is a loop of links",
        f"{BUILD} --out a",
        1,
        ("'a' cannot be used",),
        both(link("a", "b"), link("b", "a")),
    ),
)
