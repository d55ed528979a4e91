# SPDX-License-Identifier: Apache-2.0
"""Op orders of the lowest peak memory."""

from poetfw.memory.ordering.order import order_ops
from poetfw.memory.ordering.plans import reorder_plan
from poetfw.memory.ordering.problem import (
    Lifetime,
    Ordering,
    OrderingProblem,
    OrderingStatus,
    OrderOp,
    lifetimes,
    peak_bytes,
)
from poetfw.memory.ordering.sources import from_graph, from_schedule_problem, reorder

__all__ = [
    "Lifetime",
    "OrderOp",
    "Ordering",
    "OrderingProblem",
    "OrderingStatus",
    "from_graph",
    "from_schedule_problem",
    "lifetimes",
    "order_ops",
    "peak_bytes",
    "reorder",
    "reorder_plan",
]
