# SPDX-License-Identifier: Apache-2.0
"""Budgets, deadlines and sizes that nothing fits into."""

from __future__ import annotations

from invalid.case import Case, options

MLP = "build --board linux --model mlp --batch 8 --generate-only"

CASES = (
    *options(
        MLP,
        {
            "--deadline -1": "-1.0 is not in the range x>0",
            "--deadline nan": "nan is not a finite number",
            "--deadline inf": "inf is not a finite number",
        },
        code=2,
    ),
    Case(
        "model larger than the board",
        "build --board nrf52840 --model mlp --batch 1 --ram 6K --clip-norm 1 --generate-only",
        5,
        ("parameters",),
    ),
    Case(
        "a billion samples in a batch",
        "build --board linux --batch 1000000000 --ram 1000000 --generate-only",
        1,
        ("the batch is 1000000000: it must be between 1 and 65536",),
    ),
    Case(
        "batch of 31 digits",
        "build --board linux --batch 1000000000000000000000000000000 --ram 9999 --generate-only",
        1,
        ("it must be between 1 and 65536",),
    ),
    *(
        Case(f"{option} of {value}", f"{command} {option} {value}", 2, ("is more than",))
        for command in ("schedule --board linux --model mlp",)
        for option, value in (
            ("--ram-fraction", "1e308"),
            ("--deadline", "1e308"),
            ("--time-limit", "1e300"),
            ("--ram", "1099511627777"),
            ("--ram", f"1{'0' * 400}"),
        )
    ),
    *(
        Case(
            f"a curve of {options}",
            f"schedule --board linux --model mlp --pareto {options}",
            2,
            (says,),
        )
        for options, says in (
            ("0", "0 is not in the range 2<=x<=1000"),
            ("3 --ram-fraction 0.9,0.3", "0.9,0.3 is no range: the smaller budget comes first"),
            ("3 --ram-fraction 0.5,0.5", "is no range"),
            ("3 --ram-fraction 0.9", "takes the smallest and the largest budget"),
            ("3 --ram-fraction 0.3,1.5", "1.5 is above 1"),
            ("3 --ram 60000", "--ram does not go with --pareto"),
            ("3 --replay answer.json", "--replay does not go with --pareto"),
        )
    ),
    Case(
        "a curve in which nothing fits",
        "schedule --board linux --model mlp --pareto 3 --ram-fraction 0.001,0.002",
        5,
        ("is too small: at least", "give it"),
    ),
    Case("--ram beyond every machine", f"{MLP} --ram 1{'0' * 400}", 2, ("is more than",)),
    Case("models at a batch of 31 digits", f"models --batch 1{'0' * 30}", 1, ("batch",)),
    Case(
        "budget too small for the parameters",
        f"{MLP} --ram 100",
        5,
        (
            "the budget of 100 bytes is too small",
            "needs at least",
            "Op '",
            "never free",
        ),
    ),
    Case(
        "deadline that nothing meets",
        f"{MLP} --ram 1000000 --deadline 1e-9",
        5,
        ("takes 1e-09 s or less", "the shortest possible time"),
    ),
    Case(
        "budget too small for one op",
        "build --board linux --model mlp --batch 1 --ram 1000 --generate-only",
        5,
        ("the budget of 1,000 bytes is too small", "needs at least", "Op '"),
    ),
    Case(
        "budget too small for keeping everything",
        f"{MLP} --ram 9500 --scheduler checkpoint-all",
        5,
        ("checkpoint-all has no schedule", "it needs", "bytes or more"),
    ),
)
