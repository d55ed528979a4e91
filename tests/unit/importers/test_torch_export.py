# SPDX-License-Identifier: Apache-2.0
"""Networks exported by PyTorch, by both of its exporters, in both modes."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.models import Model
from poetfw.ops import kind_of

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
nn = torch.nn


def residual_net():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6())
            self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
            self.norm = nn.BatchNorm2d(8, eps=1e-3, momentum=0.2)
            self.shrink = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, stride=2), nn.ReLU())
            self.head = nn.Linear(12, 10)

        def forward(self, x):
            x = self.stem(x)
            x = torch.relu(self.norm(self.depthwise(x)) + x)
            x = nn.functional.adaptive_avg_pool2d(self.shrink(x), 1)
            return self.head(x.view(x.size(0), -1))

    return Net()


def plain_net():
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2, bias=False),
        nn.ReLU(),
        nn.AvgPool2d(2, padding=1),
        nn.Flatten(),
        nn.Linear(4 * 25, 16),
        nn.ReLU(),
        nn.Linear(16, 10),
        nn.Softmax(dim=1),
    )


def export(net, path: Path, *, dynamo: bool, training: bool, dynamic: bool):
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    options = (
        {"dynamic_shapes": ({0: torch.export.Dim("n")},)}
        if dynamo
        else {"dynamic_axes": {"x": {0: "n"}}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net.train(training),
            (torch.randn(2, 1, 8, 8),),
            str(path),
            input_names=["x"],
            output_names=["y"],
            dynamo=dynamo,
            training=mode,
            opset_version=18,
            verbose=False,
            **(options if dynamic else {}),
        )


def logits(net, x):
    net.eval()
    without_softmax = net[:-1] if isinstance(net, nn.Sequential) else net
    with torch.no_grad():
        return without_softmax(torch.from_numpy(x)).numpy()


def infer(model: Model, x):
    values = {**model.weights, model.input.name: x}
    for op in model.graph.ops:
        values[op.output] = kind_of(op).compute(op, [values[name] for name in op.inputs], [])
    return values[model.graph.output]


@pytest.mark.parametrize("make", [residual_net, plain_net])
@pytest.mark.parametrize(
    "dynamo",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["torchscript", "dynamo"],
)
@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_an_exported_network_gives_what_pytorch_gives(
    tmp_path: Path, make, dynamo: bool, training: bool, dynamic: bool
):
    torch.manual_seed(3)
    net = make()
    with torch.no_grad():  # running statistics that differ from their start
        net.train()(torch.randn(16, 1, 8, 8))
    path = tmp_path / "net.onnx"
    export(net, path, dynamo=dynamo, training=training, dynamic=dynamic)
    if make is residual_net and not training:  # its batch norms are folded into convolutions
        with pytest.raises(ModelError, match="folded batch norm"):
            import_onnx(path, 5)
        return
    model = import_onnx(path, 5)
    x = np.random.default_rng(1).standard_normal((5, 1, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(infer(model, x), logits(net, x), rtol=1e-5, atol=1e-5)


def test_batch_norm_survives_an_export_for_training(tmp_path: Path):
    path = tmp_path / "net.onnx"
    net = residual_net()
    export(net, path, dynamo=False, training=True, dynamic=False)
    model = import_onnx(path, 4)
    momenta = [op.number("momentum") for op in model.graph.ops if op.kind == "batch_norm"]
    assert momenta == pytest.approx([0.1, 0.2])
    assert model.parameter_count == sum(p.numel() for p in net.parameters())
