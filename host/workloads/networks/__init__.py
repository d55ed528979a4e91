# SPDX-License-Identifier: Apache-2.0
"""Training steps of networks by shape arithmetic alone: no kernels, no weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from workloads.networks import convolutional, transformers
from workloads.networks.tape import TrainingStep

OLLA: Mapping[str, Callable[[int], TrainingStep]] = MappingProxyType(
    {
        "alexnet": convolutional.alexnet,
        "bert": partial(transformers.encoder, entries=50_265, tokens=4),
        "efficientnet": convolutional.efficientnet_b0,
        "googlenet": convolutional.googlenet,
        "mnasnet": partial(convolutional.mnasnet, width=0.5),
        "mobilenet": convolutional.mobilenet_v2,
        "resnet": convolutional.resnet18,
        "resnet3d": partial(convolutional.resnet3d, frames=1),
        "transformer": partial(transformers.transformer, layers=1, heads=1, tokens=(10, 20)),
        "vgg": partial(convolutional.vgg, blocks=(1, 1, 2, 2, 2)),
        "vit": partial(transformers.vision_transformer, width=768, layers=12, heads=12),
        "xlm-r": partial(transformers.encoder, entries=250_002, tokens=4),
    }
)
"""The paper's, as its authors' code runs them (facebookresearch/MODel_opt, benchmarks.py, 4370d42):
RoBERTa base and XLM-R base on the 4 tokens of "Hello world", ResNet3D-18 on one frame, MNASNet of
width 0.5, a transformer of 1 + 1 layers. The loss is the sum of the output."""

NETWORKS: Mapping[str, Callable[[int], TrainingStep]] = MappingProxyType(
    {
        **OLLA,
        "vgg16": partial(convolutional.vgg, blocks=(2, 2, 3, 3, 3)),
        "vgg19": partial(convolutional.vgg, blocks=(2, 2, 4, 4, 4)),
        "resnet50": convolutional.resnet50,
        "resnet3d-16": partial(convolutional.resnet3d, frames=16),
        "mobilenet-v1": convolutional.mobilenet_v1,
        "mnasnet-1.0": partial(convolutional.mnasnet, width=1.0),
        "transformer-6": partial(transformers.transformer, layers=6, heads=8, tokens=(128, 128)),
        "bert-128": partial(transformers.encoder, entries=50_265, tokens=128),
        "xlm-r-128": partial(transformers.encoder, entries=250_002, tokens=128),
        "vit-l-16": partial(transformers.vision_transformer, width=1024, layers=24, heads=16),
    }
)
"""By name, from the batch to the training step in PyTorch's order: OLLA's, and others, called by
their layers, width, frames or tokens."""
