# SPDX-License-Identifier: Apache-2.0
"""Period of the board's watchdog, and a check that a plan feeds it in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poetfw.boards import Board, family_watchdog
from poetfw.common.errors import BoardError, ConfigError
from poetfw.costs import CostProvider
from poetfw.planning.plans import Plan
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import StepKind
from poetfw.settings import BuildSettings
from poetfw.training import Program


def watchdog_time_ms(settings: BuildSettings, board: Board) -> int | None:
    """Period of the watchdog in milliseconds; None without a watchdog.

    Raises:
        BoardError: Poetfw has no driver for the board's watchdog.
        ConfigError: The watchdog does not support the period.
    """
    if settings.watchdog_s is None:
        return None
    counts = family_watchdog(board.hal)
    if counts is None:
        raise BoardError(
            f"--watchdog: poetfw has no driver for a watchdog of the board {board.name!r}",
            "leave it out",
        )
    shortest, longest = counts
    time_ms = settings.watchdog_s * 1000
    if not shortest <= time_ms <= longest:
        raise ConfigError(
            f"--watchdog is {settings.watchdog_s:g} seconds, and the watchdog of the board "
            f"{board.name!r} supports {shortest / 1000:g} to {longest / 1000:,.0f}"
        )
    return round(time_ms)


def require_fed(
    time_ms: int, program: Program, board: Board, costs: CostProvider, plan: Plan
) -> None:
    """Check that a plan, by the board's costs, feeds a watchdog in time.

    Raises:
        ConfigError: An interval between two feeds is at least the watchdog's period.
    """
    longest_s, what = max(_unfed(program, board, costs, plan))
    if 1000 * longest_s >= time_ms:
        raise ConfigError(
            f"--watchdog is {time_ms / 1000:g} seconds, and {what} takes {longest_s:.3g} by the "
            "board's costs: the watchdog would reset the board again and again",
            "give it several times as long",
        )


def _unfed(
    program: Program, board: Board, costs: CostProvider, plan: Plan
) -> Iterator[tuple[float, str]]:
    """Duration in seconds and description of each interval between two feeds."""
    for graph in (program.training, program.evaluation):
        for node in schedule_problem(graph, board, costs(graph, board), None).nodes:
            yield node.time_s, f"the op {node.name!r}"
    graph = program.training
    problem = schedule_problem(graph, board, costs(graph, board), None)
    if problem.storage is None:
        return
    storage = replace(problem.storage, overlap=False)  # the core may wait for all of a transfer
    bytes_of = {node.name: node.output_bytes for node in problem.nodes}
    for step in plan.training.plan:
        if step.kind is StepKind.PAGE_IN:
            yield storage.page_in_time_s(bytes_of[step.node]), f"the page-in of {step.node!r}"
        elif step.kind is StepKind.PAGE_OUT:
            yield storage.page_out_time_s(bytes_of[step.node]), f"the page-out of {step.node!r}"
    sizes = [tensor.size_bytes for tensor in program.persistent]
    loading_s = sum(map(storage.page_in_time_s, sizes))
    yield loading_s, "loading the tensors from storage"
    yield loading_s + sum(map(storage.page_out_time_s, sizes)), "saving the tensors to storage"
