# SPDX-License-Identifier: Apache-2.0
"""A project's library as a folder for another build system."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from poetfw.common.errors import OutputError
from poetfw.common.option_values import EXPORTED_NAME
from poetfw.common.resources import firmware_templates_dir
from poetfw.common.version import __version__
from poetfw.firmware.library import FEATURES_HEADER, HEADER, LIBRARY
from poetfw.firmware.names import NAMES_HEADER, names_headers, rename_public, renamed
from poetfw.firmware.project import Project, template_environment

LONGEST_NAME = 30

FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")
"""Compiler flags that the library needs: one rounding for each operation, and bytes of the arena
that may be read as any type."""

_SOURCES = (".c", ".S", ".h")
_OF_BOARDS = {"sd.c", "sd.h", "sd_storage.c", "spi.h"}
_COMMENT_END = "*/\n"
_URL = "https://github.com/poetfw/poetfw"


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """Facts of a plan that an exported folder states.

    Attributes:
        title: model, board and batch.
        plan_id: names the plan.
        arena_bytes: of the arena.
        pages: True if a training step needs storage.
        classifies: True if it tells classes apart.
        weights: which the library holds: "initial", "trained" or "none".
        machine_flags: what the board's processor asks of a compiler.
    """

    title: str
    plan_id: str
    arena_bytes: int
    pages: bool
    classifies: bool
    weights: str
    machine_flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Format:
    """Files that a build system wants, as its format.toml says.

    Attributes:
        compiled: True if the tests of poetfw compile and run such a folder.
        how: how it is used; `{name}` and `{upper}` stand for the library's name.
        files: what is rendered from which template.
        learning_files: the same, where the network learns from a caller's samples without paging.
        examples: where the examples in C go; None without one.
        prologue: what each source begins with, behind its licence.
    """

    compiled: bool
    how: str
    files: Mapping[str, str]
    learning_files: Mapping[str, str] = field(default_factory=dict)
    examples: str | None = None
    prologue: str = ""

    @staticmethod
    def of(name: str) -> _Format:
        text = (firmware_templates_dir() / "export" / name / "format.toml").read_text(
            encoding="utf-8"
        )
        return _Format(**tomllib.loads(text))


def export_library(
    sources: Mapping[str, bytes], form: str, name: str, facts: ExportFacts
) -> Project:
    """The files of an exported library.

    All sources lie in one folder, `src/NAME/`, with only the public header above it: no include
    path is needed, and two libraries do not see each other's headers. The sources are unchanged; in
    a renamed library, a header that each source includes first renames the external symbols.

    Args:
        sources: the files of a project, by path; those of its library are taken.
        form: one of `poetfw.common.option_values.EXPORTS`.
        name: of the library; every external symbol begins with it.
        facts: what is said of the plan.

    Raises:
        OutputError: A source is missing, is not text, or has the name of another.
    """
    chosen = _Format.of(form)
    learns = facts.classifies and not facts.pages
    public = [HEADER, *([FEATURES_HEADER] if FEATURES_HEADER in sources else [])]
    files: dict[str, str] = {}
    for path in sources:
        file = PurePosixPath(path)
        if file.suffix not in _SOURCES or file.name in _OF_BOARDS or path in public:
            continue
        if path.startswith(f"{LIBRARY}/"):
            target = f"src/{name}/{file.name}"
            if target in files:
                raise OutputError(f"the library has two files called {file.name}: {path} is one")
            files[target] = _text(path, sources)
    renames = name != EXPORTED_NAME
    own = names_headers(files.values(), [PurePosixPath(path).name for path in public], name)
    files = {
        path: _with_prologue(PurePosixPath(path), text, chosen, renames)
        for path, text in files.items()
    }
    if renames:
        files |= {f"src/{name}/{file}": text for file, text in own.items()}
    shown = {f"src/{PurePosixPath(path).name}": _text(path, sources) for path in public}
    examples = [
        *("predict", "train_from_card"),
        *(["learn_live"] if facts.classifies else []),
        *(["learn_keywords"] if facts.classifies and FEATURES_HEADER in sources else []),
        *(["personal_layer"] if learns else []),
    ]
    if chosen.examples is not None:
        folder = firmware_templates_dir() / "export" / "examples"
        for example in (*(f"{example}.c" for example in examples), "file_card.h"):
            shown[f"{chosen.examples}/{example}"] = (folder / example).read_text(encoding="utf-8")
    files |= {rename_public(path, name): rename_public(text, name) for path, text in shown.items()}
    context = {
        "name": name,
        "upper": name.upper(),
        "version": __version__,
        "title": facts.title,
        "plan_id": facts.plan_id,
        "arena_bytes": f"{facts.arena_bytes:,}",
        "arena": renamed("poet_arena", name),
        "pages": facts.pages,
        "weights": facts.weights,
        "prefix": name if name != EXPORTED_NAME else "poet",
        "machine_flags": facts.machine_flags,
        "flags": FLAGS,
        "url": _URL,
        "examples": examples,
        "sources": sorted(path for path in files if path[:4] == "src/" and path[-2:] != ".h"),
        "assembly": sorted(path for path in files if path[:4] == "src/" and path[-2:] == ".S"),
        "how": chosen.how.strip().format(name=name, upper=name.upper()),
        "checked": (
            "poetfw's tests compile and run such folders."
            if chosen.compiled
            else "**Not compiled by poetfw**: its tests hold this folder against the rules of its "
            "format, and compile its sources with another build system."
        ),
    }
    environment = template_environment()
    for target, template in {**chosen.files, **(chosen.learning_files if learns else {})}.items():
        text = environment.get_template(f"export/{form}/{template}").render(context)
        files[target] = rename_public(text, name)
    files["README.md"] = environment.get_template("export/README.md.j2").render(context)
    return Project({path: text.encode() for path, text in files.items()})


def _text(path: str, sources: Mapping[str, bytes]) -> str:
    try:
        return sources[path].decode()
    except KeyError as error:
        raise OutputError(f"{path} is missing", "run `poetfw build` again") from error
    except UnicodeDecodeError as error:
        raise OutputError(f"{path} is not text in UTF-8") from error


def _with_prologue(file: PurePosixPath, text: str, form: _Format, renames: bool) -> str:
    """A source behind the include of its renaming header and the format's compiler settings."""
    if file.suffix == ".h":
        return text
    head, end, rest = text.partition(_COMMENT_END)
    names = f'#include "{NAMES_HEADER}"\n' if renames else ""
    return f"{head}{end}{names}{form.prologue if file.suffix == '.c' else ''}{rest}"
