# SPDX-License-Identifier: Apache-2.0
"""Choice of the parameters to train within a budget, as a mixed-integer program.

A choice is a parameter, or a number of its input channels. Each choice has a binary variable; at
most one choice of a parameter is selected. The objective is the sum of the selected scores.

The needs of training follow from the training graphs of single choices. An op of the backward pass
exists with several choices if it exists with one of them, as its purpose is to pass a gradient on
to a parameter below, or to apply it. Its existence is thus a logical "or" of choices. So is
liveness: a tensor is live at an op if any later op reads it. Each such set of choices has a
variable, bounded from below by those of its choices. The bytes at each op and the joules of all ops
are sums over these variables.

The model is exact if ops run in the derived order, gradients are stored as in the graphs of single
choices, and no two gradients of a tensor are added. Such a sum exists for pairs of choices only; it
is left out, and both terms are counted as if they waited for it. As a build may store fewer
gradients and find an order of lower peak, the needs of a solution are measured afterwards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from poetfw.common.limits import Deadline, Work
from poetfw.costs import CostTable
from poetfw.ir import Graph, Op, Role
from poetfw.memory import padded
from poetfw.ops import is_update, kind_of
from poetfw.schedule.milp import IntegerProgram, SolverOptions, solve_program
from poetfw.training import Program, in_place_input


@dataclass(frozen=True)
class Choice:
    """Parameter, or a part of it, that can be selected for training.

    Attributes:
        parameter: name of the parameter.
        channels: number of its first input channels to train; None for all.
    """

    parameter: str
    channels: int | None = None


@dataclass(frozen=True)
class Needs:
    """Bytes and joules of training.

    Attributes:
        size_bytes: bytes at the peak in addition to those that inference keeps for the whole run:
            activations, gradients, optimizer state.
        energy_j: energy of one training step, by the costs of its ops.
    """

    size_bytes: float
    energy_j: float

    def within(self, limits: Needs) -> bool:
        """True if neither bytes nor joules exceed these limits."""
        return self.size_bytes <= limits.size_bytes and self.energy_j <= limits.energy_j


_Key = tuple[str, str, int, int]
"""Identity of an op in all graphs: name, kind, bytes of its output and of its inputs."""

_Mask = tuple[int, int]
"""Two sets of choices as bit masks: the condition that one of the first, and none of the second, is
selected."""


@dataclass
class _Item:
    """Op that is the same in the graphs of several choices.

    Attributes:
        position: position in the op order.
        output_bytes: bytes of its output, padded.
        workspace_bytes: bytes of its workspace, padded.
        energy_j: its energy.
        backward: True for an op of the backward pass.
        choices: choices in whose graphs it exists.
        readers: ops that read its output.
        in_place: op whose output it may overwrite with its own.
        taken_from: for a slice of trained channels, the op that computes the sliced tensor.
    """

    position: float
    output_bytes: int
    workspace_bytes: int
    energy_j: float
    backward: bool
    choices: int = 0
    readers: set[_Key] = field(default_factory=set)
    in_place: _Key | None = None
    taken_from: _Key | None = None


class UpdateProgram:
    """Mixed-integer program over the choices of a model."""

    def __init__(
        self,
        whole: Program,
        inference_bytes: int,
        choices: Sequence[Choice],
        derive: Callable[[Choice], Program],
        costs: Callable[[Graph], CostTable],
        told: Callable[[int], None] = lambda done: None,
        deadline: Deadline | None = None,
    ) -> None:
        """Collect the needs of the choices.

        Args:
            whole: program that trains all parameters, with stored gradients.
            inference_bytes: peak of the evaluation step in bytes.
            choices: choices of parameters to train.
            derive: derives the program that trains a single choice.
            costs: provider of the costs of a graph's ops.
            told: called at times with the number of choices done.
            deadline: end of the work; None for no limit.

        Raises:
            OutOfTime: The deadline has passed.
        """
        self.choices = tuple(choices)
        self._all = (1 << len(choices)) - 1
        self._items: dict[_Key, _Item] = {}
        self._kept: list[int] = []
        self._beside = 0
        positions = {op.name: float(at) for at, op in enumerate(whole.training.ops)}
        for bit, choice in enumerate((deadline or Deadline()).during(choices)):
            if bit % 10 == 0:
                told(bit)
            program = derive(choice)
            graph = program.training
            self._add(1 << bit, graph, costs(graph), positions)
            updates = [op for op in graph.ops if is_update(op)]
            kept = [name for op in updates for name in op.updates]
            self._kept.append(sum(padded(graph.by_name[name].size_bytes) for name in kept))
            self._beside = added_bytes(program) - self._kept[-1]
        self._rows = [{(self._all, 0): float(inference_bytes)}, *self._live_bytes()]

    def _add(
        self, bit: int, graph: Graph, table: CostTable, positions: Mapping[str, float]
    ) -> None:
        keys = {op.name: _key(op, graph) for op in graph.ops}
        position = -1.0
        for op in graph.ops:
            position = positions.get(op.name, position + 2**-10)
            item = self._items.setdefault(
                keys[op.name],
                _Item(
                    position,
                    keys[op.name][2],
                    padded(kind_of(op).workspace_bytes(op, graph)),
                    table.ops[op.name].energy_j,
                    op.backward,
                ),
            )
            item.choices |= bit
            taken = in_place_input(graph, op)
            if taken is not None:
                item.in_place = keys[graph.producer[taken].name]
            for name in graph.reads(op):
                if name in graph.producer:
                    source = keys[graph.producer[name].name]
                    self._items[source].readers.add(keys[op.name])
                    if op.name not in positions and op.kind == "slice":
                        item.taken_from = source

    def solve(
        self, scores: Sequence[float], limits: Needs, work: Work
    ) -> tuple[tuple[Choice, ...], Needs]:
        """Select the choices of the largest sum of scores within limits; returns their needs, too.

        The selection is empty if no choice fits, or if the work ends first.

        Args:
            scores: score of each choice, 0 or more.
            limits: limits of training's needs; infinite for no limit.
            work: limit of the search.
        """
        alone = (self.needs([bit]).energy_j for bit in range(len(self.choices)))
        if math.isfinite(limits.energy_j) and min(alone) > limits.energy_j:
            return (), self.needs(())  # the solver takes no shares of much less than a step
        milp = IntegerProgram()
        chosen = [milp.binary(-score) for score in scores]
        groups: dict[str, list[int]] = defaultdict(list)
        for bit, choice in enumerate(self.choices):
            groups[choice.parameter].append(bit)
        for bits in groups.values():
            milp.at_most([(chosen[bit], 1.0) for bit in bits], 1.0)
        columns: dict[_Mask, int] = {}

        def column_of(mask: _Mask) -> int:
            if mask not in columns:
                columns[mask] = column = milp.continuous()
                some, unless = mask
                for bits in groups.values():
                    terms = [(chosen[bit], 1.0) for bit in bits if some >> bit & 1]
                    if terms and unless:
                        terms.append((at_most_any_of(unless), -1.0))
                    if terms:
                        milp.at_most([*terms, (column, -1.0)], 0.0)
            return columns[mask]

        def at_most_any_of(mask: int) -> int:
            if (0, mask) not in columns:
                columns[0, mask] = column = milp.continuous()
                taken = [(chosen[bit], -1.0) for bit in range(len(chosen)) if mask >> bit & 1]
                milp.at_most([(column, 1.0), *taken], 0.0)
            return columns[0, mask]

        def require(
            terms: Mapping[_Mask, float], more: list[tuple[int, float]], limit: float
        ) -> None:
            always = (self._all, 0)
            some = [(column_of(mask), value) for mask, value in terms.items() if mask != always]
            milp.at_most([*some, *more], limit - terms.get(always, 0.0))

        if math.isfinite(limits.size_bytes):
            states = [(chosen[bit], float(size)) for bit, size in enumerate(self._kept)]
            for row in self._rows:
                require(row, states, limits.size_bytes - self._beside)
        if math.isfinite(limits.energy_j):
            energy: dict[_Mask, float] = defaultdict(float)
            for item in self._items.values():
                energy[item.choices, 0] += item.energy_j / limits.energy_j
            require(energy, [], 1.0)
        solution = solve_program(milp, SolverOptions(gap=1e-9), work)
        if solution.values is None:
            return (), self.needs(())
        taken = [bit for bit, column in enumerate(chosen) if solution.values[column] > 0.5]
        return tuple(self.choices[bit] for bit in taken), self.needs(taken)

    def needs(self, taken: Sequence[int]) -> Needs:
        """Estimated needs of choices, given by their indices."""
        mask = sum(1 << bit for bit in taken)

        def total(terms: Mapping[_Mask, float]) -> float:
            return sum(
                value
                for (some, unless), value in terms.items()
                if (some & mask or some == self._all) and not unless & mask
            )

        peak = max(map(total, self._rows)) + sum(self._kept[bit] for bit in taken) + self._beside
        items = self._items.values()
        energy_j = sum(
            item.energy_j for item in items if item.choices & mask or item.choices == self._all
        )
        return Needs(peak, energy_j)

    def _live_bytes(self) -> Iterator[dict[_Mask, float]]:
        """Live bytes during each op, by the condition on choices under which they are live."""
        live: list[_Stay] = []
        for item in sorted(self._items.values(), key=lambda item: item.position):
            at = item.position
            row: dict[_Mask, float] = defaultdict(float)
            row[item.choices, 0] += item.workspace_bytes
            live = [stay for stay in live if stay.choices(at)[0]]
            stay = _Stay(item, self._items)
            for other in (*live, stay):
                over = item.in_place is not None and other.item is self._items[item.in_place]
                row[other.choices(at, beyond=over)] += other.item.output_bytes
            row.pop((0, 0), None)
            live.append(stay)
            yield {mask: size for mask, size in row.items() if size}


class _Stay:
    """Lifetime of an op's output."""

    def __init__(self, item: _Item, items: Mapping[_Key, _Item]) -> None:
        self.item = item
        self._ends: list[tuple[float, int]] = []
        mask = 0
        for reader in sorted((items[key] for key in item.readers), key=lambda r: -r.position):
            mask |= reader.choices
            self._ends.append((reader.position, mask))
        # What takes channels of a tensor that stays for others runs as late as it is read.
        self._late = 0
        if item.taken_from is not None:
            others = (items[key] for key in items[item.taken_from].readers)
            for other in others:
                if other.backward and other.taken_from is None:
                    self._late |= other.choices

    def choices(self, position: float, *, beyond: bool = False) -> _Mask:
        """Choices with which the output is read at or after a position (or only after it)."""
        found = self.item.choices if position == self.item.position else 0
        for at, mask in self._ends:
            if at < position or (beyond and at == position):
                break
            found = mask
        read = bool(self._ends) and position >= self._ends[-1][0]
        return found, 0 if read else self._late


def added_bytes(program: Program) -> int:
    """Bytes of persistent tensors other than running statistics."""
    read = {name for op in program.evaluation.ops for name in op.inputs}
    tensors = (t for t in program.persistent if t.role is not Role.STATE or t.name not in read)
    return sum(padded(tensor.size_bytes) for tensor in tensors)


def _key(op: Op, graph: Graph) -> _Key:
    size = 0 if op.output is None else padded(graph.by_name[op.output].size_bytes)
    read = sum(graph.by_name[name].size_bytes for name in op.inputs)
    return op.name, op.kind, size, read
