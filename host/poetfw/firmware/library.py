# SPDX-License-Identifier: Apache-2.0
"""The library in a project: its public header, and the texts of its statuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from poetfw.common.resources import firmware_templates_dir
from poetfw.firmware.c_text import comment_text, string_literal
from poetfw.firmware.views import FlashView
from poetfw.ops import Array

LIBRARY = "lib/poetfw"
"""The library's folder in a project."""

HEADER = f"{LIBRARY}/poetfw.h"
"""The public header, all that an application includes."""

FEATURES_HEADER = f"{LIBRARY}/poetfw_features.h"
"""Header of the library's feature extraction, in projects whose network reads sound."""

GENERATED = f"{LIBRARY}/generated"
"""Folder of the library's files that depend on the plan."""

_WORDS_IN_A_LINE = 8

_STATUS = re.compile(r"^    POET_(ERROR_\w+) = (-\d+), +/\* (.+) \*/$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StatusCode:
    """A status of the library, as its headers have it."""

    name: str
    value: int
    text: str

    @property
    def literal(self) -> str:
        """The text, in C."""
        return string_literal(self.text)


@cache
def statuses() -> tuple[StatusCode, ...]:
    """Statuses that a call of the library may end with, besides those of storage and board."""
    text = (firmware_templates_dir() / "runtime" / "status.h").read_text(encoding="utf-8")
    return tuple(StatusCode(name, int(value), said) for name, value, said in _STATUS.findall(text))


BLOCKS = f"{GENERATED}/blocks_asm.S"
"""The inner blocks of the tiles, where there are any."""

CONSTANTS = f"{GENERATED}/constants.c"
"""The arrays of the constants, where there are any."""


@dataclass(frozen=True, slots=True)
class ValuesInC:
    """A tensor's values, as a C array of the bits of its f32 elements.

    Attributes:
        identifier: the macro of the tensor's address.
        comment: its name, for people.
        words: how many elements it has.
        lines: the initializers.
    """

    identifier: str
    comment: str
    words: int
    lines: tuple[str, ...]


def flash_array(identifier: str) -> str:
    """The name of the array that holds the constant with this identifier."""
    return f"poet_{identifier.lower()}"


def initial_weights(names: Mapping[str, str], values: Mapping[str, Array]) -> tuple[ValuesInC, ...]:
    """Initial values for a program to hold.

    Args:
        names: the model's name behind every identifier.
        values: f32 values by tensor name; tensors that are missing or all 0 are left out.
    """
    return tuple(
        _values_in_c(identifier, name, values[name])
        for identifier, name in names.items()
        if identifier.startswith("P") and name in values and values[name].any()
    )


def constant_values(
    flash: Sequence[FlashView], names: Mapping[str, str], values: Mapping[str, Array]
) -> tuple[ValuesInC, ...]:
    """The values of the constants in flash.

    Args:
        flash: their arrays.
        names: the model's name behind every identifier.
        values: f32 values by tensor name.
    """
    named = ((each.array, names[each.name]) for each in flash)
    return tuple(_values_in_c(array, name, values[name]) for array, name in named)


def _values_in_c(identifier: str, name: str, values: Array) -> ValuesInC:
    return ValuesInC(identifier, comment_text(name), values.size, tuple(_lines(values)))


def _lines(values: Array) -> Iterator[str]:
    kind = "<i4" if values.dtype.kind == "i" else "<f4"
    bits = np.ascontiguousarray(values, kind).view("<u4").ravel()
    for start in range(0, bits.size, _WORDS_IN_A_LINE):
        yield " ".join(f"0x{word:08x}u," for word in bits[start : start + _WORDS_IN_A_LINE])
