# SPDX-License-Identifier: Apache-2.0
"""Report of a built project as one HTML file: its plan, its memory, its costs and its last run.

The file needs no network and no other file. Python writes all texts and all positions; a script in
the page draws them, and lets a reader point at, choose and zoom.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from poetfw.common.errors import OutputError
from poetfw.common.version import __version__
from poetfw.report.html import words
from poetfw.report.html.charts import chart_data
from poetfw.report.html.source import ProjectFiles, ReportSource, read_source
from poetfw.report.stage_files import MALFORMED

__all__ = ["ProjectFiles", "ReportSource", "chart_data", "read_source", "report_html"]


def report_html(project: Path | ProjectFiles) -> str:
    """Render the report of a built project as one self-contained HTML page.

    Args:
        project: the project's folder; or the contents of its files, by path relative to that
            folder. Of these, `build.json`, `graph.json`, `plan.json` and `memory.json` are needed
            (the last three in a folder for each memory, where there are several), and
            `run/report.json` is read where there is one. A build in memory has them all in
            `build.project.files`, but for `build.json`, which is `report_build(…).to_json()`.

    Raises:
        OutputError: A file is missing or malformed.
    """
    source = read_source(project)
    try:
        return _render(source, chart_data(source))
    except MALFORMED as error:
        raise OutputError(
            f"the project's files contradict each other: {error!r}", "run `poetfw build` again"
        ) from error


def _render(source: ReportSource, data: dict[str, Any]) -> str:
    build = source.build
    return _template().render(
        version=__version__,
        style=_asset("page.css"),
        script=_asset("page.js"),
        data=_embedded(data),
        title=words.title(source),
        subtitle=words.subtitle(build),
        badges=words.badges(source),
        lead=words.lead(source),
        tiles=words.tiles(source),
        who=words.who(source),
        layers_note=words.layers_note(source),
        curve=build.ram_curve,
        drawn_curve=len(build.ram_curve) > words.FEW_POINTS,
        curve_note=words.curve_note(build),
        loss=data["loss"] is not None,
        loss_note=words.loss_note(source),
        proofs=words.proofs(source),
        commands=words.commands(source),
        identity=words.identity(source),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=True
    )
    environment.filters["code"] = _with_code
    return environment.from_string(str(_asset("page.html.j2")))


def _with_code(text: str) -> Markup:
    """Text whose parts in backticks are code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def _asset(name: str) -> Markup:
    return Markup(resources.files(__name__).joinpath(name).read_text("utf-8"))


def _embedded(data: dict[str, Any]) -> Markup:
    """JSON that may stand in a `script` element: no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))
