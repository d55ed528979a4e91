# SPDX-License-Identifier: Apache-2.0
"""Refusals of nodes that poetfw cannot train, collected and reported together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from poetfw.common.errors import ModelError, cut
from poetfw.models import TooManyOpsError


class UnsupportedError(Exception):
    """poetfw cannot train a node; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that cannot be trained.

    Attributes:
        name: name in the file.
        kind: its operator, and its source location if the file has it.
        reason: reason for the message.
    """

    name: str
    kind: str
    reason: str


NAMED = 20
"""Most refused nodes that a message names."""

_Result = TypeVar("_Result")


def attempt(rule: Callable[[], _Result]) -> _Result | str:
    """Call a rule; returns its result, or as text the reason why the node cannot be trained.

    Raises:
        TooManyOpsError: The model has more ops than poetfw trains.
    """
    try:
        return rule()
    except TooManyOpsError:
        raise
    except ModelError as error:
        return error.message
    # raised by NumPy for axes that do not exist and for values out of range
    except (UnsupportedError, LookupError, ValueError, ArithmeticError, TypeError) as error:
        return str(error)


def refuse(refusals: Sequence[Refusal], known: Sequence[str]) -> None:
    """Raise ModelError that counts refused nodes and names the first, if there are any.

    Nodes with the same reason are listed together.

    Args:
        refusals: the refused nodes.
        known: supported operators, for the hint.
    """
    if refusals:
        places: dict[str, list[str]] = {}
        for each in refusals[:NAMED]:
            place = f"{cut(repr(each.name), 120)} ({cut(each.kind, 200)})"
            places.setdefault(cut(each.reason, 300), []).append(place)
        reasons = [f"{', '.join(named)}: {reason}" for reason, named in places.items()]
        if len(refusals) > NAMED:
            reasons.append(f"… and {len(refusals) - NAMED:,} more")
        count = "1 node" if len(refusals) == 1 else f"{len(refusals):,} nodes"
        raise ModelError(
            f"poetfw cannot train {count} of the model: {'; '.join(reasons)}",
            "poetfw trains networks of " + ", ".join(sorted(known)),
        )
