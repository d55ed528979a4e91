# SPDX-License-Identifier: Apache-2.0
"""From a model to its training step, and the reference that runs it on this computer."""

from poetfw.optimizers import Sgd
from poetfw.training.compression import compress_activations
from poetfw.training.derivation import make_program
from poetfw.training.folding import fold
from poetfw.training.freezing import input_channels, matching_parameters
from poetfw.training.frozen_part import frozen_part, is_of_one_sample
from poetfw.training.packing import pack_constants
from poetfw.training.pooling import fuse_pooling
from poetfw.training.prediction import make_prediction
from poetfw.training.program import CLASSIFYING, DEFAULT_LOSS, LOSSES, Program, constant_bytes
from poetfw.training.reference import Reference, value_of
from poetfw.training.selection import AS_FILED, Selection, TrainedNames, select
from poetfw.training.sharing import in_place_input
from poetfw.training.storing import (
    in_storage,
    operands_in_storage,
    storable_tensors,
    store,
    stored_tensors,
    waiting_bytes,
    with_windows,
)
from poetfw.training.streaming import (
    StreamableWeight,
    look_up,
    lookup_tables,
    not_loadable,
    reordered,
    resident_form,
    stream,
    streamable_constants,
    streamable_vectors,
    streamable_weights,
    streamed_ops,
    waiting_ops,
)
from poetfw.training.views import hoist_views, open_windows

__all__ = [
    "AS_FILED",
    "CLASSIFYING",
    "DEFAULT_LOSS",
    "LOSSES",
    "Program",
    "Reference",
    "Selection",
    "Sgd",
    "StreamableWeight",
    "TrainedNames",
    "compress_activations",
    "constant_bytes",
    "fold",
    "frozen_part",
    "fuse_pooling",
    "hoist_views",
    "in_place_input",
    "in_storage",
    "input_channels",
    "is_of_one_sample",
    "look_up",
    "lookup_tables",
    "make_prediction",
    "make_program",
    "matching_parameters",
    "not_loadable",
    "open_windows",
    "operands_in_storage",
    "pack_constants",
    "reordered",
    "resident_form",
    "select",
    "storable_tensors",
    "store",
    "stored_tensors",
    "stream",
    "streamable_constants",
    "streamable_vectors",
    "streamable_weights",
    "streamed_ops",
    "value_of",
    "waiting_bytes",
    "waiting_ops",
    "with_windows",
]
