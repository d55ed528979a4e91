# SPDX-License-Identifier: Apache-2.0
"""`poetfw doctor`: checks the programs and packages of this machine."""

from __future__ import annotations

from dataclasses import asdict

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.settings import Printed


@command("Example:  poetfw doctor")
def doctor(printed: Printed) -> int:
    """Check which programs and packages are installed, and print how to install those missing.

    Exit code 3 if a required one is missing.
    """
    from poetfw.tools.inventory import take_inventory

    with output.spinner() as progress:
        progress("checking programs and packages")
        findings = take_inventory()
    missing = [finding for finding in findings if finding.found is None]
    required = [finding for finding in missing if finding.required]
    if printed.as_json:
        output.print_json(
            {
                "schema_version": 1,
                "ok": not required,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        lack = {True: "missing", False: "missing, optional"}
        rows = [(f.name, f.found or lack[f.required], f.needed_for, f.fix or "") for f in findings]
        output.results.print(output.table("This machine", ("", "found", "for", "fix"), rows))
        if optional := [f.name for f in missing if not f.required]:
            said = "Everything required is here. " if not required else ""
            output.results.print(f"{said}Optional parts that are missing: {', '.join(optional)}")
    return 3 if required else 0
