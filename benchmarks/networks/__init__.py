"""Training steps of OLLA's networks, by shape arithmetic alone: no kernels, no weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from networks import convolutional, transformers
from networks.tape import TrainingStep

NETWORKS: Mapping[str, Callable[[int], TrainingStep]] = MappingProxyType(
    {
        "alexnet": convolutional.alexnet,
        "vgg11": partial(convolutional.vgg, blocks=(1, 1, 2, 2, 2)),
        "vgg16": partial(convolutional.vgg, blocks=(2, 2, 3, 3, 3)),
        "vgg19": partial(convolutional.vgg, blocks=(2, 2, 4, 4, 4)),
        "resnet18": convolutional.resnet18,
        "resnet50": convolutional.resnet50,
        "resnet3d-18": convolutional.resnet3d,
        "googlenet": convolutional.googlenet,
        "mobilenet_v1": convolutional.mobilenet_v1,
        "mobilenet_v2": convolutional.mobilenet_v2,
        "mnasnet": convolutional.mnasnet,
        "efficientnet-b0": convolutional.efficientnet_b0,
        "transformer": transformers.transformer,
        "vit-b-16": transformers.vit_b_16,
        "bert-base": transformers.bert,
        "xlm-r-base": transformers.xlm_r,
    }
)
"""By name, from the batch to the training step in PyTorch's order."""
