# SPDX-License-Identifier: Apache-2.0
"""Choice of the persistent tensors that stay in RAM, by what their transfers would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from poetfw.memory import padded
from poetfw.ops import streamed_kind
from poetfw.planning.problem import streaming_cost
from poetfw.schedule import Storage
from poetfw.training import Program, StreamableWeight, stream, streamable_vectors

_SLOTS = 4096
"""Most sizes of the RAM that are told apart."""


@dataclass(frozen=True, slots=True)
class Group:
    """Persistent tensors that are in RAM together, or in storage: those that one op updates.

    Attributes:
        names: names of the tensors.
        size_bytes: RAM that they take.
        transfers_j: energy in joules of their transfers in one execution of an op, by its name.
    """

    names: tuple[str, ...]
    size_bytes: int
    transfers_j: Mapping[str, float]

    def energy_j(self, runs: Mapping[str, int]) -> float:
        """Energy of their transfers in a step.

        Args:
            runs: how often each op runs, by its name; once if it is left out.
        """
        return sum(joules * runs.get(op, 1) for op, joules in self.transfers_j.items())


def groups_of(
    program: Program,
    weights: Sequence[StreamableWeight],
    tiles: Mapping[str, tuple[int, ...]],
    storage: Storage,
) -> tuple[Group, ...]:
    """All tensors that can be streamed, in groups.

    Args:
        program: a program in which nothing is streamed.
        weights: weights that can be streamed in tiles.
        tiles: their tiles.
        storage: storage with the costs of transfers.
    """
    vectors = set(streamable_vectors(program))
    updates = [op.updates for op in program.training.ops]
    found = [
        _group(program, each.group, {each.weight.name: tiles[each.weight.name]}, storage)
        for each in weights
    ]
    return (
        *found,
        *(
            _group(program, names, {}, storage)
            for names in updates
            if vectors.issuperset(names) and names
        ),
    )


def _group(
    program: Program, names: tuple[str, ...], tiles: Mapping[str, tuple[int, ...]], storage: Storage
) -> Group:
    streamed = stream(program, tiles, () if tiles else names).training
    transfers = {
        op.name: streaming_cost(op, streamed, storage).energy_j
        for op in streamed.ops
        if streamed_kind(op) is not None
    }
    tensors = program.training.by_name
    return Group(names, sum(padded(tensors[name].size_bytes) for name in names), transfers)


def streamed_names(
    groups: Sequence[Group], runs: Mapping[str, int], room_bytes: int
) -> frozenset[str]:
    """Names of the tensors that are streamed, at the least energy, where the others fit some RAM.

    Args:
        groups: tensors that can be streamed.
        runs: how often each op runs; see `Group.energy_j`.
        room_bytes: RAM for those that are not streamed.
    """
    unit = max(1, -(-room_bytes // _SLOTS))
    slots = max(0, room_bytes) // unit
    saved_j = np.zeros(slots + 1)  # by the RAM that is left for these groups and those before
    kept = []
    for group in groups:
        size, better_j = -(-group.size_bytes // unit), saved_j.copy()
        if size <= slots:
            rest = saved_j[: slots + 1 - size] + group.energy_j(runs)
            better_j[size:] = np.maximum(saved_j[size:], rest)
        kept.append(better_j > saved_j)
        saved_j = better_j
    streamed: set[str] = set()
    for group, keeps in zip(reversed(groups), reversed(kept), strict=True):
        if keeps[slots]:
            slots -= -(-group.size_bytes // unit)
        else:
            streamed.update(group.names)
    return frozenset(streamed)
