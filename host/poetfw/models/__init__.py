# SPDX-License-Identifier: Apache-2.0
"""Models: their definition, and the built-in ones."""

from poetfw.models.builder import GraphBuilder, TooManyOpsError
from poetfw.models.model import Model
from poetfw.models.weights import DrawnWeights, StateEntry, Weights
from poetfw.models.zoo import MODELS, build_model

__all__ = [
    "MODELS",
    "DrawnWeights",
    "GraphBuilder",
    "Model",
    "StateEntry",
    "TooManyOpsError",
    "Weights",
    "build_model",
]
