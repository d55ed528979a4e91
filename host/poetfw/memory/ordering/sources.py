# SPDX-License-Identifier: Apache-2.0
"""Ordering problems from graphs and schedule problems, and graphs in a new order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poetfw.ir import Graph
from poetfw.memory.ordering.problem import OrderingProblem, OrderOp, lifetimes, without_duplicates
from poetfw.memory.plan import padded
from poetfw.ops import kind_of
from poetfw.schedule import ScheduleProblem
from poetfw.training import in_place_input


def from_graph(graph: Graph) -> OrderingProblem:
    """Ordering problem of a graph, with the bytes of tensors in the arena.

    Control edges keep the order of reads and writes of each persistent tensor: a parameter's
    readers run before its update. They also keep the whole forward pass before the backward pass,
    as schedulers expect.
    """
    ops = []
    forward = tuple(op.name for op in graph.ops if not op.backward)
    backward = next((op.name for op in graph.ops if op.backward), None)
    for op, after in zip(graph.ops, _hazards(graph), strict=True):
        ops.append(
            OrderOp(
                name=op.name,
                inputs=tuple(name for name in graph.reads(op) if name in graph.producer),
                outputs=() if op.output is None else (op.output,),
                workspace_bytes=padded(kind_of(op).workspace_bytes(op, graph)),
                after=without_duplicates((*after, *(forward if op.name == backward else ()))),
                in_place=in_place_input(graph, op),
            )
        )
    sizes = {name: padded(graph.by_name[name].size_bytes) for name in graph.producer}
    resident = sum(padded(tensor.size_bytes) for tensor in graph.persistent)
    return OrderingProblem(tuple(ops), sizes, resident)


def _hazards(graph: Graph) -> list[tuple[str, ...]]:
    """Per op, the ops that must run earlier because of persistent tensors that both touch."""
    writer: dict[str, str] = {}
    readers: dict[str, list[str]] = {}
    hazards = []
    for op in graph.ops:
        touched = without_duplicates((*op.inputs, *op.updates))
        after = [writer[name] for name in touched if name in writer]
        for name in op.updates:
            after += readers.pop(name, [])
            writer[name] = op.name
        for name in op.inputs:
            readers.setdefault(name, []).append(op.name)
        hazards.append(without_duplicates(name for name in after if name != op.name))
    return hazards


def from_schedule_problem(problem: ScheduleProblem) -> OrderingProblem:
    """Ordering problem of a schedule problem's nodes, each computed once."""
    size = {node.name: node.output_bytes for node in problem.nodes}
    after: dict[str, list[str]] = {node.name: [] for node in problem.nodes}
    for node in problem.nodes:
        after[node.name] += [name for name in node.inputs if not size[name]]
        if node.recompute_before is not None:
            after[node.recompute_before].append(node.name)
    ops = tuple(
        OrderOp(
            name=node.name,
            inputs=without_duplicates(name for name in node.inputs if size[name]),
            outputs=(node.name,) if node.output_bytes else (),
            workspace_bytes=node.workspace_bytes,
            after=without_duplicates(after[node.name]),
            in_place=node.in_place if node.output_bytes else None,
        )
        for node in problem.nodes
    )
    return OrderingProblem(ops, {name: bytes_ for name, bytes_ in size.items() if bytes_})


def reorder(graph: Graph, order: Sequence[str]) -> Graph:
    """Reorder a graph's ops.

    Args:
        graph: the graph.
        order: name of each op once, as from `order_ops(from_graph(graph))`.

    Raises:
        PlanError: The order is illegal: an op would read a tensor before it is produced, or read or
            write a persistent tensor on the wrong side of an update.
    """
    lifetimes(from_graph(graph), order)
    ops = {op.name: op for op in graph.ops}
    moved = tuple(ops[name] for name in order)
    produced = tuple(graph.by_name[op.output] for op in moved if op.output is not None)
    others = {*produced, *graph.windows}
    given = tuple(tensor for tensor in graph.tensors if tensor not in others)
    return replace(graph, tensors=(*given, *produced, *graph.windows), ops=moved)
