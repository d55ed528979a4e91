# SPDX-License-Identifier: Apache-2.0
"""The steps of optimizers and the pace, in C against NumPy: the same bits in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from poetfw.ir import Attribute, Op
from poetfw.ops import KINDS, Array, fused_name
from poetfw.ops.pace import SHAPES
from poetfw.optimizers import OPTIMIZERS
from unit.kernels.test_error_bounds import SETTINGS

Run = Callable[..., Any]
PACED = np.float32([0.1, 1.0, 1.7, 30.0])
CONVOLUTION: dict[str, Attribute] = {
    **{"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1, "weight_shape": (4, 3, 3, 3)},
}
X, DY = (2, 3, 5, 5), (2, 4, 5, 5)


def in_float32(
    kind: str,
    inputs: Sequence[Array],
    attributes: Mapping[str, Attribute],
    updates: Sequence[Array],
) -> tuple[Array, ...]:
    """The reference's results in the precision of a device: the output, if any, and the updates."""
    names = tuple(f"in{i}" for i in range(len(inputs)))
    updated = tuple(f"state{i}" for i in range(len(updates)))
    op = Op("op", kind, names, "out", attributes, updated)
    return KINDS[kind].results(op, inputs, updates)


def settings_of(kind: str, micro_batches: int, clip: bool) -> dict[str, Attribute]:
    attributes = {**SETTINGS[kind], **({"clip_value": 0.5} if clip else {})}
    if micro_batches > 1:
        attributes |= {"paced": 1, "micro_batches": micro_batches}
    return attributes


def drawn(kind: str, shape: tuple[int, ...], attributes: Mapping[str, Attribute]) -> list[Array]:
    """A parameter and what is kept of it; whatever is a sum of squares is not negative."""
    random = np.random.default_rng(0)
    op = Op("op", kind, (), None, attributes)
    tensors = [random.standard_normal(shape).astype(np.float32)]
    update = KINDS[kind]
    for name in update.kept(op):  # type: ignore[attr-defined]
        value = random.standard_normal(shape).astype(np.float32)
        tensors.append(np.abs(value) if name in ("exp_avg_sq", "square_avg", "sum") else value)
    return tensors


def pace_of(attributes: Mapping[str, Attribute], complete: bool) -> list[Array]:
    pace = PACED if complete else PACED * np.float32([1, 0, 0, 0])
    return [pace] if "paced" in attributes else []


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("micro_batches", "complete"), [(1, True), (3, False), (3, True)])
def test_a_step_has_the_bits_of_its_reference(
    run_kernel: Run, kind: str, clip: bool, micro_batches: int, complete: bool
) -> None:
    attributes = settings_of(kind, micro_batches, clip)
    gradient = np.random.default_rng(1).standard_normal(50).astype(np.float32)
    updates = drawn(kind, (50,), attributes)
    inputs = [gradient, *pace_of(attributes, complete)]
    ran = run_kernel(kind, inputs, attributes, updates)
    for ours, theirs in zip(
        ran.updates, in_float32(kind, inputs, attributes, updates), strict=True
    ):
        assert ours.tobytes() == theirs.astype(np.float32).tobytes()
    same = [new.tobytes() == old.tobytes() for new, old in zip(ran.updates, updates, strict=True)]
    assert same == [not complete] * (len(updates) - 1) + [False]
    if micro_batches > 1:
        assert (ran.updates[-1] == (0 if complete else updates[-1] + gradient)).all()


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("micro_batches", "complete"), [(1, True), (3, False), (3, True)])
@pytest.mark.parametrize("shape", [(4, 2, 3, 3), (5, 3)])
def test_a_part_of_a_weight_is_updated_as_if_it_were_one(
    run_kernel: Run, kind: str, clip: bool, micro_batches: int, complete: bool, shape: Any
) -> None:
    attributes = settings_of(kind, micro_batches, clip)
    random = np.random.default_rng(1)
    gradient = random.standard_normal(shape).astype(np.float32)
    weight = random.standard_normal((shape[0], 7, *shape[2:])).astype(np.float32)
    alone = drawn(kind, shape, attributes)
    alone[0] = np.ascontiguousarray(weight[:, : shape[1]])
    inputs = [gradient, *pace_of(attributes, complete)]
    ran = run_kernel(kind, inputs, attributes, [weight, *alone[1:]])
    expected = in_float32(kind, inputs, attributes, alone)
    new, *states = ran.updates
    assert new[:, : shape[1]].tobytes() == expected[0].astype(np.float32).tobytes()
    assert (new[:, shape[1] :] == weight[:, shape[1] :]).all()
    for ours, theirs in zip(states, expected[1:], strict=True):
        assert ours.tobytes() == theirs.astype(np.float32).tobytes()
    assert not ran.bounds[0][:, shape[1] :].any()


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
@pytest.mark.parametrize(("micro_batches", "complete"), [(1, True), (2, False), (2, True)])
@pytest.mark.parametrize(
    ("gradient", "shapes", "more"),
    [
        ("conv2d_backward_weight", (X, DY), CONVOLUTION),
        (
            "conv2d_backward_weight",
            ((2, 4, 5, 5), DY),
            {**CONVOLUTION, "groups": 4, "weight_shape": (4, 1, 3, 3)},
        ),
        ("linear_backward_weight", ((3, 21), (3, 5)), {}),
    ],
    ids=["conv2d", "depthwise", "linear"],
)
def test_a_gradient_applied_unstored_gives_the_bits_of_a_stored_one(
    run_kernel: Run,
    kind: str,
    micro_batches: int,
    complete: bool,
    gradient: str,
    shapes: Sequence[tuple[int, ...]],
    more: Mapping[str, Attribute],
) -> None:
    attributes = settings_of(kind, micro_batches, clip=True)
    random = np.random.default_rng(2)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    stored = run_kernel(gradient, inputs, more).output
    pace = pace_of(attributes, complete)
    updates = drawn(kind, stored.shape, attributes)
    apart = run_kernel(kind, [stored, *pace], attributes, updates)
    fused = run_kernel(
        fused_name(gradient, kind), [*inputs, *pace], {**more, **attributes}, updates
    )
    for ours, theirs in zip(fused.updates, apart.updates, strict=True):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("warm_up", [0, 5])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_pace_has_the_bits_of_its_reference(
    run_kernel: Run, shape: int, warm_up: int, micro_batches: int
) -> None:
    attributes: dict[str, Attribute] = {
        **{"learning_rate": 0.3, "schedule": shape, "period": 7, "factor": 0.7},
        **{"warm_up": warm_up, "micro_batches": micro_batches, "beta1": 0.9, "beta2": 0.999},
    }
    state = np.zeros(4, np.float32)
    for _ in range(20 * micro_batches):
        ran = run_kernel("pace", [], attributes, [state])
        pace, expected = in_float32("pace", [], attributes, [state])
        assert ran.output.tobytes() == pace.astype(np.float32).tobytes()
        assert ran.updates[0].tobytes() == expected.astype(np.float32).tobytes()
        (state,) = ran.updates
    assert state[0] == 20


def test_steps_are_counted_as_far_as_floats_go(run_kernel: Run) -> None:
    attributes: dict[str, Attribute] = {
        **{"learning_rate": 1.0, "schedule": 1, "period": 2**20, "factor": 0.5},
        **{"warm_up": 0, "micro_batches": 1},
    }
    ran = run_kernel("pace", [], attributes, [np.float32([2**24, 0])])
    assert ran.output.tolist() == [0.5**16, 1]
    assert ran.updates[0].tolist() == [2**24, 0]


def test_a_gradient_that_is_no_number_is_not_clipped_to_one(run_kernel: Run) -> None:
    attributes = settings_of("sgd", 1, clip=True)
    gradient = np.float32([np.nan, np.inf, 1])
    ran = run_kernel("sgd", [gradient], attributes, drawn("sgd", (3,), attributes))
    assert np.isnan(ran.updates[0]).tolist() == [True, False, False]
