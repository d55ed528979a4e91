# SPDX-License-Identifier: Apache-2.0
"""`poetfw doctor`: what this machine has and lacks."""

from __future__ import annotations

from dataclasses import asdict

import click

from poetfw.cli import output
from poetfw.cli.options import json_option


@click.command(epilog="Example:  poetfw doctor")
@json_option
def doctor(as_json: bool) -> int:
    """Say what this machine has and lacks, and the command that mends each lack.

    Ends with exit code 3 where something is missing.
    """
    from poetfw.devices.inventory import take_inventory

    with output.spinner() as progress:
        progress("looking around")
        findings = take_inventory()
    missing = [finding for finding in findings if finding.found is None]
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "ok": not missing,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        rows = [(f.name, f.found or "missing", f.needed_for, f.fix or "") for f in findings]
        output.results.print(output.table("This machine", ("", "found", "for", "fix"), rows))
    return 3 if missing else 0
