# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments are checked as flags are, and give the same settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from poetfw.api.options import PLAN, RUN, SWEEP, keywords, settings_of
from poetfw.cli.command import Option, command
from poetfw.common.errors import ConfigError
from poetfw.settings import Application, Budget, SchedulerSettings, TrainingSettings, Where
from poetfw.settings.schedule import GridSettings

FLAGS_AND_KEYWORDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--ram 200K", {"ram": "200K"}),
    ("--ram 204800", {"ram": np.int64(204800)}),
    ("--train bias --train last:2,conv1*", {"train": ["bias", "last:2", "conv1*"]}),
    ("--train bias", {"train": "bias"}),
    ("--class-weights 1,2.5", {"class_weights": np.float32([1, 2.5])}),
    ("--betas 0.9,0.99 --optimizer adam", {"betas": (0.9, 0.99), "optimizer": "adam"}),
    ("--nesterov --momentum 0.5", {"nesterov": True, "momentum": 0.5}),
    ("--ring 8 --ring-share 2 --slices", {"ring": 8, "ring_share": 2, "slices": True}),
    ("--learning-rate 1", {"learning_rate": 1}),
    ("", {"learning_rate": None, "slices": False}),
)


@pytest.mark.parametrize(("flags", "options"), FLAGS_AND_KEYWORDS)
def test_keywords_give_the_settings_of_flags(flags: str, options: dict[str, Any]) -> None:
    seen: list[Any] = []

    @command("")
    def typed(
        budget: Budget,
        training: TrainingSettings,
        by: SchedulerSettings,
        application: Application,
    ) -> None:
        seen.extend((budget, training, by, application))

    typed.main(flags.split(), standalone_mode=False)
    models = (Budget, TrainingSettings, SchedulerSettings, Application)
    assert settings_of(models, options) == seen
    assert all(isinstance(option, Option) for option in typed.options.values())


def test_listed_files_and_factors() -> None:
    over, *_ = settings_of(
        SWEEP, {"boards": "a,b", "models": [Path("net.pt2"), "mlp"], "deadlines": [None, 1.5]}
    )
    assert isinstance(over, GridSettings)
    assert over.boards == ("a", "b")
    assert over.models == ("net.pt2", "mlp")
    assert over.deadlines == (None, 1.5)


def test_a_repeated_option_of_texts() -> None:
    where = next(one for one in settings_of(RUN, {"port": ["a=x", "b=y"]}) if type(one) is Where)
    assert where.ports == ("a=x", "b=y")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ram": "20X"}, "ram: '20X' is not a number of bytes"),
        ({"ram": 1.5}, "ram: 1.5 is not a whole number"),
        ({"ram": True}, "ram: True is a truth value"),
        ({"batch": 0}, "batch: 0 is not in the range x>=1"),
        ({"slices": 1}, "slices: 1 is not True or False"),
        ({"learning_rate": "fast"}, "learning_rate: 'fast' is not a valid float"),
        ({"learning_rate": [1]}, "learning_rate: [1] is no usable value"),
        ({"deadline": float("nan")}, "deadline: nan is not a finite number"),
        ({"optimizer": "sdg"}, "optimizer: 'sdg' is not one of"),
        ({"train": 3}, "train: 3 is no usable value"),
        ({"class_weights": "1,x"}, "class_weights: '1,x' is not numbers with commas between"),
        ({"speed": 3}, "there is no option 'speed'"),
        ({"ring_share": 2}, "--ring-share needs --ring"),
        ({"devices": ["a.toml"]}, "--board does not go with --devices"),
        ({"board": None}, "give either --board, or --devices"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(PLAN, {"board": "nrf52840"} | options)
    assert said in caught.value.message


def test_what_is_required() -> None:
    with pytest.raises(ConfigError, match="give --models"):
        settings_of(SWEEP, {"boards": "a"})


@pytest.mark.parametrize("models", [PLAN, RUN, SWEEP])
def test_every_setting_accepts_its_default(models: tuple[Any, ...]) -> None:
    """Each has a keyword of its own; a click default converted again stays as it is."""
    known = keywords(models)
    assert all(word.isidentifier() for word in known)
    given = {
        word: setting.default
        for word, (_, setting) in known.items()
        if not (setting.required or setting.type is click.BOOL or setting.default in (None, ()))
    }
    needed = {"board": "nrf52840", "boards": "nrf52840", "models": "mlp"}
    needed = {word: value for word, value in needed.items() if word in known}
    assert settings_of(models, given | needed) == settings_of(models, needed)
