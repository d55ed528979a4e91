# SPDX-License-Identifier: Apache-2.0
"""Changes of values, bytes and messages, each decided by a seeded random number generator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

FORGED = "FORGED"
"""No line that poetfw prints may begin with this: it only occurs behind a line break in text."""

INTEGERS = (
    *(0, 1, -1, 2, 3, 7, 16, 255, 65_536, 10**6),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
)
LARGER = (2**63, 2**64, 10**30, 10**400, -(10**400), 10**4000)
REALS = (0.0, -0.0, 0.5, 1.0, -1.0, 1e-320, 1e-30, 1e-9, 1e9, 1e15, 1e38, 1e39, 1e300, 1e308)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    " ",
    "x",
    "a" * 300,
    "b" * 20_000,
    f"\n{FORGED}: all is well",
    f"\r\n{FORGED}\r{FORGED}",
    f"\u2028{FORGED}\x85{FORGED}\x0b{FORGED}",
    "\x1b[2J\x1b]0;title\x07",
    "[bold red]error:[/] [/]",
    "nul\0nul",
    "\u202egnp.exe",
    "%s %n {} {{0}} ${HOME} $(id)",
    "'; DROP TABLE ops; --",
    "*/ #error",
    "\U0001f9e8\u0301",
    "../outside/sentinel",
    "/etc/passwd",
    "-1",
    "1e308",
    "nan",
    "null",
)


def integer(random: Random) -> int:
    """One that something may not be made for."""
    if random.random() < 0.15:
        return random.choice(LARGER)
    return random.choice(INTEGERS) + random.choice((0, 0, 0, 1, -1))


def real(random: Random) -> float:
    """One that something may not be made for."""
    return random.choice(NOT_FINITE if random.random() < 0.1 else REALS)


def text(random: Random) -> str:
    """One that something may not be made for."""
    return random.choice(TEXTS)


def value(random: Random, depth: int = 0) -> Any:
    """A plain value of any type."""
    kind = random.randrange(9 if depth < 3 else 5)
    if kind < 2:
        return integer(random)
    if kind == 2:
        return real(random)
    if kind == 3:
        return text(random)
    if kind == 4:
        return random.choice((None, True, False))
    if kind < 7:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {text(random): value(random, depth + 1) for _ in range(random.randrange(4))}


def like(random: Random, old: Any) -> Any:
    """A value of the same type more often than not, so that it gets past the first check."""
    if random.random() < 0.3:
        return value(random)
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return random.choice((integer(random), old + 1, old - 1, -old, old * 2))
    if isinstance(old, float):
        return random.choice((real(random), -old, old * 1e10, old / 3))
    if isinstance(old, str):
        return text(random)
    return value(random)


def document(random: Random, whole: Any, changes: int) -> Any:
    """A plain value after so many changes somewhere in it."""
    whole = copy.deepcopy(whole)
    for _ in range(changes):
        places = list(_places(whole))
        if not places:
            return value(random)
        holder, key = random.choice(places)
        others = [h[k] for h, k in random.sample(places, min(3, len(places)))]
        match random.randrange(6):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(random.choice(others))
            case 2 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2:
                holder[text(random)] = holder[key]
            case 3 if isinstance(holder, list) and len(holder) > 1:
                other = random.randrange(len(holder))
                holder[key], holder[other] = holder[other], holder[key]
            case _:
                holder[key] = like(random, holder[key])
    return whole


def _places(whole: Any) -> Iterator[tuple[Any, Any]]:
    """Every (list or dict, index or key) within a value."""
    if isinstance(whole, list | dict):
        for key in range(len(whole)) if isinstance(whole, list) else list(whole):
            yield whole, key
            yield from _places(whole[key])


def content(random: Random, old: bytes, changes: int = 1) -> bytes:
    """Bytes after so many changes that know nothing of what they mean."""
    new = bytearray(old)
    for _ in range(changes):
        at = random.randrange(len(new) + 1)
        length = random.choice((1, 1, 2, 4, 16, 200))
        match random.randrange(5):
            case 0:
                new[at : at + 1] = bytes((random.randrange(256),))
            case 1:
                del new[at : at + length]
            case 2:
                new[at:at] = random.randbytes(length)
            case 3:
                new[at:at] = new[at : at + length] * random.choice((1, 2, 50))
            case _:
                del new[at:]
    return bytes(new)


def message(random: Random, root: Message, changes: int) -> None:
    """Change fields of a protobuf message, or of any message in it."""
    for _ in range(changes):
        within = list(_messages(root))
        _change_field(random, random.choice(within), within)


def _messages(root: Message) -> Iterator[Message]:
    yield root
    for field, child in root.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for one in (child,) if isinstance(child, Message) else child:
                yield from _messages(one)


def _change_field(random: Random, owner: Message, within: list[Message]) -> None:
    present = [field for field, _ in owner.ListFields()]
    fields = present if present and random.random() < 0.8 else list(owner.DESCRIPTOR.fields)
    if not fields:
        return
    field = random.choice(fields)
    if random.random() < 0.15:
        owner.ClearField(field.name)
        return
    old = getattr(owner, field.name)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        alike = [m for m in within if m.DESCRIPTOR is field.message_type] or [None]
        source = copy.deepcopy(random.choice(alike))
        repeated = not isinstance(old, Message)
        if repeated and len(old) and random.random() < 0.5:
            del old[random.randrange(len(old))]
        elif repeated:
            added = old.add()
            if source is not None:
                added.CopyFrom(source)
        elif source is not None:
            old.CopyFrom(source)
        return
    new = _scalar(random, field)
    if isinstance(old, int | float | str | bytes):
        setattr(owner, field.name, new(old))
    elif len(old) and random.random() < 0.7:
        at = random.randrange(len(old))
        old[at] = new(old[at])
    else:
        old.append(new(old[0] if len(old) else field.default_value or 0))


def _scalar(random: Random, field: FieldDescriptor) -> Callable[[Any], Any]:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return lambda old: text(random)
        case FieldDescriptor.TYPE_BYTES:
            return lambda old: content(random, old if isinstance(old, bytes) else b"", 2)
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return lambda old: real(random)
        case FieldDescriptor.TYPE_ENUM:
            return lambda old: random.choice(field.enum_type.values).number
        case FieldDescriptor.TYPE_INT32:
            return lambda old: random.choice(INTEGERS) % 2**31
        case FieldDescriptor.TYPE_UINT64:
            return lambda old: random.choice(INTEGERS) % 2**63
        case _:
            return lambda old: random.choice((*INTEGERS, old + 1, old - 1))
