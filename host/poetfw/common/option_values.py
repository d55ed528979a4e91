# SPDX-License-Identifier: Apache-2.0
"""Allowed names and bounds of options, without the code that they select.

The command line needs them each time it starts, and to complete a word in a shell: nothing that
takes long to import may be imported here. Where code is looked up by a name, a test compares its
table with the names here.
"""

from __future__ import annotations

MODELS = (
    *("digits-cnn", "lenet5", "mlp", "resnet8", "ds-cnn", "mobilenet", "autoencoder"),
    *("squeeze-excite", "lstm", "gru", "transformer-tiny", "resnet18", "resnet50", "mobilenetv2"),
    *("vgg16", "bert-base", "bert-mini"),
)
"""The built-in models, the default first: keys of `poetfw.models.MODELS`."""

DEFAULT_MODEL = MODELS[0]
DEFAULT_BATCH = 32

DATA = ("digits", "synthetic")
"""The built-in data sets: keys of `poetfw.importers.BUILT_IN`."""

FEATURES = ("mfcc", "log-mel")
"""Features that may be computed of sounds, the default first."""

SCHEDULERS = (
    *("checkpoint-all", "poet", "poet-paging-off", "poet-remat-off", "poet-algorithm-1"),
    *("checkmate", "chen-sqrt", "chen-greedy", "griewank", "dtr", "capuchin", "pofo", "greedy"),
    *("dynprog", "vdnn", "autoswap", "swap-on-demand", "swap-reduced", "swap-proactive", "tflms"),
)
"""Ways to find a schedule: keys of `poetfw.schedule.SCHEDULERS`."""

LOSSES = ("softmax_cross_entropy", "nll", "mse", "l1", "huber", "binary_cross_entropy")
"""The losses: keys of `poetfw.training.LOSSES`."""

FROZEN_FORMATS = ("float16", "int8")
"""Formats of frozen weights besides float32: those of `poetfw.ops.packed`."""

EXACT_FORM, FLOAT16_FORM = STORED_FORMS = ("exact", "float16")
"""Smaller forms of activations that wait for the backward pass."""

ANALYTIC, MEASURED = COSTS = ("analytic", "measured")
"""Sources of costs."""

METERS = (
    "none, ppk2:PORT@MILLIVOLTS, joulescope[:SERIAL], hwmon:CHIP[:CHANNEL], rapl[:ZONE] or "
    "replay:FOLDER"
)
"""Forms in which a user may name an energy meter."""

SILENCE_S = 120.0
"""Default seconds of silence after which a device counts as hung: a step takes seconds."""

EXPORTS = ("cmake", "platformio-lib", "arduino-lib", "zephyr-module", "esp-idf-component")
"""Build systems that a library can be exported for: folders of templates with a format.toml."""

EXPORTED_NAME = "poetfw"
"""Name of an exported library, if nobody names it: nothing in it is renamed then."""

EXPORTED_WEIGHTS = ("initial", "trained", "none")
"""Weights that an exported library may hold, the default first."""

WEIGHT_FORMATS = ("npz", "safetensors", "onnx", "torch")
"""Files of trained weights: keys of `poetfw.runs.trained.FORMATS`."""

LARGEST_BYTES = 2**40
"""Largest budget, output, workspace or block accepted, in bytes."""

LARGEST_COST = 1e15
"""Largest time or energy accepted, in seconds or joules: sums of such stay far from overflow."""
