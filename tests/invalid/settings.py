# SPDX-License-Identifier: Apache-2.0
"""Commands, options, environment variables and poetfw.toml."""

from __future__ import annotations

from invalid.case import Case, cases, options
from invalid.makers import text

GENERATE = "build --board linux --model mlp --ram 1000000 --generate-only"
SETTINGS = "poetfw.toml"

CASES = (
    *options(
        GENERATE,
        {
            "--frobnicate": ("No such option", "--frobnicate"),
            "--batch": "'--batch'",
            "again": "unexpected extra argument (again)",
            "--scheduler magic": ("'magic' is not one of", "poet"),
            "--loss hinge": ("'hinge' is not one of", "mse"),
            "--optimizer lion": ("'lion' is not one of", "adam"),
            "--optimizer adam --betas 0.9": "is not 2 numbers",
            "--optimizer adam --betas a,b": "is not 2 numbers",
            "--warm-up 16777217": "not in the range",
            "--out ''": ("--out", "the path is empty"),
            "--micro-batch 0": "not in the range x>=1",
            "--toolchain iar": ("'iar' is not one of", "stock"),
            "--batch 0": "0 is not in the range x>=1",
            "--batch many": "'many' is not a valid integer",
            "--seed -1": "-1 is not in the range",
            "--seed 4294967296": "not in the range",
            "--time-limit nan": "nan is not a finite number",
            "--work-limit 0": "0.0 is not in the range x>0",
        },
        code=2,
    ),
    *options(
        GENERATE,
        {
            "--features log-mel": "digits: there are no sounds to calculate log-mel of",
            "--learning-rate nan": "the learning rate is nan",
            "--learning-rate -0.1": "the learning rate is -0.1: it must be above 0",
            "--learning-rate inf": "learning rate is inf",
            "--learning-rate 1e300": "the learning rate is 1e+300",
            "--momentum 1": "the momentum is 1.0: it must be in [0, 1)",
            "--momentum nan": "the momentum is nan",
            "--momentum 0.999999999": "the momentum is 0.999999999",
            "--weight-decay -1": "the weight decay is -1.0: it must be 0 or more",
            "--optimizer adam --momentum 0.9": (
                "optimizer 'adam' has no momentum",
                "it has learning_rate",
            ),
            "--alpha 0.9": "optimizer 'sgd' has no alpha",
            "--optimizer adam --betas 0.9,1": "the beta is 1.0",
            "--optimizer adam --eps 1e-60": "eps",
            "--nesterov --momentum 0": "Nesterov's momentum needs a momentum above 0",
            "--schedule exponential:9": (
                "'exponential' is not a schedule of the learning rate",
                "cosine",
            ),
            "--schedule cosine": "'cosine' is not a schedule",
            "--schedule cosine:0": "the schedule has 0 steps",
            "--schedule step:9:2": "factor is 2.0: it must be",
            "--schedule step:9:nan": "factor is nan",
            "--clip-value -1": "the value to clip at",
            "--clip-value 1 --clip-norm 1": ("clipped both by norm and by value", "choose one"),
            "--batch 8 --micro-batch 3": "the micro-batch is 3: it must divide the batch of 8",
            "--batch 8 --micro-batch 4 --clip-norm 1": (
                "cannot be clipped by their norm over micro-batches",
                "clip them by value",
            ),
            "--train conv*": "no parameter of model 'mlp'",
            "--train last:0": "is called 'last:0'",
            "--no-decay norm": "is called 'norm'",
            "--clip-norm 0": "the norm to clip at is 0.0",
            "--clip-norm nan": "the norm to clip at is nan",
            "--freeze hidden1*,conv*": (
                "no parameter of model 'mlp' is called 'conv*'",
                "'hidden1.weight'",
            ),
            "--freeze *": "all parameters of model 'mlp' are frozen",
        },
    ),
    *cases(
        GENERATE,
        (
            "unknown parameter to freeze in the settings",
            text(SETTINGS, 'freeze = "hidden1*, conv*"\n'),
            "no parameter of model 'mlp' is called 'conv*'",
        ),
        (
            "settings are no TOML",
            text(SETTINGS, "batch = = 3\n"),
            "poetfw.toml cannot be read:",
            "line 1",
        ),
        (
            "settings are no UTF-8",
            text(SETTINGS, b"batch = '\xff'\n"),
            "poetfw.toml cannot be read:",
            "utf-8",
        ),
        (
            "settings nested beyond measure",
            text(SETTINGS, "batch = " + "[" * 100_000),
            "poetfw.toml cannot be read:",
        ),
        (
            "settings with a number of 5,000 digits",
            text(SETTINGS, "batch = " + "9" * 5000),
            "poetfw.toml cannot be read:",
            "digits",
        ),
        (
            "settings are a folder",
            lambda folder: (folder / SETTINGS).mkdir(),
            "poetfw.toml cannot be read:",
            "Is a directory",
        ),
        (
            "unknown setting",
            text(SETTINGS, "bacth = 8\n"),
            "poetfw.toml: bacth is not a setting of poetfw",
            "use one of:",
            "batch",
        ),
        (
            "setting of an option that there is not",
            text(SETTINGS, 'precision = "int8"\n'),
            "poetfw.toml: precision is not a setting of poetfw",
        ),
        (
            "setting of another command",
            text(SETTINGS, "[build]\nsteps = 8\n"),
            "poetfw.toml: build.steps is not a setting of poetfw",
        ),
        (
            "settings of an unknown command",
            text(SETTINGS, "[train]\nsteps = 8\n"),
            "poetfw.toml: [train] is not a command of poetfw",
        ),
        (
            "setting is a list",
            text(SETTINGS, "batch = [8]\n"),
            "poetfw.toml: batch must be a text, a number or true or false, not [8]",
        ),
        (
            "setting is not a whole number",
            text(SETTINGS, "batch = 8.5\n"),
            "poetfw.toml: Invalid value for '--batch': '8.5' is not a valid integer",
        ),
        (
            "setting is true",
            text(SETTINGS, "batch = true\n"),
            "poetfw.toml: Invalid value for '--batch': 'True' is not a valid integer",
        ),
        (
            "setting is out of range",
            text(SETTINGS, "[build]\nbatch = -8\n"),
            "poetfw.toml: Invalid value for '--batch': -8 is not in the range",
        ),
    ),
    Case("unknown command", "train --board linux", 2, ("No such command 'train'",)),
    Case("no board", "build", 2, ("give either --board, or --devices",)),
    Case("events without a path", "run --board linux --tensorboard ''", 2, ("the path is empty",)),
    Case("negative RAM", "build --board linux --ram -5", 2, ("-5 is not in the range x>=1",)),
    Case("no steps", "run --board linux --steps 0", 2, ("0 is not in the range x>=1",)),
    Case("no time", "run --board linux --timeout 0", 2, ("not in the range x>0",)),
    Case("time is NaN", "run --board linux --timeout nan", 2, ("nan is not a finite number",)),
    Case(
        "unknown scheduler without a build",
        "schedule --board linux --model mlp --scheduler magic",
        2,
        ("'magic' is not one of", "poet"),
    ),
    Case(
        "unknown scheduler to compare",
        "compare --board linux --model mlp --schedulers poet,magic",
        2,
        ("'magic' is not one of", "poet"),
    ),
    Case(
        "unknown scheduler to sweep with",
        "sweep --boards linux --models mlp --schedulers magic",
        2,
        ("'magic' is not one of", "poet"),
    ),
    Case(
        "environment variable is not a number",
        GENERATE,
        2,
        ("'abc' is not a valid integer", "from the environment variable POETFW_BATCH"),
        environment={"POETFW_BATCH": "abc"},
    ),
    Case(
        "environment variable names an unknown board",
        "build --generate-only",
        1,
        ("no board is called 'atari'",),
        environment={"POETFW_BOARD": "atari"},
    ),
    Case(
        "unknown setting, where an option of one command means something of its own",
        "place buffers.csv",
        1,
        (
            "poetfw.toml: outs is not a setting of poetfw",
            "out, ",
        ),
        text(SETTINGS, 'outs = "here"\n'),
    ),
    Case(
        "flag is neither on nor off",
        "build --board linux --model mlp --ram 1000000",
        1,
        ("poetfw.toml: Invalid value for '--generate-only': 'maybe' is not a valid boolean",),
        text(SETTINGS, '[build]\ngenerate-only = "maybe"\n'),
    ),
)
