# SPDX-License-Identifier: Apache-2.0
"""Which input an op may be written over."""

from __future__ import annotations

import pytest

from poetfw.ir import Graph, Op, Role, Tensor
from poetfw.training import in_place_input


def graph(*ops: Op, window: bool = False) -> Graph:
    """x [4], its ops' outputs [4]; with a window on the last two elements of `a`."""
    tensors = [Tensor("x", (4,), role=Role.INPUT)]
    for op in ops:
        assert op.output is not None
        tensors.append(Tensor(op.output, (2,) if op.kind == "slice" else (4,)))
        if window and op.output == "a":
            tensors.append(Tensor("w", (4,), base="a", offset_bytes=0))
    return Graph("g", tuple(tensors), ops, ops[-1].output or "")


A = Op("a", "relu", ("x",), "a")
B = Op("b", "relu", ("a",), "b")


@pytest.mark.parametrize(
    ("ops", "taken"),
    [
        ((A,), None),  # an input of the network is not an op's to write over
        ((A, B), "a"),
        ((A, B, Op("y", "add", ("a", "b"), "y")), "b"),  # of two that die, what fewer ops read
        ((A, B, Op("y", "add", ("b", "x"), "y")), "b"),
        ((A, Op("y", "add", ("a", "a"), "y")), None),  # read twice by the op itself
    ],
)
def test_what_may_be_written_over(ops: tuple[Op, ...], taken: str | None) -> None:
    assert in_place_input(graph(*ops), ops[-1]) == taken


def test_what_dies_is_preferred_to_what_is_read_later() -> None:
    y = Op("y", "add", ("a", "b"), "y")
    late = Op("late", "relu", ("a",), "late")
    assert in_place_input(graph(A, B, y, late), y) == "b"


def test_a_tensor_of_another_size_is_not() -> None:
    part = Op("part", "slice", ("a",), "part", {"axis": 0, "start": 0, "length": 2})
    y = Op("y", "relu", ("part",), "y")
    tensors = (
        Tensor("x", (4,), role=Role.INPUT),
        Tensor("a", (4,)),
        Tensor("part", (2,)),
        Tensor("y", (4,)),
    )
    assert in_place_input(Graph("g", tensors, (A, part, y), "y"), y) is None


def test_nor_is_one_of_which_a_window_is_read_by_the_same_op() -> None:
    y = Op("y", "add", ("a", "w"), "y")
    assert in_place_input(graph(A, y, window=True), y) is None
