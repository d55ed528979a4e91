# SPDX-License-Identifier: Apache-2.0
"""Commands, options, environment variables and poetfw.toml."""

from __future__ import annotations

from invalid.case import Case
from invalid.makers import text

GENERATE = "build --board linux --model mlp --ram 1000000 --generate-only"
SETTINGS = "poetfw.toml"

CASES = (
    Case("unknown command", "train --board linux", 2, ("No such command 'train'",)),
    Case("unknown option", f"{GENERATE} --frobnicate", 2, ("No such option", "--frobnicate")),
    Case("no board", "build", 2, ("Missing option '--board'",)),
    Case("option without value", f"{GENERATE} --batch", 2, ("'--batch'",)),
    Case("extra argument", f"{GENERATE} again", 2, ("unexpected extra argument (again)",)),
    Case(
        "unknown scheduler", f"{GENERATE} --scheduler magic", 2, ("'magic' is not one of", "poet")
    ),
    Case("unknown loss", f"{GENERATE} --loss hinge", 2, ("'hinge' is not one of", "mse")),
    Case("choice of one optimizer", f"{GENERATE} --optimizer sgd", 2, ("No such option",)),
    Case("unknown toolchain", f"{GENERATE} --toolchain iar", 2, ("'iar' is not one of", "stock")),
    Case("batch of 0", f"{GENERATE} --batch 0", 2, ("0 is not in the range x>=1",)),
    Case("batch is no number", f"{GENERATE} --batch many", 2, ("'many' is not a valid integer",)),
    Case("negative RAM", "build --board linux --ram -5", 2, ("-5 is not in the range x>=1",)),
    Case("negative seed", f"{GENERATE} --seed -1", 2, ("-1 is not in the range",)),
    Case("seed beyond 32 bits", f"{GENERATE} --seed 4294967296", 2, ("not in the range",)),
    Case("no steps", "run --board linux --steps 0", 2, ("0 is not in the range x>=1",)),
    Case("no time", "run --board linux --timeout 0", 2, ("not in the range x>0",)),
    Case("time is NaN", "run --board linux --timeout nan", 2, ("nan is not a finite number",)),
    Case("time limit is NaN", f"{GENERATE} --time-limit nan", 2, ("nan is not a finite number",)),
    Case("work limit is 0", f"{GENERATE} --work-limit 0", 2, ("0.0 is not in the range x>0",)),
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
        "learning rate is NaN", f"{GENERATE} --learning-rate nan", 1, ("the learning rate is nan",)
    ),
    Case(
        "negative learning rate",
        f"{GENERATE} --learning-rate -0.1",
        1,
        ("the learning rate is -0.1: it must be above 0",),
    ),
    Case("endless learning rate", f"{GENERATE} --learning-rate inf", 1, ("learning rate is inf",)),
    Case(
        "learning rate beyond float32",
        f"{GENERATE} --learning-rate 1e300",
        1,
        ("the learning rate is 1e+300",),
    ),
    Case(
        "momentum of 1",
        f"{GENERATE} --momentum 1",
        1,
        ("the momentum is 1.0: it must be in [0, 1)",),
    ),
    Case("momentum is NaN", f"{GENERATE} --momentum nan", 1, ("the momentum is nan",)),
    Case(
        "momentum that float32 rounds to 1",
        f"{GENERATE} --momentum 0.999999999",
        1,
        ("the momentum is 0.999999999",),
    ),
    Case(
        "negative weight decay",
        f"{GENERATE} --weight-decay -1",
        1,
        ("the weight decay is -1.0: it must be 0 or more",),
    ),
    Case("clip at 0", f"{GENERATE} --clip-norm 0", 1, ("the norm to clip at is 0.0",)),
    Case("clip at NaN", f"{GENERATE} --clip-norm nan", 1, ("the norm to clip at is nan",)),
    Case(
        "unknown parameter to freeze",
        f"{GENERATE} --freeze hidden1*,conv*",
        1,
        ("no parameter of model 'mlp' is called 'conv*'", "'hidden1.weight'"),
    ),
    Case(
        "everything frozen",
        f"{GENERATE} --freeze *",
        1,
        ("all parameters of model 'mlp' are frozen",),
    ),
    Case(
        "unknown parameter to freeze in the settings",
        GENERATE,
        1,
        ("no parameter of model 'mlp' is called 'conv*'",),
        text(SETTINGS, 'freeze = "hidden1*, conv*"\n'),
    ),
    Case(
        "environment variable is no number",
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
        "settings are no TOML",
        GENERATE,
        1,
        ("poetfw.toml cannot be read:", "line 1"),
        text(SETTINGS, "batch = = 3\n"),
    ),
    Case(
        "settings are no UTF-8",
        GENERATE,
        1,
        ("poetfw.toml cannot be read:", "utf-8"),
        text(SETTINGS, b"batch = '\xff'\n"),
    ),
    Case(
        "settings nested beyond measure",
        GENERATE,
        1,
        ("poetfw.toml cannot be read:",),
        text(SETTINGS, "batch = " + "[" * 100_000),
    ),
    Case(
        "settings with a number of 5,000 digits",
        GENERATE,
        1,
        ("poetfw.toml cannot be read:", "digits"),
        text(SETTINGS, "batch = " + "9" * 5000),
    ),
    Case(
        "settings are a folder",
        GENERATE,
        1,
        ("poetfw.toml cannot be read:", "Is a directory"),
        lambda folder: (folder / SETTINGS).mkdir(),
    ),
    Case(
        "unknown setting",
        GENERATE,
        1,
        ("poetfw.toml: bacth is no setting of poetfw", "use one of:", "batch"),
        text(SETTINGS, "bacth = 8\n"),
    ),
    Case(
        "setting of an option that is gone",
        GENERATE,
        1,
        ("poetfw.toml: optimizer is no setting of poetfw",),
        text(SETTINGS, 'optimizer = "sgd"\n'),
    ),
    Case(
        "setting of another command",
        GENERATE,
        1,
        ("poetfw.toml: build.steps is no setting of poetfw",),
        text(SETTINGS, "[build]\nsteps = 8\n"),
    ),
    Case(
        "settings of an unknown command",
        GENERATE,
        1,
        ("poetfw.toml: [train] is no command of poetfw",),
        text(SETTINGS, "[train]\nsteps = 8\n"),
    ),
    Case(
        "unknown setting, where an option of one command means something of its own",
        "place buffers.csv",
        1,
        ("poetfw.toml: outs is no setting of poetfw", "out, "),
        text(SETTINGS, 'outs = "here"\n'),
    ),
    Case(
        "setting is a list",
        GENERATE,
        1,
        ("poetfw.toml: batch must be a text, a number or true or false, not [8]",),
        text(SETTINGS, "batch = [8]\n"),
    ),
    Case(
        "setting is no whole number",
        GENERATE,
        1,
        ("poetfw.toml: Invalid value for '--batch': '8.5' is not a valid integer",),
        text(SETTINGS, "batch = 8.5\n"),
    ),
    Case(
        "setting is true",
        GENERATE,
        1,
        ("poetfw.toml: Invalid value for '--batch': 'True' is not a valid integer",),
        text(SETTINGS, "batch = true\n"),
    ),
    Case(
        "setting is out of range",
        GENERATE,
        1,
        ("poetfw.toml: Invalid value for '--batch': -8 is not in the range",),
        text(SETTINGS, "[build]\nbatch = -8\n"),
    ),
    Case(
        "flag is neither on nor off",
        "build --board linux --model mlp --ram 1000000",
        1,
        ("poetfw.toml: Invalid value for '--generate-only': 'maybe' is not a valid boolean",),
        text(SETTINGS, '[build]\ngenerate-only = "maybe"\n'),
    ),
)
