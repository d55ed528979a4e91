# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning of pretrained networks: RAM, flash and energy by format of the frozen weights.

Each network is trained in part, batch 1, and built for its board. With `--run` the emulated board
also trains two steps, and every op is verified. Energy is also given as a multiple of that of
keeping everything. For adapters, the memory of activations, gradients and workspace is compared
with that of training all weights.

With `--accuracy`, two networks that PyTorch trained on scikit-learn's digits are adapted to the
digits turned by 90 degrees, by the reference in float32 on this computer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

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
from workloads.rotated_digits import accuracy, train, turn


class Separable(nn.Module):
    """A depthwise and a 1x1 convolution, each with batch norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, pads: bool) -> None:
        super().__init__()
        self.pads = pads and stride == 2
        self.each = nn.Conv2d(
            inputs, inputs, 3, stride, 0 if self.pads else 1, groups=inputs, bias=False
        )
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.point = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Y [N, outputs, H / stride, W / stride] of x [N, inputs, H, W]."""
        x = F.pad(x, (0, 1, 0, 1)) if self.pads else x
        return F.relu(self.norm2(self.point(F.relu(self.norm1(self.each(x))))))


def mobilenet(*, pads: bool = False) -> nn.Module:
    """MobileNetV1 with a width of 0.25 (Howard et al., 2017, table 1), for 2 classes."""
    widths = (16, 32, 32, 64, 64, *(128,) * 6, 256, 256)
    first: list[nn.Module] = [nn.ZeroPad2d((0, 1, 0, 1))] if pads else []
    first.append(nn.Conv2d(3, 8, 3, 2, 0 if pads else 1, bias=False))
    layers = [*first, nn.BatchNorm2d(8), nn.ReLU()]
    inputs = 8
    for index, outputs in enumerate(widths):
        stride = 2 if index and outputs > inputs else 1
        layers.append(Separable(inputs, outputs, stride, pads=pads))
        inputs = outputs
    pool = (nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(nn.Sequential(*layers, *pool), nn.Linear(256, 2))


def dense() -> nn.Module:
    """A dense network, 640-128-128-8."""
    body = nn.Sequential(nn.Linear(640, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return nn.Sequential(body, nn.Linear(128, 8))


def autoencoder() -> nn.Module:
    """MLPerf Tiny's auto-encoder, of which the last layer of 128 by 128 is trained."""

    def layers(*sizes: int) -> list[nn.Module]:
        made: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            made += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        return made

    before = nn.Sequential(*layers(640, *(128,) * 4, 8, *(128,) * 3))
    behind = nn.Sequential(nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 640))
    return nn.Sequential(before, nn.Linear(128, 128), behind)


@dataclass(frozen=True)
class Case:
    """A network and the options of its build.

    Attributes:
        model: a built-in model's name, or a network of PyTorch's, as it is to be exported.
        options: of `poetfw build`.
        shape: of a sample, for a network of PyTorch's.
        whole: the network without adapters, all of which is trained, to compare with.
    """

    model: str | nn.Module
    options: tuple[str, ...]
    shape: tuple[int, ...] = ()
    board: str = "nrf52840"
    whole: nn.Module | None = None


def second_trained(model: nn.Module) -> nn.Module:
    """The network, of which all but the second part is frozen and in evaluation mode."""
    assert isinstance(model, nn.Sequential)
    model.train()
    for part in (model[0], *model[2:]):
        part.eval()
        part.requires_grad_(False)
    return model


LAST = ("--train", "last:1")
CASES = {
    "mobilenet, last layer": Case(second_trained(mobilenet()), (), (3, 96, 96)),
    "mobilenet, with F.pad": Case(second_trained(mobilenet(pads=True)), (), (3, 96, 96)),
    "resnet8, last layer": Case("resnet8", LAST),
    "ds-cnn, last two": Case("ds-cnn", ("--train", "last:2")),
    "autoencoder, layer before the output": Case(
        second_trained(autoencoder()), ("--loss", "mse"), (640,)
    ),
    "dense, last layer": Case(second_trained(dense()), (), (640,), "mkr1000"),
    "cct-2, adapters": Case(
        with_adapters(CompactTransformer()),
        ("--momentum", "0"),
        (3, 32, 32),
        whole=CompactTransformer(),
    ),
}


def build(case: Case, form: str, folder: Path, *, run: bool) -> list[str]:
    """The row of a case."""
    model = case.model
    if isinstance(model, nn.Module):
        model = export(model, case.shape, folder / "net.pt2")
    options = () if form == "float32" else ("--frozen-as", form)
    command = ["build", "--board", case.board, "--model", model, "--batch", "1", "--data"]
    done = poetfw([*command, "synthetic", *case.options, *options], folder)
    if "error" in done:
        return ["-"] * 5 + [str(done["error"]["message"])]
    schedule = done["schedule"]
    figures = (done["peak_bytes"], done["frozen_bytes"], done["flash_bytes"])
    row = [
        *(f"{figure:,}" for figure in figures),
        f"{schedule['energy_j'] * 1e3:.3f}",
        f"{1 + schedule['overhead']:.2f} times",
    ]
    if not run:
        return [*row, ""]
    ran = poetfw(["run", "--board", case.board, "--steps", "2", "--verify"], folder)
    return [*row, "verified" if ran.get("verify", {}).get("ok") else f"NOT verified: {ran}"]


def export(model: nn.Module, shape: Sequence[int], path: Path) -> str:
    """Write a network of samples of a shape as a `.pt2` file; returns the file's name."""
    torch.export.save(torch.export.export(model, (torch.zeros(2, *shape),)), path)
    return str(path)


def dynamic_bytes(path: str, *, momentum: float) -> int:
    """Bytes of activations, gradients and workspace of a training step that keeps everything."""
    settings = BuildSettings("nrf52840", path, batch=1, momentum=momentum)
    program = derive_program(settings, load_model(settings))
    board = load_board(settings.board)
    plan = plan_unscheduled(program, board, analytic_costs)
    return plan.training.peak_bytes


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
    layers = [Separable(i, o, s, pads=False) for i, o, s in ((16, 32, 1), (32, 64, 2), (64, 64, 1))]
    pool = (nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(nn.Sequential(*first, *layers, *pool), nn.Linear(256, 10))


DIGITS = {"convolutions": convolutions, "separable convolutions": separable}
FORMS = (None, "float16", "int8")
BATCH, EPOCHS_BEFORE, EPOCHS, DEGREES = 8, 8, 3, 90.0


def adapted(name: str, seed: int, folder: Path) -> dict[str | None, tuple[float, float]]:
    """Accuracy of held-out digits by format: upright before adapting, and turned after it."""
    torch.manual_seed(seed)
    net, file = DIGITS[name](), folder / "net.pt2"
    example = torch.zeros(BATCH, 1, 8, 8)
    torch.export.save(torch.export.export(net.train(), (example,)), file)
    data = load_data("digits", import_torch(file, BATCH))
    pretrain(net, torch.tensor(np.array(data.x_train)), torch.tensor(np.array(data.y_train)))
    net[0].eval()
    net[0].requires_grad_(False)
    torch.export.save(torch.export.export(net, (example,)), file)
    model = import_torch(file, BATCH)
    turned = replace(data, x_train=turn(data.x_train, DEGREES), x_test=turn(data.x_test, DEGREES))
    found = {}
    for form in FORMS:
        settings = BuildSettings(
            "linux", str(file), batch=BATCH, learning_rate=0.005, momentum=0.9, frozen_as=form
        )
        program = derive_program(settings, model)
        before = accuracy(program, model.weights, data, model)
        after = train(program, model.weights, turned, EPOCHS, seed)
        found[form] = before, accuracy(program, after, turned, model)
    return found


def pretrain(net: nn.Module, x: Tensor, y: Tensor) -> None:
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
            apart = max(abs(each[form][0] - each[None][0]) for each in found)
            gain = after - statistics.mean(each[None][1] for each in found)
            row = (
                f"{before:.2%} | {apart * 100:.2f} points | {after:.2%} | {gain * 100:+.2f} points"
            )
            print(f"| {name} | {form or 'float32'} | {row} |", flush=True)


def poetfw(arguments: list[str], folder: Path) -> dict[str, object]:
    """Result of a command, as JSON."""
    command = [sys.executable, "-m", "poetfw.cli.main", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(done.stdout or '{"error": {"message": "it printed nothing"}}')


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/fine_tuning.py --formats int8 --run",
    )
    parser.add_argument("--networks", default="/".join(CASES), help="separated by /")
    parser.add_argument(
        "--formats", default="float32,float16,int8", help="of frozen weights, separated by commas"
    )
    parser.add_argument("--run", action="store_true", help="train two steps on the emulated board")
    parser.add_argument(
        "--accuracy", type=int, metavar="SEEDS", help="accuracy of turned digits instead"
    )
    arguments = parser.parse_args()
    if arguments.accuracy:
        print_accuracies(arguments.accuracy)
        return
    print("| network | frozen as | RAM | frozen weights | flash | mJ a step | of keeping all | |")
    print("|---|---|--:|--:|--:|--:|--:|---|")
    for name in arguments.networks.split("/"):
        for form in arguments.formats.split(","):
            with tempfile.TemporaryDirectory() as folder:
                row = build(CASES[name], form, Path(folder), run=arguments.run)
            print("|", " | ".join([name, form, *row]), "|", flush=True)
    for name in arguments.networks.split("/"):
        case = CASES[name]
        if isinstance(case.model, nn.Module) and case.whole is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "net.pt2"
                part, whole = (
                    dynamic_bytes(export(model, case.shape, path), momentum=0)
                    for model in (case.model, case.whole)
                )
            print(
                f"\n{name}: keeping everything, activations, gradients and workspace take "
                f"{part:,} B, {1 - part / whole:.0%} less than the {whole:,} B of full training"
            )


if __name__ == "__main__":
    main()
