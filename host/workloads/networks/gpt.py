# SPDX-License-Identifier: Apache-2.0
"""A GPT-like training step of any depth, as a schedule problem."""

from __future__ import annotations

from poetfw.boards import Board
from poetfw.costs.analytic import cost_of
from poetfw.ops import OpWork
from poetfw.schedule import Node, ScheduleProblem, Storage

_TOKENS, _WIDTH, _HEADS = 32, 64, 4
_FLOAT = 4
_ELEMENTWISE = 7
"""Multiply-accumulates per element of a norm, a softmax or a GELU: exponentials and divisions."""


class _Step:
    """Nodes of a training step in the order in which they run, and what each costs on a board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.nodes: list[Node] = []
        self.backward = False

    def add(
        self,
        name: str,
        *inputs: str,
        elements: int,
        macs: int,
        before: str | None = None,
        taken: str | None = None,
    ) -> str:
        """Append a node; one without elements is an update. Returns its name."""
        cost = cost_of(OpWork(macs=macs, bytes_moved=0), self.board)
        self.nodes.append(
            Node(
                name,
                inputs,
                cost.time_s,
                cost.energy_j,
                _FLOAT * elements,
                recompute=elements > 0,
                page=elements > 0,
                backward=self.backward,
                recompute_before=before,
                in_place=taken,
            )
        )
        return name


def gpt(layers: int, board: Board) -> ScheduleProblem:
    """The training step: 30 nodes a layer, with RAM enough to keep everything.

    Args:
        layers: of the network, each with attention and a feed-forward part.
        board: whose costs nodes have, by their multiply-accumulates, and whose storage.
    """
    step, wide = _Step(board), _TOKENS * _WIDTH
    scores, linear = _HEADS * _TOKENS * _TOKENS, wide * _WIDTH
    attention = scores * (_WIDTH // _HEADS)
    light = _ELEMENTWISE

    x = step.add("input", elements=wide, macs=wide)
    trunk = []
    for layer in range(layers):
        p = f"{layer}."

        def weights(name: str, *inputs: str, times: int, of: str = p) -> str:
            return step.add(
                of + name,
                *inputs,
                elements=wide * times if name != "fc2" else wide,
                macs=linear * times,
                before=f"u.{of}{name}",
            )

        trunk.append(x)
        norm = step.add(f"{p}norm1", x, elements=wide, macs=light * wide)
        qkv = weights("qkv", norm, times=3)
        score = step.add(f"{p}scores", qkv, elements=scores, macs=attention)
        soft = step.add(f"{p}softmax", score, elements=scores, macs=light * scores)
        context = step.add(f"{p}context", soft, qkv, elements=wide, macs=attention)
        projection = weights("projection", context, times=1)
        added = step.add(f"{p}add1", x, projection, elements=wide, macs=wide)
        norm = step.add(f"{p}norm2", added, elements=wide, macs=light * wide)
        fc1 = weights("fc1", norm, times=4)
        gelu = step.add(f"{p}gelu", fc1, elements=4 * wide, macs=light * 4 * wide)
        fc2 = weights("fc2", gelu, times=4)
        x = step.add(f"{p}add2", added, fc2, elements=wide, macs=wide)
    loss = step.add("loss", x, elements=1, macs=wide)
    step.backward = True
    dx = step.add("d.loss", loss, x, elements=wide, macs=wide)
    for layer in reversed(range(layers)):
        p = f"{layer}."

        def back(
            of: str,
            to: str,
            *inputs: str,
            elements: int,
            macs: int,
            before: str | None = None,
            p: str = p,
        ) -> str:
            return step.add(
                f"d.{p}{of}>{to}",
                *inputs,
                elements=elements,
                macs=macs,
                before=None if before is None else f"u.{p}{before}",
            )

        def update(of: str, dy: str, read: str, times: int, p: str = p) -> None:
            step.add(f"u.{p}{of}", dy, p + read, elements=0, macs=linear * times)

        d_gelu = back("fc2", "gelu", dx, elements=4 * wide, macs=4 * linear, before="fc2")
        update("fc2", dx, "gelu", 4)
        d_fc1 = back("gelu", "fc1", d_gelu, p + "fc1", elements=4 * wide, macs=light * 4 * wide)
        d_norm = back("fc1", "norm2", d_fc1, elements=wide, macs=4 * linear, before="fc1")
        update("fc1", d_fc1, "norm2", 4)
        d_add = back("norm2", "add1", d_norm, p + "add1", elements=wide, macs=light * wide)
        dx = back("add2", "add1", dx, d_add, elements=wide, macs=wide)
        d_context = back(
            "projection", "context", dx, elements=wide, macs=linear, before="projection"
        )
        update("projection", dx, "context", 1)
        d_soft = back("context", "softmax", d_context, p + "qkv", elements=scores, macs=attention)
        d_value = back(
            "context", "qkv", d_context, p + "softmax", elements=3 * wide, macs=attention
        )
        d_scores = back(
            "softmax", "scores", d_soft, p + "softmax", elements=scores, macs=light * scores
        )
        d_qkv = back("scores", "qkv", d_scores, p + "qkv", elements=3 * wide, macs=2 * attention)
        d_qkv = step.add(f"d.{p}qkv", d_qkv, d_value, elements=3 * wide, macs=3 * wide, taken=d_qkv)
        d_norm = back("qkv", "norm1", d_qkv, elements=wide, macs=3 * linear, before="qkv")
        update("qkv", d_qkv, "norm1", 3)
        d_trunk = back("norm1", "trunk", d_norm, trunk[layer], elements=wide, macs=light * wide)
        dx = back("add1", "trunk", dx, d_trunk, elements=wide, macs=wide)
    storage = board.storage
    assert storage is not None
    enough = sum(node.output_bytes for node in step.nodes)
    return ScheduleProblem(
        f"gpt of {layers} layers",
        enough,
        None,
        Storage(storage.block_bytes, storage.page_in, storage.page_out),
        tuple(step.nodes),
    )
