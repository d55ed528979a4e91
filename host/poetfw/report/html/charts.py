# SPDX-License-Identifier: Apache-2.0
"""Data of a report's charts: one JSON document with every position, which the page only draws.

Lists of equal length are columns of a table; names are indices into `names`. Times are seconds,
energies joules, addresses and sizes bytes. `step` numbers are those of `train_step.c`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from poetfw.firmware import BLOCK_BYTES, statement_numbers
from poetfw.ir import Dtype, Graph, Op, Role
from poetfw.memory import ONLY, Allocation, DeviceArena, MemoryPlan
from poetfw.ops import is_update, kind_of, stores_gradient
from poetfw.report.html.layers import layers_of
from poetfw.report.html.source import ReportSource
from poetfw.report.summary import RunReport
from poetfw.schedule import ExecutionPlan, StepCost, StepKind

_TIMES = "\u00d7"
MOST_LOSSES = 1000
"""Number of points of the loss curve, at most; of more steps, each point is a mean."""


class Action(IntEnum):
    """Kinds of steps, by what they do; the page has a colour for each."""

    FORWARD = 0
    AGAIN = 1
    BACKWARD = 2
    UPDATE = 3
    LOAD = 4
    PAGE_OUT = 5
    PAGE_IN = 6
    COPY = 7


class Content(IntEnum):
    """Kinds of buffers: their contents, and for activations how these came into RAM."""

    ACTIVATION = 0
    AGAIN = 1
    PAGED = 2
    COPIED = 3
    GRADIENT = 4
    BATCH = 5
    WORKSPACE = 6
    PARAMETER = 7
    OPTIMIZER = 8
    STATE = 9


class TextTable:
    """Texts by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """All texts in the order of their numbers."""
        return list(self._numbers)


Columns = dict[str, list[Any]]


def chart_data(source: ReportSource) -> dict[str, Any]:
    """Data of all charts."""
    names = TextTable()
    layers = layers_of(source.graph)
    plan = source.plan.steps
    works = _works(source, plan)
    document = {
        "total_s": source.build.schedule.time_s,
        "energy_j": source.build.schedule.energy_j,
        "statements": statement_numbers(plan)[-1],
        "devices": [names[_device_label(source, part.device)] for part in source.plan.parts],
        "layers": [names[name] for name in dict.fromkeys(layers.values())],
        "steps": _steps(source, works, layers, names),
        "pauses": _pauses(source),
        "arenas": _arenas(source, works, names),
        "network": _network(source, works, layers, names),
        "measured": source.run is not None and source.run.trace is not None,
        "counted": source.run is not None and source.run.tick_unit == "instructions",
        "curve": [list(vars(point).values()) for point in source.build.ram_curve],
        "more_ram": None if source.build.more_ram is None else vars(source.build.more_ram),
        "loss": _losses(source.run),
    }
    return {**document, "names": names.texts}


def _device_label(source: ReportSource, device: str) -> str:
    return device or source.build.board


# Steps ------------------------------------------------------------------------------------------


def _works(source: ReportSource, plan: ExecutionPlan) -> list[Action | None]:
    """Kind of each step's work; None for a free."""
    ops = {op.name: op for op in source.graph.ops}
    computed: set[str] = set()
    works: list[Action | None] = []
    for step in plan:
        match step.kind:
            case StepKind.FREE:
                works.append(None)
            case StepKind.COMPUTE:
                works.append(_work(ops[step.node], step.node in computed))
                computed.add(step.node)
            case _:
                works.append(Action[step.kind.name])
    return works


def _work(op: Op, again: bool) -> Action:
    if again:
        return Action.AGAIN
    if is_update(op):
        return Action.UPDATE
    if op.backward:
        return Action.BACKWARD
    return Action.LOAD if op.kind.startswith("load_") else Action.FORWARD


def _steps(
    source: ReportSource,
    works: Sequence[Action | None],
    layers: Mapping[str, str],
    names: TextTable,
) -> Columns:
    """Table of all steps but frees, in the plan's order."""
    ops = {op.name: op for op in source.graph.ops}
    shapes = {t.name: _TIMES.join(map(str, t.shape)) for t in source.graph.tensors}
    devices = {part.device: number for number, part in enumerate(source.plan.parts)}
    layer_numbers = {name: i for i, name in enumerate(dict.fromkeys(layers.values()))}
    measured = _measured(source.run)
    table: Columns = {
        key: [] for key in ("work", "op", "kind", "shape", "layer", "device", "target", "step")
    } | {"begin": [], "end": [], "energy": [], "measured": [], "spent": []}
    numbers = statement_numbers(source.plan.steps)
    for work, step, number, cost in zip(
        works, source.plan.steps, numbers, source.step_costs, strict=True
    ):
        if work is None:
            continue
        op = ops[step.node]
        table["work"].append(int(work))
        table["op"].append(names[op.name])
        table["kind"].append(names[op.kind])
        table["shape"].append(names[shapes[op.output] if op.output else ""])
        table["layer"].append(layer_numbers[layers[op.name]])
        table["device"].append(devices[step.device])
        table["target"].append(-1 if step.target is None else devices[step.target])
        table["step"].append(number)
        table["begin"].append(cost.begin_s)
        table["end"].append(cost.end_s)
        table["energy"].append(cost.energy_j)
        table["measured"].append(measured.get(number))
        stored = step.kind is not StepKind.COMPUTE or _reads_storage(op, source.graph)
        table["spent"].append(_spent(source.run, stored, cost, measured.get(number)))
    return table


def _measured(run: RunReport | None) -> dict[int, float]:
    """Measured seconds of a step's statements, by number."""
    if run is None or run.trace is None:
        return {}
    return {one.plan_step: one.ticks * run.tick_s for one in run.trace.steps}


def _reads_storage(op: Op, graph: Graph) -> bool:
    inputs = [graph.by_name[name] for name in op.inputs]
    output = None if op.output is None else graph.by_name[op.output]
    return kind_of(op).work(op, inputs, output).storage_bytes > 0


def _spent(
    run: RunReport | None, stored: bool, cost: StepCost, measured_s: float | None
) -> float | None:
    """Joules of a step's measured seconds, at the power that the plan has for it.

    None for steps that use storage on an emulator, which does not have the storage's time.
    """
    planned_s = cost.end_s - cost.begin_s
    if run is None or measured_s is None or not planned_s:
        return None
    if run.emulated and stored:
        return None
    return measured_s * cost.energy_j / planned_s


def _pauses(source: ReportSource) -> Columns:
    """Times in which a device computes no op.

    The core waits for transfers, or works for them: interrupts, copies, checksums. One of several
    devices waits for what others compute and send.
    """
    devices = [part.device for part in source.plan.parts]
    busy: dict[str, list[tuple[float, float]]] = {device: [] for device in devices}
    waits: list[tuple[float, float]] = []
    for step, cost in zip(source.plan.steps, source.step_costs, strict=True):
        if step.kind is StepKind.COMPUTE:
            busy[step.device].append((cost.begin_s, cost.end_s))
        waits += cost.waits
    total_s = source.build.schedule.time_s
    spans: list[tuple[int, float, float, int]] = []
    for number, device in enumerate(devices):
        several = len(devices) > 1
        known = sorted([*busy[device], *waits, (total_s, total_s)])
        until = 0.0
        for begin, end in known:
            if begin > until + 1e-9 * total_s:
                spans.append((number, until, begin, int(not several and begin < total_s)))
            until = max(until, end)
    spans += [(0, *wait, 0) for wait in waits]
    keys = ("device", "begin", "end", "works")
    return {key: [span[place] for span in spans] for place, key in enumerate(keys)}


# Buffers ----------------------------------------------------------------------------------------


def _arenas(
    source: ReportSource, works: Sequence[Action | None], names: TextTable
) -> list[dict[str, Any]]:
    """Panels: an arena of a device with its buffers, or what devices share."""
    panels = []
    for memory, plan in source.memories.items():
        parts = [part.arena for part in source.plan.parts if part.memory == memory]
        alone = len(parts) == 1
        if not alone:
            first = min(arena.offset for arena in parts)
            panels.append(
                _panel("shared by all devices", 0, first, first, _resident(source, plan, names))
            )
        for arena in parts:
            own = arena.own(plan.training)
            begin = 0 if alone else arena.offset
            rows = _resident(source, plan, names) if alone else []
            rows += _stays(source, works, own, arena, names)
            limit = _limit(source, memory, arena) if alone else arena.limit_bytes
            end = plan.arena_bytes if alone else arena.offset + arena.size_bytes
            panels.append(
                _panel(_device_label(source, arena.device), begin, end, begin + limit, rows)
            )
    return panels


def _limit(source: ReportSource, memory: str, arena: DeviceArena) -> int:
    if arena.device == ONLY:
        return source.build.budget_bytes
    return source.build.memories[memory].budget_bytes


_BOX = (
    *("name", "content", "offset", "bytes", "begin", "end", "first", "last"),
    *("writer", "readers", "reader", "final", "out"),
)


def _panel(
    name: str, begin: int, end: int, limit: int, rows: Sequence[tuple[Any, ...]]
) -> dict[str, Any]:
    return {
        "name": name,
        "begin": begin,
        "end": end,
        "limit": limit,
        "boxes": {key: [row[place] for row in rows] for place, key in enumerate(_BOX)},
    }


def _resident(source: ReportSource, memory: MemoryPlan, names: TextTable) -> list[tuple[Any, ...]]:
    """Boxes of what stays for the whole run."""
    tensors = {tensor.name: tensor for tensor in source.program.persistent}
    states = set(source.program.optimizer_states)
    total_s = source.build.schedule.time_s
    steps = statement_numbers(source.plan.steps)[-1]
    readers = source.graph.consumers
    rows = []
    for a in memory.persistent:
        content = Content.OPTIMIZER if a.owner in states else Content.STATE
        if tensors[a.owner].role is Role.PARAMETER:
            content = Content.PARAMETER
        using = [names[op.name] for op in readers.get(a.owner, ())]
        ends = (using[0], using[-1]) if using else (-1, -1)
        box = names[a.owner], int(content), a.offset, a.size_bytes
        rows.append((*box, 0.0, total_s, 1, steps, -1, len(using), *ends, 0))
    page = names["page buffer"], int(Content.STATE), memory.page_buffer_offset, BLOCK_BYTES
    return [*rows, (*page, 0.0, total_s, 1, steps, -1, 0, -1, -1, 0)]


def _stays(
    source: ReportSource,
    works: Sequence[Action | None],
    allocations: Iterable[Allocation],
    arena: DeviceArena,
    names: TextTable,
) -> list[tuple[Any, ...]]:
    """Boxes of an arena's buffers, one for each stay in RAM.

    Where an op writes over its input, both boxes meet in the middle of the op.
    """
    plan, costs, graph = source.plan.steps, source.step_costs, source.graph
    numbers = statement_numbers(plan)
    reads = _reads(source, arena.device)
    chosen = list(allocations)
    begun = {(a.offset, a.lower) for a in chosen if not a.workspace}
    ended = {(a.offset, a.upper - 1) for a in chosen if not a.workspace and a.upper - a.lower > 1}
    rows = []
    for a in chosen:
        lower, upper = a.lower, a.upper
        taken = not a.workspace and upper - lower > 1 and (a.offset, upper - 1) in begun
        takes = not a.workspace and (a.offset, lower) in ended
        begin, end = costs[lower].begin_s, costs[min(upper, len(plan) - 1)].begin_s
        first, last = float(numbers[lower]), float(numbers[upper - 1])
        if a.workspace:
            end = costs[lower].end_s
        if takes:
            begin = (begin + costs[lower].end_s) / 2
            first += 0.5
        if taken:
            end = (costs[upper - 1].begin_s + costs[upper - 1].end_s) / 2
            last -= 0.5
        inside = [i for i in reads[a.owner] if lower < i < upper] if not a.workspace else [lower]
        readers = [names[plan[i].node] for i in inside]
        out = (
            0
            if a.workspace
            else sum(
                plan[i].kind is StepKind.PAGE_OUT and plan[i].node == graph.producer[a.owner].name
                for i in range(lower, upper)
            )
        )
        rows.append(
            (
                names[f"workspace of {a.owner}" if a.workspace else a.owner],
                int(_content(source, works, a)),
                a.offset,
                a.size_bytes,
                begin,
                max(begin, end),
                first,
                last,
                numbers[lower],
                len(readers),
                *((readers[0], readers[-1]) if readers else (-1, -1)),
                out,
            )
        )
    return rows


def _content(source: ReportSource, works: Sequence[Action | None], a: Allocation) -> Content:
    if a.workspace:
        return Content.WORKSPACE
    how = {
        Action.AGAIN: Content.AGAIN,
        Action.PAGE_IN: Content.PAGED,
        Action.COPY: Content.COPIED,
    }.get(works[a.lower] or Action.FORWARD)
    if how is not None:
        return how
    role = source.graph.by_name[a.owner].role
    if role in (Role.INPUT, Role.LABEL):
        return Content.BATCH
    return Content.GRADIENT if role is Role.GRADIENT else Content.ACTIVATION


def _reads(source: ReportSource, device: str) -> Mapping[str, list[int]]:
    """Indices of the compute steps on a device that read a tensor, by the tensor's name."""
    ops = {op.name: op for op in source.graph.ops}
    found: defaultdict[str, list[int]] = defaultdict(list)
    for index, step in enumerate(source.plan.steps):
        if step.kind is StepKind.COMPUTE and step.device == device:
            for name in source.graph.reads(ops[step.node]):
                found[name].append(index)
    return found


# The network ------------------------------------------------------------------------------------


def _network(
    source: ReportSource,
    works: Sequence[Action | None],
    layers: Mapping[str, str],
    names: TextTable,
) -> dict[str, Any]:
    """Layers as columns, edges between them, and how activations reach the backward pass."""
    graph = source.graph
    columns = {name: number for number, name in enumerate(dict.fromkeys(layers.values()))}
    forward: dict[tuple[int, int], None] = {}
    for op in graph.ops:
        if op.backward:
            continue
        for name in graph.reads(op):
            producer = graph.producer.get(name)
            if producer is not None and not producer.backward:
                pair = columns[layers[producer.name]], columns[layers[op.name]]
                if pair[0] != pair[1]:
                    forward[pair] = None
    again = [0] * len(columns)
    paged = [0] * len(columns)
    for work, step in zip(works, source.plan.steps, strict=True):
        column = columns[layers[step.node]]
        again[column] += work is Action.AGAIN
        paged[column] += work is Action.PAGE_OUT
    backward = [0] * len(columns)
    trained = [0] * len(columns)
    shapes = [""] * len(columns)
    words = {t.name for t in graph.tensors if t.dtype is Dtype.I32 and t.role is Role.ACTIVATION}
    for op in graph.ops:
        column = columns[layers[op.name]]
        backward[column] += op.backward and not stores_gradient(op)
        if is_update(op):
            trained[column] += graph.by_name[op.updates[0]].elements
        if not op.backward and op.output is not None and op.output not in words:
            shapes[column] = _TIMES.join(map(str, graph.by_name[op.output].shape[1:]))
    return {
        "shape": [names[text] for text in shapes],
        "again": again,
        "paged": paged,
        "backward": backward,
        "trained": trained,
        "forward": [list(pair) for pair in forward],
        "carried": _carried(source, works, layers, columns, names),
    }


def _carried(
    source: ReportSource,
    works: Sequence[Action | None],
    layers: Mapping[str, str],
    columns: Mapping[str, int],
    names: TextTable,
) -> list[list[int]]:
    """Activations that ops of the backward pass read: tensor, both columns, and how it got there.

    An activation comes from the stay of the tensor in RAM that it is read from.
    """
    graph = source.graph
    ops = {op.name: op for op in graph.ops}
    stays: defaultdict[tuple[str, str], list[Allocation]] = defaultdict(list)
    memory_of = {part.device: part.memory for part in source.plan.parts}
    for part in source.plan.parts:
        if part.memory not in source.memories:
            continue
        for a in part.arena.own(source.memories[memory_of[part.device]].training):
            if not a.workspace:
                stays[part.device, a.owner].append(a)
    carried: dict[tuple[int, int, int, int], None] = {}
    for index, step in enumerate(source.plan.steps):
        op = ops[step.node]
        if step.kind is not StepKind.COMPUTE or not op.backward:
            continue
        for name in graph.reads(op):
            producer = graph.producer.get(name)
            if producer is None or producer.backward:
                continue
            known = (a for a in stays[step.device, name] if a.lower < index < a.upper)
            stay = next(known, None)
            if stay is None:
                continue  # in a memory of another folder
            how = _content(source, works, stay)
            if how not in (Content.AGAIN, Content.PAGED, Content.COPIED):
                how = Content.ACTIVATION
            pair = columns[layers[producer.name]], columns[layers[op.name]]
            carried[names[name], *pair, int(how)] = None
    return [list(row) for row in carried]


# The run ----------------------------------------------------------------------------------------


def _losses(run: RunReport | None) -> dict[str, Any] | None:
    """Losses of a run, and its evaluations; None without any."""
    if run is None or not run.loss:
        return None
    size = -(-len(run.loss) // MOST_LOSSES)
    chunks = [run.loss[k : k + size] for k in range(0, len(run.loss), size)]
    return {
        "first": run.resumed_from + 1,
        "stride": size,
        "values": [sum(chunk) / len(chunk) for chunk in chunks],
        "metric": run.metric_name,
        "evaluations": [[each.step, getattr(each, run.metric_name)] for each in run.evaluations],
    }
