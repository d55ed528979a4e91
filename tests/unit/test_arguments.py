# SPDX-License-Identifier: Apache-2.0
"""Command lines made of settings: typed again, they give the same settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_type_hints

import pytest

from poetfw.cli.main import COMMANDS
from poetfw.settings import Settings, arguments, take


def settings_of(name: str, words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings that a command gets from a command line."""
    command, got = COMMANDS[name], []
    kinds = get_type_hints(command.callback.__wrapped__)  # type: ignore[union-attr]

    def keep(**values: Any) -> None:
        models = (k for k in kinds.values() if isinstance(k, type) and issubclass(k, Settings))
        got.extend(take(model, values) for model in models)

    monkeypatch.setattr(command, "callback", keep)
    monkeypatch.setattr(command, "inapplicable", lambda given: ())
    command.main(list(words), standalone_mode=False)
    monkeypatch.undo()
    return got


CASES = (
    ("build", "--board nrf52840"),
    ("build", "--board nrf52840 --ram 176K --batch 8 --generate-only --weights-in-flash"),
    (
        "build",
        "--board nrf52840 --freeze conv1*,bn1* --freeze bn2* --no-decay bias,norm "
        "--optimizer adam --betas 0.9,0.99 --learning-rate 0.001 --warm-up 10",
    ),
    ("build", "--devices a.toml,b.toml --ram-fraction 0.9,1.0 --parallel --out two"),
    ("build", "--board nrf52840 --class-weights 1,2.5 --deadline 0.5 --seed 0"),
    ("run", "--out two --port big=/dev/ttyACM0 --port small=/dev/ttyACM1 --steps 5 --verify"),
    ("run", "--board nrf52840 --trace --epochs 2 --timeout 12.5 --metrics m.csv"),
)


@pytest.mark.parametrize(("name", "line"), CASES)
def test_arguments_give_the_same_settings(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Any = settings_of(name, line.split(), monkeypatch)
    again = arguments(*given)
    assert settings_of(name, again, monkeypatch) == given
    assert len(again) <= len(line.split())


def test_defaults_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "--board nrf52840 --checkpoint-sets 2 --keep-features auto".split()
    assert arguments(*settings_of("build", line, monkeypatch)) == ("--board", "nrf52840")
