# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning of pretrained networks: RAM, flash, energy and accuracy, each beside its bound.

Each network is trained in part, batch 1, and built for its board. Energy is also given as a
multiple of that of keeping everything, and that of an epoch with features kept, from the second on,
as a multiple of one without. For adapters, the memory of activations, gradients and
workspace is compared with that of training all weights.

With `--run`, PyTorch pretrains each network on scikit-learn's digits, scaled to its input. The
emulated board verifies every op of two steps, and then adapts the network to the digits tilted by
30 degrees; PyTorch does as many steps on the same samples, in another order. The accuracy of 100
held-out digits, or the loss of those given back, is printed before, afterwards on the board, and
in PyTorch. With `--epoch`, all digits are adapted to once by the board `linux`: the same arithmetic
as on the emulated boards, in minutes.

With `--accuracy`, two networks that PyTorch trained on the digits are adapted to the digits turned
by 90 degrees, by the reference in float32 on this computer.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.importers import load_data
from poetfw.importers.torch_export import import_torch
from poetfw.planning import BuildSettings, derive_program, load_model, plan_unscheduled
from workloads.compact_transformer import CompactTransformer, with_adapters
from workloads.pretrained import (
    Digits,
    Separable,
    adapt,
    autoencoder,
    dense,
    ds_cnn,
    held_out_figure,
    mobilenet,
    only_trained,
    pretrain,
    resnet8,
)
from workloads.rotated_digits import accuracy, train, turn

HELD_OUT, MISSED = 100, "MISSED"
KB, FORMS = 1024, ("float32", "float16", "int8")


@dataclass(frozen=True)
class Case:
    """A network, what of it is trained, and the bounds of its build.

    Attributes:
        make: makes the network.
        freeze: leaves only a part of it to be trained.
        shape: of a sample.
        ram_bytes: bound of the arena.
        classes: number of classes; None where the sample is given back.
        epochs: of pretraining, with all digits.
        steps: of adapting.
        rate: the learning rate at first, which falls as a cosine does.
        frozen_bytes: bound of the frozen weights, by format.
        times: bound of the energy, as a multiple of that of keeping everything.
        kept: bound of an epoch's energy with features kept, as a multiple of that without.
        forms: formats in which the weights fit the flash.
    """

    make: Callable[[], nn.Module]
    freeze: Callable[[nn.Module], nn.Module]
    shape: tuple[int, ...]
    ram_bytes: int | None
    classes: int | None = 10
    epochs: int = 3
    steps: int = 100
    rate: float = 0.01
    momentum: float = 0.9
    board: str = "nrf52840"
    frozen_bytes: Mapping[str, int] = field(default_factory=dict)
    times: float | None = None
    kept: float | None = None
    forms: tuple[str, ...] = FORMS


LAST = partial(only_trained, layers=(-1,))
MOBILENET = Case(
    mobilenet,
    LAST,
    (3, 96, 96),
    230_000,
    classes=2,
    frozen_bytes={"float16": 425 * KB, "int8": 235 * KB},
    kept=0.05,
)
CASES = {
    "mobilenet, last layer": MOBILENET,
    "mobilenet, with F.pad": replace(MOBILENET, make=partial(mobilenet, pads=True)),
    "resnet8, last layer": Case(resnet8, LAST, (3, 32, 32), 256 * KB, kept=0.05),
    "ds-cnn, last two": Case(
        *(ds_cnn, partial(only_trained, layers=(-1, -6)), (1, 49, 10), 256 * KB),
        epochs=4,
        steps=300,
        rate=0.003,
    ),
    "autoencoder, layer before the output": Case(
        autoencoder,
        partial(only_trained, layers=(-4,)),
        (640,),
        256 * KB,
        classes=None,
        epochs=15,
        rate=0.2,
        forms=FORMS[1:],
    ),
    "dense, last layer": Case(
        *(dense, LAST, (640,), 32 * KB),
        classes=8,
        epochs=15,
        rate=0.03,
        momentum=0.0,
        board="mkr1000",
        forms=FORMS[2:],
    ),
    "cct-2, adapters": Case(
        *(CompactTransformer, with_adapters, (3, 32, 32), 256 * KB),
        epochs=12,
        steps=300,
        rate=0.02,
        momentum=0.0,
        times=2.5,
        forms=FORMS[1:],
    ),
}


@cache
def network(name: str, *, pretrained: bool) -> tuple[nn.Module, Digits]:
    """A case's network, of which a part is to be trained, and its digits."""
    torch.manual_seed(0)
    case = CASES[name]
    net, digits = case.make(), Digits.of(case.shape, case.classes, HELD_OUT)
    if pretrained:
        pretrain(net, digits, case.epochs)
    return case.freeze(net), digits


def row(name: str, form: str, folder: Path, *, run: bool, epoch: bool = False) -> list[str]:
    """Figures of a case, each beside its bound; without bounds for an epoch on this computer."""
    case = CASES[name]
    net, digits = network(name, pretrained=run)
    if epoch:
        steps = len(digits.tilted) - HELD_OUT
        case = replace(case, board="linux", steps=steps, ram_bytes=None, times=None)
    samples, held_out = slice(case.steps), slice(-HELD_OUT, None)
    y, prefix = digits.targets(digits.tilted), {"x": samples, "x_test": held_out}
    arrays = {key: digits.tilted[part] for key, part in prefix.items()}
    arrays |= {key.replace("x", "y"): y[part] for key, part in prefix.items()}
    np.savez(folder / "tilted.npz", **{key: each.numpy() for key, each in arrays.items()})
    built = poetfw(
        [
            *("build", "--board", case.board, "--model", export(net, case.shape, folder)),
            *("--data", "tilted.npz", "--batch", "1", "--momentum", str(case.momentum)),
            *("--learning-rate", str(case.rate), "--schedule", f"cosine:{case.steps}"),
            *(() if form == "float32" else ("--frozen-as", form)),
            *(("--loss", "mse") if case.classes is None else ()),
        ],
        folder,
    )
    if "error" in built:
        return [built["error"]["message"]]
    schedule, board = built["schedule"], load_board(case.board)
    row = [
        of_bound(built["peak_bytes"], case.ram_bytes),
        of_bound(built["frozen_bytes"], case.frozen_bytes.get(form)),
        of_bound(built["flash_bytes"], board.flash_bytes),
        f"{schedule['energy_j'] * 1e3:.3f}",
        of_bound(round(1 + schedule["overhead"], 2), case.times),
        of_features(built["features"], case.kept),
    ]
    return [*row, *(learned(case, net, digits, folder) if run else ())]


def learned(case: Case, net: nn.Module, digits: Digits, folder: Path) -> list[str]:
    """Verdict of two verified steps, and figures before and after adapting, and PyTorch's."""
    run = ["run", "--board", case.board, "--timeout", "7200", "--steps"]
    verified = poetfw([*run, "2", "--verify"], folder).get("verify") or {}
    after = poetfw([*run, str(case.steps)], folder)
    adapted = copy.deepcopy(net)
    torch.manual_seed(0)
    adapt(adapted, digits, case.steps, case.rate, case.momentum)
    key, text = ("accuracy", "{:.0%}") if case.classes else ("held_out_loss", "{:.4f}")
    figures = (held_out_figure(net, digits), after[key], held_out_figure(adapted, digits))
    return ["verified" if verified.get("ok") else "NOT verified", *map(text.format, figures)]


def of_bound(figure: float, bound: float | None) -> str:
    """The figure beside its bound, marked where it is above."""
    if bound is None:
        return f"{figure:,}"
    return f"{figure:,} of {bound:,}: " + ("ok" if figure <= bound else MISSED)


def of_features(features: dict[str, Any] | None, bound: float | None) -> str:
    """Energy of an epoch with features kept, of one without; and where they are kept."""
    if not features or not features["kept"]:
        return "calculated" if bound is None else f"calculated: {MISSED}"
    times = round(features["kept_j"] / features["calculated_j"], 4)
    return f"{features['place']}, {of_bound(times, bound)}"


def export(net: nn.Module, shape: Sequence[int], folder: Path) -> str:
    """Write a network of samples of a shape as a `.pt2` file; returns the file's path."""
    path = folder / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(2, *shape),)), path)
    return str(path)


def dynamic_bytes(path: str) -> int:
    """Bytes of activations, gradients and workspace of a training step that keeps everything."""
    settings = BuildSettings("nrf52840", path, batch=1, momentum=0.0)
    program = derive_program(settings, load_model(settings))
    return plan_unscheduled(program, load_board(settings.board), analytic_costs).training.peak_bytes


def print_memory_of_adapters() -> None:
    """Print what CCT-2 takes beside weights if everything is kept, with adapters and without."""
    sizes = []
    for net in (with_adapters(CompactTransformer()), CompactTransformer()):
        with tempfile.TemporaryDirectory() as folder:
            sizes.append(dynamic_bytes(export(net, (3, 32, 32), Path(folder))))
    print(
        f"\ncct-2: keeping everything, activations, gradients and workspace take {sizes[0]:,} B, "
        f"{1 - sizes[0] / sizes[1]:.0%} less than the {sizes[1]:,} B of full training"
    )


def convolutions() -> nn.Sequential:
    """Three convolutions with batch norm for digits of 8x8 pixels, and a head."""
    body: list[nn.Module] = []
    for inputs, outputs, stride in ((1, 16, 1), (16, 32, 2), (32, 64, 1)):
        body.append(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False))
        body += [nn.BatchNorm2d(outputs), nn.ReLU()]
    pool = (nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(nn.Sequential(*body, *pool), nn.Linear(256, 10))


def separable() -> nn.Sequential:
    """Three depthwise separable convolutions for digits of 8x8 pixels, and a head."""
    first = (nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    layers = [Separable(i, o, s) for i, o, s in ((16, 32, 1), (32, 64, 2), (64, 64, 1))]
    pool = (nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(nn.Sequential(*first, *layers, *pool), nn.Linear(256, 10))


DIGITS = {"convolutions": convolutions, "separable convolutions": separable}
BATCH, EPOCHS_BEFORE, EPOCHS, DEGREES = 8, 8, 3, 90.0


def adapted(name: str, seed: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Accuracy of held-out digits by format: upright before adapting, and turned after it."""
    torch.manual_seed(seed)
    net, file = DIGITS[name](), folder / "net.pt2"
    example = torch.zeros(BATCH, 1, 8, 8)
    torch.export.save(torch.export.export(net.train(), (example,)), file)
    data = load_data("digits", import_torch(file, BATCH))
    train_whole(net, torch.tensor(np.array(data.x_train)), torch.tensor(np.array(data.y_train)))
    net[0].eval()
    net[0].requires_grad_(False)
    torch.export.save(torch.export.export(net, (example,)), file)
    model = import_torch(file, BATCH)
    turned = replace(data, x_train=turn(data.x_train, DEGREES), x_test=turn(data.x_test, DEGREES))
    found = {}
    settings = BuildSettings("linux", str(file), batch=BATCH, learning_rate=0.005, momentum=0.9)
    for form in FORMS:
        settings = replace(settings, frozen_as=None if form == "float32" else form)
        program = derive_program(settings, model)
        before = accuracy(program, model.weights, data, model)
        after = train(program, model.weights, turned, EPOCHS, seed)
        found[form] = before, accuracy(program, after, turned, model)
    return found


def train_whole(net: nn.Module, x: Tensor, y: Tensor) -> None:
    """Train all of a network by SGD."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(EPOCHS_BEFORE):
        for some in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(net(x[some]), y[some].long()).backward()
            optimizer.step()


def print_accuracies(seeds: int) -> None:
    """Print means over seeds, and the largest difference from float32 of a seed before adapting."""
    print("| network | frozen as | upright, before | at most apart | turned, adapted | apart |")
    print("|---|---|--:|--:|--:|--:|")
    for name in DIGITS:
        with tempfile.TemporaryDirectory() as folder:
            found = [adapted(name, seed, Path(folder)) for seed in range(seeds)]
        for form in FORMS:
            before, after = (statistics.mean(each[form][i] for each in found) for i in (0, 1))
            apart = max(abs(each[form][0] - each["float32"][0]) for each in found)
            gain = after - statistics.mean(each["float32"][1] for each in found)
            row = (
                f"{before:.2%} | {apart * 100:.2f} points | {after:.2%} | {gain * 100:+.2f} points"
            )
            print(f"| {name} | {form} | {row} |", flush=True)


def poetfw(arguments: list[str], folder: Path) -> dict[str, Any]:
    """Result of a command, as JSON."""
    command = [sys.executable, "-m", "poetfw.cli.main", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(done.stdout or '{"error": {"message": "it printed nothing"}}')


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/fine_tuning.py --only 'cct*' --formats int8 --run",
    )
    parser.add_argument("--only", default="*", help="rows, by a pattern as of file names")
    parser.add_argument(
        "--formats", default=",".join(FORMS), help="of frozen weights, separated by commas"
    )
    parser.add_argument("--run", action="store_true", help="adapt on the emulated board, too")
    parser.add_argument(
        "--epoch", action="store_true", help="with --run: all digits once, on this computer"
    )
    parser.add_argument(
        "--accuracy", type=int, metavar="SEEDS", help="accuracy of turned digits instead"
    )
    arguments = parser.parse_args()
    if arguments.accuracy:
        print_accuracies(arguments.accuracy)
        return 0
    names = fnmatch.filter(CASES, arguments.only)
    if not names:
        parser.error(f"--only: no row is called {arguments.only!r}; there are {', '.join(CASES)}")
    headings = [
        "network",
        "frozen as",
        "RAM",
        "frozen weights",
        "flash",
        "mJ a step",
        "of all kept",
        "epoch, features kept",
    ]
    headings += ["", "before", "on the board", "PyTorch"] if arguments.run else []
    print("|", " | ".join(headings), "|\n|" + "---|" * len(headings))
    missed = 0
    for name in names:
        for form in arguments.formats.split(","):
            if form in CASES[name].forms:
                with tempfile.TemporaryDirectory() as folder:
                    figures = row(
                        name, form, Path(folder), run=arguments.run, epoch=arguments.epoch
                    )
                print("|", " | ".join([name, form, *figures]), "|", flush=True)
                missed += sum(MISSED in each or "NOT" in each for each in figures)
    if "cct-2, adapters" in names:
        print_memory_of_adapters()
    print(f"{missed} bounds are missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
