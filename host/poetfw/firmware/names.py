# SPDX-License-Identifier: Apache-2.0
"""Renaming of an exported library's symbols by the preprocessor."""

from __future__ import annotations

import re
from collections.abc import Iterable

from poetfw.common.option_values import EXPORTED_NAME

NAMES_HEADER = "names.h"
"""Header that renames a library's symbols; every source includes it first."""

_PUBLIC = re.compile(
    r"\bpoet(?:fw)?_\w+\b(?!\.c\b)|(?:\b|(?<=-D))POETFW_\w+"
    r"|(?<=\bstruct )poetfw\b|\bpoetfw(?=\.h\b)"
)
"""Words of an application: of the public header, examples and instructions."""

_NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_IDENTIFIER = re.compile(r"\bpoetfw\b|\b(?:poet|poetfw|POETFW)_\w*[^\W_]\b")
_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)

_NAMES = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the library {name}, with which every source begins: a program may have another one. */
#ifndef {upper}_NAMES_H
#define {upper}_NAMES_H

{defines}

#endif
"""

_INCLUDE = """\
/* SPDX-License-Identifier: Apache-2.0 */
#include "../{file}"
"""


def renamed(word: str, name: str) -> str:
    """Name of a symbol in a library with another name.

    A public name changes its first word, any other gets one more: `poetfw_open` becomes
    `NAME_open`, and `poet_page_in` becomes `NAME_poet_page_in`.
    """
    if name == EXPORTED_NAME:
        return word
    if word.startswith("poetfw"):
        return name + word.removeprefix("poetfw")
    if word.startswith("POETFW"):
        return name.upper() + word.removeprefix("POETFW")
    return f"{name}_{word}"


def rename_public(text: str, name: str) -> str:
    """Rename public symbols in a header, an example or instructions."""
    return _PUBLIC.sub(lambda match: renamed(match[0], name), text)


def names_headers(sources: Iterable[str], public: Iterable[str], name: str) -> dict[str, str]:
    """Headers by which the preprocessor renames symbols, for C and for assembly.

    A name that macros paste together is renamed if it also occurs whole in the sources.

    Args:
        sources: texts of all C and assembly files, but the public headers.
        public: file names of the public headers, which sources include by these names.
        name: name of the library.
    """
    said: set[str] = set()
    defined: set[str] = set()
    for text in sources:
        code = _NO_CODE.sub(" ", text)
        said.update(_IDENTIFIER.findall(code))
        defined.update(_DEFINITION.findall(code))
    defines = [f"#define {word} {renamed(word, name)}" for word in sorted(said - defined)]
    for word in sorted(said & defined):
        if word.startswith("POETFW_"):  # which has a default
            own = renamed(word, name)
            defines += [f"#ifdef {own}", f"#define {word} {own}", "#endif"]
    return {
        NAMES_HEADER: _NAMES.format(name=name, upper=name.upper(), defines="\n".join(defines)),
        **{file: _INCLUDE.format(file=rename_public(file, name)) for file in public},
    }
