# SPDX-License-Identifier: Apache-2.0
"""Small problems that the tests of schedules share."""

from __future__ import annotations

from poetfw.schedule import Node, ScheduleProblem, Step, StepKind, Storage, Transfer

STORAGE = Storage(
    block_bytes=64,
    page_in=Transfer(1000.0, 0.5, 0.001, 0.25),
    page_out=Transfer(500.0, 1.0, 0.002, 0.5),
)


def chain(ram_bytes: int = 1000, storage: Storage | None = STORAGE) -> ScheduleProblem:
    """a -> b -> c, then d reads a and c, and e has only side effects."""
    return ScheduleProblem(
        "chain",
        ram_bytes,
        None,
        storage,
        (
            Node("a", (), 1.0, 1.0, 100),
            Node("b", ("a",), 2.0, 2.0, 200),
            Node("c", ("b",), 3.0, 3.0, 300, workspace_bytes=50),
            Node("d", ("a", "c"), 4.0, 4.0, 100, backward=True),
            Node("e", ("d",), 5.0, 5.0, 0, recompute=False, backward=True),
        ),
    )


def plan(text: str) -> tuple[Step, ...]:
    """Steps from text: "a" computes, "+a" pages in, "-a" pages out, "/a" frees."""
    kinds = {"+": StepKind.PAGE_IN, "-": StepKind.PAGE_OUT, "/": StepKind.FREE}
    return tuple(
        Step(kinds[word[0]], word[1:]) if word[0] in kinds else Step(StepKind.COMPUTE, word)
        for word in text.split()
    )


def devices_plan(text: str) -> tuple[Step, ...]:
    """A plan from words such as `compute:a@left` and `copy:a@left>right`."""
    steps = []
    for word in text.split():
        kind, _, rest = word.partition(":")
        name, _, where = rest.partition("@")
        device, _, target = where.partition(">")
        steps.append(Step(StepKind(kind), name, device, target or None))
    return tuple(steps)
