# SPDX-License-Identifier: Apache-2.0
"""A project's library as a folder that another build system takes as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from poetfw import __version__
from poetfw.firmware.library import HEADER, LIBRARY
from poetfw.firmware.project import Project, template_environment
from poetfw.resources import firmware_templates_dir

NAME = "poetfw"
"""What a library is called unless it gets a name of its own: nothing is renamed then."""

LONGEST_NAME = 30

FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")
"""What the library asks of a compiler: one rounding for each operation, and no more than one bit
pattern for a byte of the arena."""

_OPTIMIZE = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off", "no-math-errno", "no-strict-aliasing")
#endif
"""
_OF_BOARDS = {"sd.c", "sd.h", "sd_storage.c", "spi.h"}
_COMMENT_END = "*/\n"
_URL = "https://github.com/poetfw/poetfw"

EXAMPLES = ("predict", "train_from_card", "learn_live", "personal_layer")
_OF_CLASSIFIERS = ("learn_live", "personal_layer")


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """What an exported folder says of its plan.

    Attributes:
        title: model, board and batch.
        plan_id: names the plan.
        arena_bytes: of the arena.
        pages: whether a training step needs storage.
        classifies: whether it tells classes apart.
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
    """What a build system wants.

    Attributes:
        files: template below export/, and where it is rendered to; `{name}` stands for the name.
        examples: where the examples in C go; None for none.
        compiled: whether the tests of poetfw compile and run such a folder.
        how: how it is used.
    """

    files: Mapping[str, str]
    examples: str | None
    compiled: bool
    how: str


FORMATS: Mapping[str, _Format] = {
    "cmake": _Format(
        {
            "cmake/CMakeLists.txt.j2": "CMakeLists.txt",
            "cmake/Makefile.j2": "Makefile",
            "cmake/cortex-m.cmake.j2": "cortex-m.cmake",
        },
        "examples",
        True,
        "`cmake -B build && cmake --build build` makes library and examples, with\n"
        "`-DCMAKE_TOOLCHAIN_FILE=cortex-m.cmake` for a Cortex-M; so does `make examples` without "
        "CMake.\nIn a project of your own: `add_subdirectory({name})`.",
    ),
    "platformio-lib": _Format(
        {"platformio-lib/library.json.j2": "library.json"},
        "examples",
        True,
        "Put the folder into `lib/` of a PlatformIO project, or name it in `lib_deps`: "
        "`lib_deps = {name}=symlink://path/to/it`.",
    ),
    "arduino-lib": _Format(
        {
            "arduino-lib/library.properties.j2": "library.properties",
            "arduino-lib/predict.ino.j2": "examples/predict/predict.ino",
            "arduino-lib/learn_live.ino.j2": "examples/learn_live/learn_live.ino",
        },
        None,
        False,
        "Put the folder into `libraries/` of the sketchbook; the examples are in the IDE's menu.",
    ),
    "zephyr-module": _Format(
        {
            "zephyr-module/module.yml.j2": "zephyr/module.yml",
            "zephyr-module/CMakeLists.txt.j2": "zephyr/CMakeLists.txt",
            "zephyr-module/Kconfig.j2": "zephyr/Kconfig",
            "zephyr-module/sample.CMakeLists.txt.j2": "samples/predict/CMakeLists.txt",
            "zephyr-module/prj.conf.j2": "samples/predict/prj.conf",
            "zephyr-module/main.c.j2": "samples/predict/src/main.c",
        },
        None,
        False,
        "Name the folder in `ZEPHYR_EXTRA_MODULES` or in a west manifest, and set "
        "`CONFIG_{upper}=y`: `west build -b BOARD samples/predict`.",
    ),
    "esp-idf-component": _Format(
        {
            "esp-idf-component/CMakeLists.txt.j2": "CMakeLists.txt",
            "esp-idf-component/idf_component.yml.j2": "idf_component.yml",
            "esp-idf-component/example.CMakeLists.txt.j2": "examples/predict/CMakeLists.txt",
            "esp-idf-component/main.CMakeLists.txt.j2": "examples/predict/main/CMakeLists.txt",
            "esp-idf-component/main.idf_component.yml.j2": (
                "examples/predict/main/idf_component.yml"
            ),
            "esp-idf-component/main.c.j2": "examples/predict/main/main.c",
        },
        None,
        False,
        "Put the folder into `components/` of a project: `idf.py build` in `examples/predict`.",
    ),
}
"""What can be exported as what."""


def export_library(
    sources: Mapping[str, bytes], form: str, name: str, facts: ExportFacts
) -> Project:
    """The files of an exported library.

    All sources lie in one folder, `src/NAME/`, with only the header above it: so none needs another
    path to find the others, and two libraries do not see each other's.

    Args:
        sources: the files of a project, by path; those of its library are taken.
        form: a key of `FORMATS`.
        name: of the library; every external symbol begins with it.
        facts: what is said of the plan.
    """
    chosen = FORMATS[form]
    files: dict[str, str] = {"src/poetfw.h": sources[HEADER].decode()}
    for path, content in sources.items():
        file = PurePosixPath(path)
        if path.startswith(f"{LIBRARY}/") and path != HEADER and file.name not in _OF_BOARDS:
            assert f"src/poetfw/{file.name}" not in files, path
            files[f"src/poetfw/{file.name}"] = _optimized(file, content.decode(), form)
    examples = [
        example for example in EXAMPLES if facts.classifies or example not in _OF_CLASSIFIERS
    ]
    if facts.pages and "personal_layer" in examples:
        examples.remove("personal_layer")
    if chosen.examples is not None:
        folder = firmware_templates_dir() / "export" / "examples"
        for example in (*(f"{example}.c" for example in examples), "file_card.h"):
            files[f"{chosen.examples}/{example}"] = (folder / example).read_text()
    files = {_path(path, name): rename_symbols(text, name) for path, text in files.items()}
    context = {
        "name": name,
        "upper": name.upper(),
        "version": __version__,
        "title": facts.title,
        "plan_id": facts.plan_id,
        "arena_bytes": f"{facts.arena_bytes:,}",
        "arena": rename_symbols("poet_arena", name),
        "pages": facts.pages,
        "weights": facts.weights,
        "prefix": name if name != NAME else "poet",
        "machine_flags": facts.machine_flags,
        "flags": FLAGS,
        "url": _URL,
        "examples": examples,
        "sources": sorted(path for path in files if path.startswith("src/") and path[-2:] == ".c"),
        "how": chosen.how.format(name=name, upper=name.upper()),
        "checked": (
            "poetfw's tests compile and run such folders."
            if chosen.compiled
            else "**Not compiled by poetfw**: its tests hold this folder against the rules of its "
            "format, and compile its sources with another build system."
        ),
    }
    environment = template_environment()
    for template, target in {**chosen.files, "README.md.j2": "README.md"}.items():
        text = environment.get_template(f"export/{template}").render(context)
        if "learn_live" in target and (facts.pages or not facts.classifies):
            continue
        if not target.endswith(".md"):
            text = rename_symbols(text, name)
        files[target] = text
    return Project({path: text.encode() for path, text in files.items()})


def rename_symbols(text: str, name: str) -> str:
    """C whose `poetfw_…`, `poet_…` and their macros begin with another name.

    The public ones change their first word, the others get one more: `poetfw_open` becomes
    `NAME_open`, and `poet_page_in` becomes `NAME_poet_page_in`.
    """
    if name == NAME:
        return text
    upper = name.upper()
    for pattern, new in (
        (r"\bpoetfw_(?=\w)", f"{name}_"),
        (r"\bPOETFW_(?=\w)", f"{upper}_"),
        (r"\bstruct poetfw\b", f"struct {name}"),
        (r"\bpoetfw\.h\b", f"{name}.h"),
        (r"\bpoet_(?=\w)", f"{name}_poet_"),
        (r"\bPOET_(?=\w)", f"{upper}_POET_"),
    ):
        text = re.sub(pattern, new, text)
    return text


def _path(path: str, name: str) -> str:
    """Where a file goes: its folder and the header are called as the library is."""
    parts = ("src", name) if path.startswith("src/poetfw/") else PurePosixPath(path).parts[:-1]
    return PurePosixPath(*parts, rename_symbols(PurePosixPath(path).name, name)).as_posix()


def _optimized(file: PurePosixPath, text: str, form: str) -> str:
    """A source that says by itself what it asks of the compiler, where its build system cannot."""
    if form != "arduino-lib" or file.suffix != ".c":
        return text
    head, end, rest = text.partition(_COMMENT_END)
    return f"{head}{end}{_OPTIMIZE}{rest}"
