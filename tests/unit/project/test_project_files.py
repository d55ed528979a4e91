# SPDX-License-Identifier: Apache-2.0
"""What surrounds the code: licence lines, one version, files that GitHub reads."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from poetfw import __version__
from poetfw.cli.main import cli
from unit.project.spdx import ROOT, is_licensed, sources

GITHUB = ROOT / ".github"
FORMS = sorted(
    path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)
REPOSITORY = "https://github.com/poetfw/poetfw"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def metadata() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def test_every_source_says_its_licence() -> None:
    files = sources()
    assert len(files) > 300
    unlicensed = [str(path) for path in files if not is_licensed(path)]
    assert not unlicensed, (
        "python tests/unit/project/spdx.py --fix adds the line to:\n" + "\n".join(unlicensed)
    )


def test_the_version_is_written_once() -> None:
    project = metadata()
    assert project["project"]["dynamic"] == ["version"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert source.read_text().count(f'__version__ = "{__version__}"') == 1
    assert read(ROOT / "CITATION.cff")["version"] == __version__
    others = [
        path
        for path in sources()
        if not path.is_relative_to("tests/golden")
        and ROOT / path != source
        and re.search(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", (ROOT / path).read_text())
    ]
    assert not others


def test_the_command_says_its_version() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.output.split()[-1] == __version__


def test_citation_has_what_the_format_requires() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"]
    project = metadata()["project"]
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Source"] == REPOSITORY


def test_the_workflow_runs_the_projects_own_command() -> None:
    workflow = read(GITHUB / "workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow[True].keys() >= {"push", "pull_request"}  # YAML takes the key `on` for true
    assert os.access(ROOT / ".ci/run", os.X_OK)
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert "bash .ci/run" in [step.get("run") for step in job["steps"]]
        actions = [step["uses"] for step in job["steps"] if "uses" in step]
        assert actions[0].startswith("actions/checkout@")
        assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in actions)
    assert "secrets." not in (GITHUB / "workflows/ci.yml").read_text()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_what_github_accepts(form: Path) -> None:
    document = read(form)
    assert {"name", "description", "body"} <= document.keys()
    fields = [field for field in document["body"] if field["type"] != "markdown"]
    assert fields
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids)
    for field in document["body"]:
        assert field["type"] in {"markdown", "input", "textarea", "dropdown", "checkboxes"}
        assert field["attributes"]["value" if field["type"] == "markdown" else "label"]
        assert field.get("validations", {}).keys() <= {"required"}


def test_a_bug_report_says_version_and_machine() -> None:
    bug = (GITHUB / "ISSUE_TEMPLATE/bug.yml").read_text()
    assert "poetfw --version" in bug
    assert "poetfw doctor" in bug
    assert {form.stem for form in FORMS} == {"bug", "board", "operator"}


def test_contributing_names_targets_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    targets = set(re.findall(r"make ([a-z-]+)", text))
    makefile = (ROOT / "Makefile").read_text()
    assert {"lint", "test", "test-all"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
