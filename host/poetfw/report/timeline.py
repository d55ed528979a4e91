# SPDX-License-Identifier: Apache-2.0
"""Timeline of a plan for several devices: a lane for each device and each link."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.report.drawing import GREEN, ORANGE, PURPLE, SKY, literal, new_figure, render, short
from poetfw.schedule import ExecutionPlan, StepCost, StepKind
from poetfw.schedule.several import DevicesProblem, device_step_costs

_COLOURS = {"computed": GREEN, "computed again": ORANGE, "copied": SKY, "paged": PURPLE}


def draw_timeline(problem: DevicesProblem, plan: ExecutionPlan, kind: str) -> bytes:
    """A plan for several devices as one picture, the bytes of an `svg` or `png` file.

    Raises:
        PlanError: The plan is illegal.
    """
    lanes = lanes_of(plan, device_step_costs(problem, plan))
    with new_figure(10.0, 1.4 + 0.5 * len(lanes)) as figure:
        axes = figure.subplots()
        for number, bars in enumerate(lanes.values()):
            for means, colour in _COLOURS.items():
                ranges = [
                    (span.begin_s * 1e3, (span.end_s - span.begin_s) * 1e3)
                    for what, span in bars
                    if what == means
                ]
                if ranges:
                    axes.broken_barh(
                        ranges, (number - 0.4, 0.8), facecolors=colour, edgecolor="none"
                    )
        axes.set_yticks(range(len(lanes)), [literal(short(name, 40)) for name in lanes])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("time of one training step (ms)")
        axes.set_title(literal(short(problem.name, 60)), fontsize=9)
        shown = {what for bars in lanes.values() for what, _ in bars}
        for means in _COLOURS:
            if means in shown:
                axes.bar(0, 0, color=_COLOURS[means], label=means)
        figure.legend(loc="outside lower center", ncols=len(_COLOURS), frameon=False)
    return render(figure, kind, f"Who computes what when: {problem.name}")


def lanes_of(
    plan: ExecutionPlan, costs: Sequence[StepCost]
) -> dict[str, list[tuple[str, StepCost]]]:
    """Labelled steps of each device, and of each pair of devices with a link."""
    devices: dict[str, list[tuple[str, StepCost]]] = {}
    links: dict[str, list[tuple[str, StepCost]]] = {}
    computed: set[str] = set()
    for step, cost in zip(plan, costs, strict=True):
        if step.kind is StepKind.FREE:
            continue
        if step.target is not None:
            pair = " - ".join(sorted((step.device, step.target)))
            links.setdefault(pair, []).append(("copied", cost))
            continue
        what = "paged"
        if step.kind is StepKind.COMPUTE:
            what = "computed again" if step.node in computed else "computed"
            computed.add(step.node)
        devices.setdefault(step.device, []).append((what, cost))
    return dict(sorted(devices.items())) | dict(sorted(links.items()))
