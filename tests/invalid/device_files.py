# SPDX-License-Identifier: Apache-2.0
"""Devices that a schedule is asked for, and problems with several of them."""

from __future__ import annotations

import json

from invalid.case import Case, Make, cases
from invalid.makers import both, text
from poetfw.ops import KINDS

DEVICE = """
name = "{name}"
description = "a device"
{more}
ram_bytes = {{ value = {ram}, source = "chosen" }}
flops_per_s = {{ value = {flops}, source = "chosen" }}
launch_s = {{ value = 1e-6, source = "chosen" }}
{link}
"""
LINK = """
[[link]]
to = "b"
bandwidth_bytes_per_s = { value = 1e9, source = "chosen" }
latency_s = { value = 1e-6, source = "chosen" }
"""
NODE = {"name": "n", "inputs": [], "time_s": 1.0, "energy_j": 1.0, "output_bytes": 4}
LACKS_ALL = json.dumps(
    {
        "schema_version": 1,
        "name": "p",
        "devices": [
            {
                "name": "a",
                "lacks": ["n"],
                "problem": {
                    "schema_version": 1,
                    "name": "p",
                    "ram_bytes": 100,
                    "deadline_s": None,
                    "storage": None,
                    "nodes": [NODE],
                },
            }
        ],
        "links": [],
    }
)
Cases = tuple[Case, ...]

ON_TWO = "schedule --devices a.toml,b.toml --model mlp"


def device(
    name: str, ram: int = 1_000_000, flops: str = "1e9", link: str = LINK, more: str = ""
) -> Make:
    written = DEVICE.format(name=name, ram=ram, flops=flops, link=link, more=more)
    return text(f"{name}.toml", written)


SOUND = device("b", link="")
BOARD = 'board = "linux"'
SOUND_PART = device("b", link="", more=BOARD)
OTHER_PLAN = text(
    "answer.json", '{"plan": [{"step": "compute", "node": "load x", "device": "gpu"}]}'
)


def of_builds(name: str, code: int, says: tuple[str, ...], make: Make, more: str = "") -> Cases:
    """The same for a build of one program, and of one for each device; nothing is written."""
    return tuple(
        Case(
            f"{name}_{kind}",
            f"build --devices a.toml,b.toml --model mlp{flag}{more}",
            code,
            says,
            make,
        )
        for kind, flag in (("built", ""), ("built_apart", " --apart"))
    )


CASES: tuple[Case, ...] = (
    *cases(
        ON_TWO,
        (
            "device_with_negative_figure",
            both(device("a", flops="-1e9"), SOUND),
            "a.toml: at flops_per_s.value: 1 or more was expected",
        ),
        ("device_not_toml", both(text("a.toml", "]"), SOUND), "a.toml is not TOML"),
        (
            "devices_without_link",
            both(device("a", link=""), SOUND),
            "no link joins device 'a' to another",
        ),
    ),
    *cases(
        "schedule --devices a.json",
        (
            "device_that_can_compute_nothing",
            text("a.json", LACKS_ALL),
            "device 'a' can compute no node",
        ),
        (
            "devices_problem_of_no_devices",
            text("a.json", '{"schema_version": 1, "name": "p", "devices": [], "links": []}'),
            "has no devices",
        ),
    ),
    *cases(
        f"{ON_TWO} --replay answer.json",
        (
            "plan_of_other_devices",
            both(both(device("a"), SOUND), OTHER_PLAN),
            "answer.json: step 0",
            "there is no device 'gpu'",
            "that it was found for",
        ),
        (
            "plan_of_one_device",
            both(
                both(device("a"), SOUND),
                text("answer.json", '{"plan": [{"step": "compute", "node": "fc1"}]}'),
            ),
            "plan.0.device: it is missing",
        ),
    ),
    Case("device_file_missing", ON_TWO, 1, ("a.toml cannot be read",)),
    Case(
        "parallel_for_one_board",
        "schedule --board linux --model mlp --parallel",
        2,
        ("--parallel needs --devices",),
    ),
    Case(
        "devices_and_a_board_to_compare",
        "compare --board linux --devices a.toml,b.toml --model mlp",
        2,
        ("--board does not go with --devices",),
    ),
    Case("nothing_to_compare_on", "compare --model mlp", 2, ("either --board, or --devices",)),
    Case(
        "fractions_for_one_board",
        "schedule --board linux --model mlp --ram-fraction 0.5,0.5",
        2,
        ("several values with --devices or --pareto only",),
    ),
    Case("devices_without_model", "schedule --devices a.toml,b.toml", 2, ("needs --model",)),
    Case(
        "devices_beside_a_problem",
        "schedule --devices a.json --problem p.json",
        2,
        ("--problem does not go with --devices",),
    ),
    *of_builds(
        "plan_of_other_devices",
        1,
        ("answer.json: step 0", "there is no device 'gpu'", "that it was found for"),
        both(both(device("a", more=BOARD), SOUND_PART), OTHER_PLAN),
        " --replay answer.json",
    ),
    *of_builds(
        "device_with_negative_figure",
        1,
        ("a.toml: at flops_per_s.value: 1 or more was expected",),
        both(device("a", flops="-1e9", more=BOARD), SOUND_PART),
    ),
    *of_builds(
        "devices_without_link",
        1,
        ("no link joins device 'a' to another", "add a link"),
        both(device("a", link="", more=BOARD), SOUND_PART),
    ),
    *of_builds(
        "device_that_can_compute_nothing",
        1,
        ("device 'a' can compute no node", "leave it out"),
        both(device("a", more=f"{BOARD}\nlacks = {json.dumps(sorted(KINDS))}"), SOUND_PART),
    ),
    *of_builds(
        "op_fits_on_no_device",
        5,
        ("fits on no device", "bytes on 'a', which has 64", "give one of the devices more RAM"),
        both(device("a", 64, more=BOARD), device("b", 32, link="", more=BOARD)),
    ),
    Case(
        "devices_of_one_name",
        "schedule --devices a.toml,a.toml --model mlp",
        1,
        ("device 'a' appears 2 times",),
        device("a"),
    ),
    Case(
        "op_fits_on_no_device",
        ON_TWO,
        5,
        (
            "fits on no device",
            "bytes on 'a', which has 64",
            "on 'b', which has 32",
        ),
        both(device("a", 64), device("b", 32, link="")),
    ),
    Case(
        "least_energy_at_once",
        f"{ON_TWO} --parallel --minimise energy",
        1,
        ("devices that work at once are scheduled for the least time only",),
        both(device("a"), SOUND),
    ),
    Case(
        "devices_to_compare_without_link",
        "compare --devices a.toml,b.toml --model mlp",
        1,
        ("no link joins device 'a' to another",),
        both(device("a", link=""), SOUND),
    ),
    Case(
        "fractions_for_other_devices",
        f"{ON_TWO} --ram-fraction 0.5",
        1,
        ("--ram-fraction has 1 values for 2 devices",),
        both(device("a"), SOUND),
    ),
    Case(
        "fraction_that_is_none",
        f"{ON_TWO} --ram-fraction 0.5,nan",
        2,
        ("not a finite number",),
        both(device("a"), SOUND),
    ),
)
