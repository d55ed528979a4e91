# SPDX-License-Identifier: Apache-2.0
"""Training step as a chain of segments, the input of methods for chains."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.common.errors import UnsuitableError
from poetfw.schedule.baselines.emitter import Emitter
from poetfw.schedule.baselines.passes import forward_nodes, last_forward_use
from poetfw.schedule.indexed import Indexed


@dataclass(frozen=True, slots=True)
class Segment:
    """Segment of a chain.

    Attributes:
        forward: its nodes of the forward pass.
        backward: its nodes of the backward pass.
        input: the one tensor that it reads from earlier segments; None for the first segment.
        output: the one tensor that later segments read; None for the last segment.
        saved: its tensors, other than the output, that the backward pass reads.
    """

    forward: range
    backward: range
    input: int | None
    output: int | None
    saved: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Training step grouped into segments.

    Attributes:
        graph: the problem.
        forward: number of nodes of the forward pass.
        segments: the forward pass, cut at each articulation point, in order.
        sources: tensors of forward nodes without inputs, such as images and labels. Any segment may
            read them; they stay in RAM until their last use and are not part of the chain.
    """

    graph: Indexed
    forward: int
    segments: tuple[Segment, ...]
    sources: frozenset[int]

    def own(self, segment: Segment) -> list[int]:
        """Tensors that the segment's forward nodes make, without sources."""
        return [i for i in segment.forward if self.graph.size[i] and i not in self.sources]


def chain_of(graph: Indexed, method: str) -> Chain:
    """Group a training step into a chain.

    The forward pass is cut wherever only one tensor, sources aside, crosses the cut: batch norm
    with its statistics, or a residual block, becomes one segment. A backward node belongs to the
    last segment whose own tensors or input it or a later node reads.

    Raises:
        UnsuitableError: the problem has no two passes, or the forward pass has no cut.
    """
    forward = forward_nodes(graph, method)
    sources = frozenset(
        i for i in range(forward) if graph.size[i] and not graph.problem.nodes[i].inputs
    )
    cuts = _cuts(graph, forward, sources)
    if not cuts:
        raise UnsuitableError(method, "the forward pass is not a chain: no tensor separates it")
    edges = [0, *(position for position, _ in cuts), forward]
    outputs = [tensor for _, tensor in cuts]
    count = len(edges) - 1
    reader = [0] * forward
    for number in range(count):
        for i in range(edges[number], edges[number + 1]):
            if i not in sources:
                reader[i] = number
    for number, tensor in enumerate(outputs):
        reader[tensor] = number + 1
    backward: list[list[int]] = [[] for _ in range(count)]
    latest = 0
    for t in reversed(range(forward, graph.n)):
        latest = max([latest, *(reader[u] for u in graph.inputs[t] if u < forward)])
        backward[latest].append(t)
    segments = []
    end = forward
    for number in reversed(range(count)):
        start, end = end, end + len(backward[number])
        own = range(edges[number], edges[number + 1])
        output = outputs[number] if number < count - 1 else None
        saved = tuple(
            i
            for i in own
            if i != output and i not in sources and any(j >= forward for j in graph.consumers[i])
        )
        segments.append(
            Segment(own, range(start, end), outputs[number - 1] if number else None, output, saved)
        )
    return Chain(graph, forward, tuple(reversed(segments)), sources)


def _cuts(graph: Indexed, forward: int, sources: frozenset[int]) -> list[tuple[int, int]]:
    """Cuts of the forward pass as (first node after it, crossing tensor)."""
    last = {
        i: last_forward_use(graph, forward, i)
        for i in range(forward)
        if graph.size[i] and i not in sources
    }
    cuts: list[tuple[int, int]] = []
    crossing: set[int] = set()
    for p in range(forward - 1):
        crossing = {i for i in crossing if last[i] > p}
        if last.get(p, p) > p:
            crossing.add(p)
        if len(crossing) == 1:
            (tensor,) = crossing
            if not cuts or cuts[-1][1] != tensor:
                cuts.append((p + 1, tensor))
    return cuts


class ChainWriter:
    """Shared parts of the methods that write plans for chains.

    Args:
        chain: the grouped problem.
        emitter: receives the steps.
        reloaded: sources that are dropped after each segment and loaded again.
    """

    def __init__(self, chain: Chain, emitter: Emitter, reloaded: frozenset[int]) -> None:
        self.chain = chain
        self.emitter = emitter
        self.reloaded = reloaded

    def reverse(self, segment: Segment) -> None:
        """Run a segment's backward nodes, then drop its tensors and its input."""
        for i in segment.backward:
            self.emitter.compute(i)
        for i in self.chain.own(segment):
            self.emitter.drop(i)
        if segment.input is not None:
            self.emitter.drop(segment.input)
        self.drop_sources()

    def drop_sources(self) -> None:
        """Drop the sources that are loaded again."""
        for i in self.reloaded:
            self.emitter.drop(i)
