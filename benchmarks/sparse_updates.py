# SPDX-License-Identifier: Apache-2.0
"""A trained network moved to rotated digits: what is gained by training a part of it.

The network is trained on the digits, and then goes on with the same digits turned by some degrees,
whole and in parts, each from the same weights and with the same batches. Everything runs on this
computer, by the reference in float32. Run it with

    python benchmarks/sparse_updates.py [--model NAME] [--batch N] [--degrees D] [--share F]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy.ndimage import rotate

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.importers import DataSet, load_data
from poetfw.limits import Work
from poetfw.models import Model, build_model
from poetfw.ops import Array
from poetfw.planning import Budget, BuildSettings, Updates, calibration_batches, held_out_batches
from poetfw.training import Program, Reference, Selection, select

EPOCHS_BEFORE, EPOCHS = 5, 3
CALIBRATION_BATCHES = 8

COLUMNS = """\
Means over the seeds, and the least in brackets.

    bytes      of training at the peak, of what training everything takes
    energy     joules of a training step, of what training everything takes
    accuracy   on held-out samples
    gain       of accuracy on the turned digits, of what training everything gains
"""


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
    model: str, batch: int, degrees: float, share: float, seed: int, ways: Sequence[str] = ()
) -> list[Outcome]:
    """What every way to go on comes to with one seed.

    Args:
        model: a built-in model that the digits fit.
        batch: samples in a batch.
        degrees: by how much digits are turned.
        share: of the bytes that training everything takes, the budget of the plan.
        seed: of the first weights and the order of samples.
        ways: what `--train` takes, to compare with.
    """
    first = build_model(model, batch, seed)
    data = load_data("digits", first)
    whole = updates_of(first)
    everything = whole.program(whole.everything())
    weights = train(everything, first.weights, data, EPOCHS_BEFORE, seed)
    trained = replace(first, weights={name: np.float32(weights[name]) for name in first.weights})
    turned = replace(data, x_train=turn(data.x_train, degrees), x_test=turn(data.x_test, degrees))
    updates = updates_of(trained)
    batches = calibration_batches(turned, batch, CALIBRATION_BATCHES, seed)
    plan = updates.plan(Budget(bytes_share=share), batches, Work())
    selections = {"everything": updates.everything(), "plan": plan.selection}
    selections |= {way: select(first.graph, way.split("+")) for way in ways}
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
    """What of a model may be trained, on this computer."""
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
    """Which part of the held-out samples gets the right answer."""
    reference, (x, y) = Reference(program, weights, np.float32), held_out_batches(data, model)
    starts = range(0, len(x), model.batch)
    right = sum(reference.evaluate(x[i : i + model.batch], y[i : i + model.batch]) for i in starts)
    return right / len(data.x_test)


def turn(x: Array, degrees: float) -> Array:
    """Square images [n, channels, rows, columns] or [n, pixels], turned; what comes in is 0."""
    side = x.shape[3] if x.ndim == 4 else math.isqrt(x.shape[1])
    images = x.reshape(len(x), -1, side, side)
    return np.float32(rotate(images, degrees, (3, 2), reshape=False, order=1)).reshape(x.shape)


def text_of(selection: Selection) -> str:
    """What is trained, for people."""
    return " ".join(
        f"{name}[:{selection.channels[name]}]" if name in selection.channels else name
        for name in sorted(selection.parameters)
    )


def main() -> None:
    """Run all seeds; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="digits-cnn")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--degrees", type=float, default=90)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--ways", nargs="*", default=["last:1", "last:2", "last:3", "last:4", "bias", "bias+norm"]
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[Outcome] = []
    for seed in range(given.seeds):
        case = (given.model, given.batch, given.degrees, given.share, seed)
        rows += outcomes(*case, given.ways)
        print(f"seed {seed} done", file=sys.stderr)
    print(f"{given.model}, batch {given.batch}, digits turned by {given.degrees:g} degrees\n")
    print(COLUMNS)
    print(f"{'':12}{'bytes':>8}{'energy':>9}{'accuracy':>20}{'gain':>20}")
    for way in dict.fromkeys(row.way for row in rows):
        mine = [row for row in rows if row.way == way]
        reached, gains = [r.accuracy for r in mine], [r.gain_share for r in mine]
        print(
            f"{way:12}{max(r.bytes_share for r in mine):8.1%}"
            f"{max(r.energy_share for r in mine):9.1%}"
            f"{statistics.mean(reached):12.1%} ({min(reached):.1%})"
            f"{statistics.mean(gains):12.1%} ({min(gains):.1%})"
        )
    for row in rows:
        if row.way == "plan":
            print(f"seed {row.seed}: {row.trained}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
