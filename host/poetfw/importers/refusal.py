# SPDX-License-Identifier: Apache-2.0
"""Refusals of a file's parts that poetfw cannot train, each with its reason, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from poetfw.common.errors import ModelError, cut
from poetfw.models import TooManyOpsError


class UnsupportedError(Exception):
    """Raised with the reason why poetfw cannot train a node."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that cannot be trained.

    Attributes:
        name: what the file calls it.
        kind: its operator, and where its author wrote it, if the file says so.
        reason: why.
    """

    name: str
    kind: str
    reason: str


NAMED = 20
"""Number of refused nodes that a message names."""

_Result = TypeVar("_Result")


def attempt(rule: Callable[[], _Result]) -> _Result | str:
    """The result of a rule, or as text why its node cannot be trained.

    Raises:
        TooManyOpsError: the model has more ops than any that is trained.
    """
    try:
        return rule()
    except TooManyOpsError:
        raise
    except ModelError as error:
        return error.message
    # NumPy's, for axes that do not exist, and numbers that no array has
    except (UnsupportedError, LookupError, ValueError, ArithmeticError, TypeError) as error:
        return str(error)


def refuse(refusals: Sequence[Refusal], known: Sequence[str]) -> None:
    """Raise ModelError that counts all of the nodes and names the first, unless there are none.

    A reason is said once, behind all nodes that it holds for.

    Args:
        refusals: the nodes.
        known: the operators that poetfw reads, for advice.
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
