# SPDX-License-Identifier: Apache-2.0
"""Models, boards and folders may be called anything: it still builds, compiles and trains."""

from __future__ import annotations

import json

import pytest

from invalid.case import Sandbox, only_document
from invalid.makers import good_data, network

BUILD = "build --board linux --data data.npz --batch 4 --json"

NAMES = {
    "C code": ("*/ int main(void) { return 7; } /*", "// #error \\", '"); abort(); ("'),
    "newlines": ("\n#error one\n", "\r\n#error two\r\n", "\u2028#error three\u2029\x0b\x0c"),
    "trigraphs": ("??/", "/* ??/\n*/ ??=error", "\\\\"),
    "unicode": ("å¤§\u202egnp.exe", "\U0001f9e8\u0301", "e\u0301\u200b"),
    "control characters": ("\x1b[2J", "\x07\x08", "\x7f\x01"),
    "templates": ("{{ 7 * 7 }}", "{% raw %}", "%(name)s ${HOME} $(id)"),
    "keywords": ("int", "poet_arena", "main"),
    "10 kB": ("a" * 10_000, "*/" * 5_000, "\n" * 10_000),
    "numbers": ("0", "-1", "1e9"),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_node_names_never_reach_the_code(
    names: tuple[str, str, str], sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    (sandbox.work / "net.onnx").write_bytes(network(names).SerializeToString())
    good_data(sandbox.work)
    build = sandbox.run(f"{BUILD} --model net.onnx --ram 100000 --generate-only", capsys)
    assert build.code == 0, build.stderr
    folder = sandbox.work / "build/linux"
    sources = [path for path in folder.rglob("*") if path.suffix in (".c", ".h")]
    for path in (folder / "lib/poetfw/generated").iterdir():
        text = path.read_bytes()
        assert text.isascii()
        assert max(map(len, text.split(b"\n"))) < 400
        assert b"??" not in text
        assert text.count(b"/*") == text.count(b"*/")
        assert b"{{" not in text
        assert b"\n#error" not in text
    assert sources
    originals = json.dumps(json.loads((folder / "names.json").read_bytes()), ensure_ascii=False)
    for name in names:
        assert json.dumps(name, ensure_ascii=False)[1:-1] in originals


@pytest.mark.slow
def test_hostile_names_compile_and_train_in_a_hostile_folder(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tuple("".join(group[i] for group in NAMES.values()) for i in range(3))
    model = sandbox.work / "*' \" [bold] ??-- $HOME.onnx"
    model.write_bytes(network((names[0], names[1], names[2])).SerializeToString())
    good_data(sandbox.work)
    out = """--out 'a b %(x)s "[red]" #; {{ c }}'"""
    build = sandbox.run(f"""{BUILD} {out} --model "*' \\" [bold] ??-- $HOME.onnx" """, capsys)
    assert build.code == 0, build.stderr
    run = sandbox.run(f"run --board linux {out} --steps 2 --verify --json", capsys)
    assert run.code == 0, run.stderr
    assert only_document(run.stdout)["verify"]["bit_identical_to_unscheduled"] is True
    assert [path.name for path in (sandbox.root / "home").iterdir()] == []
    assert [path.name for path in (sandbox.root / "tmp").iterdir()] == []
    assert {path.name for path in sandbox.work.iterdir()} == {
        model.name,
        "data.npz",
        'a b %(x)s "[red]" #; {{ c }}',
    }


def test_budget_that_is_named_as_the_smallest_suffices(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "build --board linux --model mlp --generate-only --json --ram"
    refused = sandbox.run(f"{command} 4000", capsys)
    assert refused.code == 5
    smallest = only_document(refused.stdout)["error"]["minimum_budget_bytes"]
    assert smallest > 4000
    assert sandbox.run(f"{command} {smallest - 1}", capsys).code == 5
    assert not (sandbox.work / "build").exists()
    accepted = sandbox.run(f"{command} {smallest}", capsys)
    assert accepted.code == 0, accepted.stderr
    assert only_document(accepted.stdout)["peak_bytes"] <= smallest


def test_link_as_output_folder_is_followed(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    (sandbox.work / "disk").mkdir()
    (sandbox.work / "out").symlink_to("disk/project")
    command = "build --board linux --model mlp --ram 1000000 --generate-only --out out"
    for _ in range(2):
        assert sandbox.run(command, capsys).code == 0
    assert (sandbox.work / "out").is_symlink()
    assert (sandbox.work / "disk/project/poetfw.json").is_file()
    assert [path.name for path in (sandbox.work / "disk").iterdir()] == ["project"]
