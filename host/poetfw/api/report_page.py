# SPDX-License-Identifier: Apache-2.0
"""Reports as HTML pages, in files and in notebooks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from poetfw.common.output_file import replace_file
from poetfw.report.html import report_html

_HEIGHT_PX = 900


@dataclass(frozen=True)
class HtmlReport:
    """Report of a plan, a build or a run, which needs no network and no other file.

    Attributes:
        html: the page.
    """

    html: str = field(repr=False)

    @classmethod
    def of(cls, project: Path | Mapping[str, bytes]) -> HtmlReport:
        """Draw the report of a project's folder, or of its files.

        Raises:
            OutputError: A file is missing or malformed.
        """
        return cls(report_html(project))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Raises:
            OutputError: The file cannot be written.
        """
        replace_file(Path(path), self.html.encode())

    def _repr_html_(self) -> str:
        """Frame with the page, whose styles and scripts stay within."""
        style = f"width:100%;height:{_HEIGHT_PX}px;border:0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}"></iframe>'
