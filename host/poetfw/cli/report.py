# SPDX-License-Identifier: Apache-2.0
"""`poetfw report`: a build and its last run as one HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poetfw.cli import output
from poetfw.cli.command import command
from poetfw.settings import Built, Printed, Settings, setting
from poetfw.settings.values import OutputFile


@dataclass(frozen=True)
class ReportSettings(Settings, group="Output"):
    """The file to write."""

    file: Path = setting(
        "File to write.",
        flag="--output",
        short="-o",
        type=OutputFile(".html"),
        metavar="FILE.html",
        own=True,
        required=True,
        first=True,
    )


@command("Example:  poetfw report --board nrf52840 -o report.html")
def report(built: Built, written: ReportSettings, printed: Printed) -> int:
    """Write a build's plan, memory, costs and last run as one HTML file that needs no network."""
    from poetfw.api.folders import built_folder
    from poetfw.common.output_file import replace_file
    from poetfw.report.html import read_source, report_html
    from poetfw.runs.execution import expect_board

    folder, label = built_folder(built)
    expect_board(folder, read_source(folder).build, label)
    content = report_html(folder).encode()
    replace_file(written.file, content)
    if printed.as_json:
        output.print_json(
            {"schema_version": 1, "file": str(written.file), "size_bytes": len(content)}
        )
    else:
        output.results.print(
            output.escaped(f"{written.file}: {output.size(len(content))}, open it in a browser")
        )
    return 0
