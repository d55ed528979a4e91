# SPDX-License-Identifier: Apache-2.0
"""Types in poetfw.h of a sample's features, target and prediction."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from poetfw.firmware.c_text import C_KEYWORDS, comment_text, shape_text
from poetfw.firmware.tensor_names import C_TYPES
from poetfw.firmware.views import Define, MemberView, TypeView
from poetfw.ir import Dtype, FreshNames, Record, Role, Tensor
from poetfw.training import Program

_TAKEN = C_KEYWORDS | {"NULL", "int32_t", "uint32_t"}
"""Words that C or C++ reserves, or that the header defines."""


def type_views(program: Program, *, classifies: bool) -> tuple[TypeView, ...]:
    """Types of inputs, targets and outputs; structs for several members."""
    output = Record(
        tuple(Tensor(name, shape, role=Role.ACTIVATION) for name, shape in program.heads)
    )
    target = "Class of a sample." if classifies else "Target values of a sample."
    if len(program.y.members) > 1:
        target = "Targets of a sample, which the loss reads beside the inputs."
    return (
        _type("poetfw_input", "Features of a sample.", program.x),
        _type("poetfw_target", target, program.y),
        _type("poetfw_output", "Output of the network for a sample.", output),
    )


def member_settings(program: Program) -> tuple[Define, ...]:
    """Definitions of plan.h: first byte, bytes, and 1 for floats, of each member of a sample."""
    return tuple(
        Define(f"POET_{letter}_MEMBERS", _places(record), "first byte, bytes, 1 for floats")
        for letter, record in (("X", program.x), ("Y", program.y))
    )


def _places(record: Record) -> str:
    rows = zip(record.members, record.firsts, record.sizes, strict=True)
    places = [f"{{{first}u, {size}u, {int(t.dtype is Dtype.F32)}}}" for t, first, size in rows]
    return ", ".join(places) or "{0u, 0u, 0}"


def _type(name: str, comment: str, record: Record) -> TypeView:
    members = record.members
    if len(members) < 2:
        dtype = members[0].dtype if members else Dtype.F32
        return TypeView(name, comment, C_TYPES[dtype], ())
    return TypeView(name, comment, "", _members(members))


def _members(members: Sequence[Tensor]) -> tuple[MemberView, ...]:
    names, taken = FreshNames(), list[str]()
    for tensor in members:
        taken.append(identifier(names.fresh(identifier(tensor.name), taken)))
    return tuple(
        MemberView(
            C_TYPES[tensor.dtype],
            name,
            f"[{tensor.elements // tensor.shape[0]}]" if tensor.shape[1:] else "",
            f"{comment_text(tensor.name)} {shape_text(tensor.shape[1:])}",
        )
        for name, tensor in zip(taken, members, strict=True)
    )


def identifier(name: str) -> str:
    """C identifier derived from a name."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "member"
    if word[0].isdigit():
        word = f"_{word}"
    return f"{word}_" if word in _TAKEN or keyword.iskeyword(word) else word
