# SPDX-License-Identifier: Apache-2.0
"""What a shell completes, asked as the shell asks: by environment variables, and from bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from poetfw.common.option_values import DATA, LOSSES, SCHEDULERS, WEIGHT_FORMATS
from poetfw.common.option_values import MODELS as MODEL_NAMES
from poetfw.common.resources import boards_dir
from poetfw.importers import BUILT_IN
from poetfw.models import MODELS
from poetfw.runs.trained import FORMATS
from poetfw.schedule import SCHEDULERS as KNOWN_SCHEDULERS
from poetfw.training import LOSSES as KNOWN_LOSSES

BOARDS = sorted(path.stem for path in boards_dir().glob("*.toml"))


def completed(words: str, home: Path, shell: str = "bash") -> list[str]:
    """Answers for the last of these words, each `TYPE,VALUE` as bash reads them."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "COMP_WORDS": words}
    environment |= {"COMP_CWORD": str(len(words.split(" ")) - 1)}
    environment |= {"_POETFW_COMPLETE": f"{shell}_complete"}
    result = subprocess.run(
        [sys.executable, "-m", "poetfw.cli.entry"],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout.splitlines()


def plain(names: list[str]) -> list[str]:
    return [f"plain,{name}" for name in names]


def test_names_that_options_take_are_those_that_the_code_knows() -> None:
    assert MODEL_NAMES == tuple(MODELS)
    assert DATA == tuple(BUILT_IN)
    assert SCHEDULERS == tuple(KNOWN_SCHEDULERS)
    assert LOSSES == tuple(KNOWN_LOSSES)
    assert WEIGHT_FORMATS == tuple(FORMATS)


def test_boards_are_completed_shipped_ones_and_the_users(tmp_path: Path) -> None:
    own = tmp_path / ".config/poetfw/boards"
    own.mkdir(parents=True)
    (own / "mine.toml").write_text("")
    assert completed("poetfw build --board ", tmp_path) == plain(sorted([*BOARDS, "mine"]))
    assert completed("poetfw run --board nrf", tmp_path) == plain(
        [name for name in BOARDS if name.startswith("nrf")]
    )
    assert completed("poetfw sweep --boards nrf52840,rpi4,mk", tmp_path) == plain(
        [f"nrf52840,rpi4,{name}" for name in BOARDS if name.startswith("mk")]
    )


def test_models_are_completed_and_files_where_no_model_is_called_so(tmp_path: Path) -> None:
    resnets = [name for name in MODELS if name.startswith("res")]
    assert completed("poetfw build --model res", tmp_path) == plain(resnets)
    assert completed("poetfw models res", tmp_path) == plain(resnets)
    assert completed("poetfw build --model ./net", tmp_path) == ["file,./net"]
    assert completed("poetfw export-weights --model res", tmp_path) == ["file,res"]
    assert completed("poetfw build --weights w", tmp_path) == ["file,w"]


def test_schedulers_are_completed_alone_and_in_lists(tmp_path: Path) -> None:
    poet = [name for name in SCHEDULERS if name.startswith("poet")]
    assert completed("poetfw build --scheduler poet", tmp_path) == plain(poet)
    rest = [f"poet,{name}" for name in poet if name != "poet"]
    assert completed("poetfw compare --schedulers poet,poet", tmp_path) == plain(rest)


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert completed("poetfw pu", tmp_path) == plain(["pull", "push"])
    assert completed("poetfw build --optimizer ad", tmp_path) == plain(["adagrad", "adam", "adamw"])
    assert completed("poetfw build --mom", tmp_path) == plain(["--momentum"])


def test_bash_completes_a_word(tmp_path: Path) -> None:
    script = f"""
        poetfw() {{ "{sys.executable}" -m poetfw.cli.entry "$@"; }}
        eval "$(_POETFW_COMPLETE=bash_source poetfw)"
        complete -p poetfw
        COMP_WORDS=(poetfw build --board nrf528) COMP_CWORD=3
        _poetfw_completion "{Path(sys.executable).parent / "poetfw"}"
        echo "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    function, words = result.stdout.splitlines()
    assert function.endswith("-F _poetfw_completion poetfw")
    assert words.split() == [name for name in BOARDS if name.startswith("nrf528")]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(tmp_path: Path, shell: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "poetfw.cli.entry"],
        env={**os.environ, "_POETFW_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_POETFW_COMPLETE={shell}_complete" in result.stdout
