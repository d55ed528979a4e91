# SPDX-License-Identifier: Apache-2.0
"""The built-in models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from poetfw.common.errors import ModelError
from poetfw.models.bert import BERT_BASE, BERT_MINI, bert
from poetfw.models.layers import Layers
from poetfw.models.mlperf_tiny import autoencoder, ds_cnn, mobilenet, resnet8
from poetfw.models.mobilenet_v2 import mobilenetv2
from poetfw.models.model import Model
from poetfw.models.recurrent import gru, lstm
from poetfw.models.resnet import resnet18, resnet50
from poetfw.models.squeeze_excite import squeeze_excite
from poetfw.models.transformer import transformer_tiny
from poetfw.models.vgg import vgg16
from poetfw.training import Sgd

_SAME_3X3 = (1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Entry:
    """A built-in model.

    Attributes:
        batch: default batch size.
        build: function that builds the model from batch size and seed.
    """

    batch: int
    build: Callable[[int, int], Model]


def build_model(name: str, batch: int | None = None, seed: int = 0) -> Model:
    """Build a built-in model with newly drawn weights.

    Args:
        name: a key of `MODELS`.
        batch: batch size; None for the model's default.
        seed: seed of the initial weights, 0 or more. The same seed gives the same bits.

    Raises:
        ModelError: There is no such model, or batch or seed is out of range.
    """
    entry = MODELS.get(name)
    if entry is None:
        raise ModelError(
            f"no model is called {name!r}",
            "use one of: " + ", ".join(MODELS),
            "or give the path of a .pt2 or .onnx file",
        )
    if seed < 0:
        raise ModelError(f"the seed is {seed}: it must be 0 or more")
    return entry.build(entry.batch if batch is None else batch, seed)


def _digits_cnn(batch: int, seed: int) -> Model:
    layers = Layers("digits-cnn", (batch, 1, 8, 8), seed)
    x = layers.input
    for index, channels in ((1, 8), (2, 8), (3, 16)):
        x = layers.conv(f"conv{index}", x, channels, 3, padding=_SAME_3X3)
        x = layers.batch_norm(f"bn{index}", x)
        x = layers.relu(f"relu{index}", x)
        if index > 1:
            x = layers.pool("max_pool2d", f"pool{index}", x, 2)
    x = layers.linear("logits", layers.flatten("flatten", x), 10)
    return Model(
        *layers.build(x),
        loss="softmax_cross_entropy",
        description="three convolutions with batch norm for 8 x 8 handwritten digits (the default)",
        optimizer=Sgd(learning_rate=0.02, momentum=0.9),
        epochs=3,
    )


def _lenet5(batch: int, seed: int) -> Model:
    """LeNet-5: LeCun, Bottou, Bengio, Haffner, Proc. IEEE 1998, section II.B.

    With the usual simplifications: ReLU instead of tanh, the second convolution connected to all
    feature maps, average pooling as subsampling, and a linear layer instead of RBF units.
    """
    layers = Layers("lenet5", (batch, 1, 28, 28), seed)
    x = layers.conv("c1", layers.input, 6, 5, padding=(2, 2, 2, 2), bias=True)
    x = layers.pool("avg_pool2d", "s2", layers.relu("c1.relu", x), 2)
    x = layers.conv("c3", x, 16, 5, bias=True)
    x = layers.pool("avg_pool2d", "s4", layers.relu("c3.relu", x), 2)
    x = layers.flatten("flatten", x)
    x = layers.relu("c5.relu", layers.linear("c5", x, 120))
    x = layers.relu("f6.relu", layers.linear("f6", x, 84))
    return Model(
        *layers.build(layers.linear("logits", x, 10)),
        loss="softmax_cross_entropy",
        description="LeNet-5 with ReLU, 1 x 28 x 28 images, 10 classes",
        optimizer=Sgd(learning_rate=0.02, momentum=0.9),
        epochs=5,
    )


def _mlp(batch: int, seed: int) -> Model:
    layers = Layers("mlp", (batch, 64), seed)
    x = layers.relu("relu1", layers.linear("hidden1", layers.input, 64))
    x = layers.relu("relu2", layers.linear("hidden2", x, 32))
    return Model(
        *layers.build(layers.linear("logits", x, 10)),
        loss="softmax_cross_entropy",
        description="multilayer perceptron 64-64-32-10 for 8 x 8 handwritten digits",
        optimizer=Sgd(learning_rate=0.05, momentum=0.9),
        epochs=5,
    )


MODELS: Mapping[str, Entry] = MappingProxyType(
    {
        "digits-cnn": Entry(32, _digits_cnn),
        "lenet5": Entry(32, _lenet5),
        "mlp": Entry(32, _mlp),
        "resnet8": Entry(32, resnet8),
        "ds-cnn": Entry(32, ds_cnn),
        "mobilenet": Entry(32, mobilenet),
        "autoencoder": Entry(32, autoencoder),
        "squeeze-excite": Entry(32, squeeze_excite),
        "lstm": Entry(32, lstm),
        "gru": Entry(32, gru),
        "transformer-tiny": Entry(32, transformer_tiny),
        "resnet18": Entry(1, resnet18),
        "resnet50": Entry(1, resnet50),
        "mobilenetv2": Entry(1, mobilenetv2),
        "vgg16": Entry(1, vgg16),
        "bert-base": Entry(1, partial(bert, "bert-base", BERT_BASE)),
        "bert-mini": Entry(1, partial(bert, "bert-mini", BERT_MINI)),
    }
)
"""Built-in models by name, the default first."""
