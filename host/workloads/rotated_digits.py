# SPDX-License-Identifier: Apache-2.0
"""A trained network moved to rotated digits: what is gained by training a part of it.

The network is trained on the digits, and then goes on with the same digits turned by some degrees,
whole and in parts, each from the same weights and with the same batches. Everything runs on this
computer, by the reference in float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import rotate

from poetfw.boards import load_board
from poetfw.common.limits import Work
from poetfw.costs import analytic_costs
from poetfw.importers import DataSet, load_data
from poetfw.models import Model, build_model
from poetfw.ops import Array
from poetfw.planning import BuildSettings, Updates, calibration_batches, held_out_batches
from poetfw.settings import UpdateBudget
from poetfw.training import Program, Reference, Selection, select

EPOCHS_BEFORE, EPOCHS = 5, 3
CALIBRATION_BATCHES = 8


@dataclass(frozen=True)
class Outcome:
    """One way to go on, with one seed.

    Attributes:
        way: its name.
        seed: of the first weights and the order of samples.
        bytes_share, energy_share: of training everything.
        before: accuracy on the turned digits before.
        accuracy: afterwards.
        gain_share: of what training everything gains.
        trained: what is trained, with its channels.
    """

    way: str
    seed: int
    bytes_share: float
    energy_share: float
    before: float
    accuracy: float
    gain_share: float
    trained: str


def outcomes(
    model: str, batch: int, degrees: float, share: float, seed: int, variants: Sequence[str] = ()
) -> list[Outcome]:
    """Outcome of every way to go on, with one seed.

    Args:
        model: a built-in model that the digits fit.
        batch: samples in a batch.
        degrees: by how much digits are turned.
        share: of the bytes that training everything takes, the budget of the plan.
        seed: of the first weights and the order of samples.
        variants: what `--train` takes, to compare with.
    """
    first = build_model(model, batch, seed)
    data = load_data("digits", first)
    whole = updates_of(first)
    everything = whole.program(whole.everything())
    weights = train(everything, first.weights, data, EPOCHS_BEFORE, seed)
    trained = replace(
        first, weights={name: weights[name].astype(np.float32) for name in first.weights}
    )
    turned = replace(data, x_train=turn(data.x_train, degrees), x_test=turn(data.x_test, degrees))
    updates = updates_of(trained)
    batches = calibration_batches(turned, batch, CALIBRATION_BATCHES, seed)
    plan = updates.plan(UpdateBudget(bytes_share=share), batches, Work())
    selections = {"everything": updates.everything(), "plan": plan.selection}
    selections |= {way: select(first.graph, way.split("+")) for way in variants}
    before = accuracy(everything, trained.weights, turned, trained)
    found: list[Outcome] = []
    for way, selection in selections.items():
        program, needs = updates.program(selection), updates.measure(selection, Work())
        after = train(program, trained.weights, turned, EPOCHS, seed + 1)
        reached = accuracy(program, after, turned, trained)
        gain = found[0].accuracy - before if found else reached - before
        found.append(
            Outcome(
                way,
                seed,
                needs.size_bytes / plan.full.size_bytes,
                needs.energy_j / plan.full.energy_j,
                before,
                reached,
                (reached - before) / gain,
                text_of(selection),
            )
        )
    return found


def updates_of(model: Model) -> Updates:
    """The parts of a model that may be trained, on this computer."""
    settings = BuildSettings("linux", model.name, batch=model.batch)
    return Updates(settings, model, load_board("linux"), analytic_costs)


def train(
    program: Program, weights: Mapping[str, Array], data: DataSet, epochs: int, seed: int
) -> Mapping[str, Array]:
    """The tensors after so many passes over the samples, each in another order."""
    reference, random = Reference(program, weights, np.float32), np.random.default_rng(seed)
    for _ in range(epochs):
        order, batch = random.permutation(len(data.x_train)), program.batch
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start : start + batch]
            reference.step(data.x_train[rows], data.y_train[rows])
    return reference.persistent


def accuracy(program: Program, weights: Mapping[str, Array], data: DataSet, model: Model) -> float:
    """Share of the held-out samples that get the right answer."""
    reference, (x, y) = Reference(program, weights, np.float32), held_out_batches(data, model)
    starts = range(0, len(x), model.batch)
    right = sum(reference.evaluate(x[i : i + model.batch], y[i : i + model.batch]) for i in starts)
    return right / len(data.x_test)


def turn(x: Array, degrees: float) -> Array:
    """Square images [n, channels, rows, columns] or [n, pixels], turned; what comes in is 0."""
    side = x.shape[3] if x.ndim == 4 else math.isqrt(x.shape[1])
    images = x.reshape(len(x), -1, side, side)
    turned: Array = rotate(images, degrees, (3, 2), reshape=False, order=1)
    return turned.astype(np.float32).reshape(x.shape)


def text_of(selection: Selection) -> str:
    """Names of what is trained, with their channels."""
    return " ".join(
        f"{name}[:{selection.channels[name]}]" if name in selection.channels else name
        for name in sorted(selection.parameters)
    )
