# SPDX-License-Identifier: Apache-2.0
"""The report's page: its positions against a replay of the plan, its words, what it refuses."""

from __future__ import annotations

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import OutputError
from poetfw.memory import ONLY
from poetfw.models import build_model
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, schedule_problem
from poetfw.report import FloatsInstead, StoredAs, StreamingReport
from poetfw.report.html import _render, chart_data, read_source, report_html, words
from poetfw.report.html.charts import Action, Content
from poetfw.report.html.layers import SHARED, layers_of
from poetfw.schedule import BoundCovers, Status, StepKind, simulate
from poetfw.training import make_program
from system.commands import poetfw, succeed
from unit.report.html_projects import TICK_S, files_of, large, ran, report_of, tight, two


def data(build: Any = None, run: Any = None) -> dict[str, Any]:
    return chart_data(read_source(files_of(build or tight(), run)))


def rows(table: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


# Times and energies -----------------------------------------------------------------------------


def test_steps_add_up_to_the_plan() -> None:
    found, schedule = data(), tight().plan.training
    steps = rows(found["steps"])
    paging = [s["energy"] for s in steps if s["work"] in (Action.PAGE_IN, Action.PAGE_OUT)]
    assert math.fsum(paging) == pytest.approx(schedule.paging_energy_j, rel=1e-9)
    energies = math.fsum(step["energy"] for step in steps)
    assert energies == pytest.approx(schedule.energy_j, rel=1e-9)
    assert max(step["end"] for step in steps) == pytest.approx(schedule.time_s, rel=1e-9)
    counts = {work: sum(step["work"] == work for step in steps) for work in Action}
    assert counts[Action.AGAIN] == schedule.recomputes
    assert counts[Action.PAGE_IN] == schedule.page_ins
    assert counts[Action.PAGE_OUT] == schedule.page_outs


def test_the_core_computes_waits_or_works_for_transfers() -> None:
    """Waits are those of the simulator, and overlap no op."""
    build, found = tight(), data()
    board = build.image.board
    problem = schedule_problem(build.program.training, board, build.costs, None)
    pauses = rows(found["pauses"])
    waits = [p for p in pauses if not p["works"]]
    assert waits
    stall_s = simulate(problem, build.plan.training.plan).stall_s
    assert math.fsum(w["end"] - w["begin"] for w in waits) == pytest.approx(stall_s, rel=1e-9)
    transfers = (Action.PAGE_IN, Action.PAGE_OUT)
    ops = [s for s in rows(found["steps"]) if s["work"] not in transfers]
    spans = sorted((s["begin"], s["end"]) for s in [*ops, *pauses])
    for (_, end), (begin, _) in pairwise(spans):
        assert begin == pytest.approx(end, abs=1e-9), "the core has no other time"
    storage, schedule = problem.storage, build.plan.training.plan
    assert storage is not None
    sizes = {node.name: node.output_bytes for node in problem.nodes}
    moving = [storage.moving_in(sizes[n]) for k, n, *_ in schedule if k is StepKind.PAGE_IN]
    moving += [storage.moving_out(sizes[n]) for k, n, *_ in schedule if k is StepKind.PAGE_OUT]
    works_s = math.fsum(p["end"] - p["begin"] for p in pauses if p["works"])
    assert works_s == pytest.approx(math.fsum(m.core_s for m in moving), rel=1e-6)


def test_measured_times_stand_at_their_statements() -> None:
    steps = rows(data(run=ran(tight()))["steps"])
    for step in steps:
        assert step["measured"] == pytest.approx(1000 * step["step"] * TICK_S)
    assert {step["measured"] for step in rows(data()["steps"])} == {None}


# Buffers ----------------------------------------------------------------------------------------


def replayed(build: Any) -> tuple[list[Any], set[Any]]:
    """Stays of tensors and what ops of the backward pass read, by a replay of the plan."""
    graph = build.program.training
    ops = {op.name: op for op in graph.ops}
    there: dict[str, dict[str, Any]] = {}
    computed: set[str] = set()
    stays: list[Any] = []
    carried: set[Any] = set()
    for step in build.plan.training.plan:
        op = ops[step.node]
        if step.kind is StepKind.FREE:
            stays.append(there.pop(op.output))
            continue
        if step.kind is StepKind.COMPUTE:
            for name in dict.fromkeys(graph.reads(op)):
                if name in there:
                    there[name]["readers"].append(op.name)
                    if op.backward and not graph.producer[name].backward:
                        carried.add((name, op.name, there[name]["how"]))
        if step.kind is StepKind.PAGE_OUT:
            there[op.output]["out"] += 1
        elif op.output is not None:
            how = "again" if op.name in computed else "kept"
            how = "paged" if step.kind is StepKind.PAGE_IN else how
            there[op.output] = {"tensor": op.output, "readers": [], "how": how, "out": 0}
        computed.add(op.name)
    return stays, carried


HOW = {Content.AGAIN: "again", Content.PAGED: "paged"}


def test_boxes_are_the_stays_of_a_replayed_plan() -> None:
    found, names = data(), data()["names"]
    (arena,) = found["arenas"]
    boxes = [b for b in rows(arena["boxes"]) if b["writer"] >= 0]
    drawn = [
        (
            names[b["name"]],
            HOW.get(b["content"], "kept"),
            b["readers"],
            *((names[b["reader"]], names[b["final"]]) if b["readers"] else ("", "")),
            b["out"],
        )
        for b in boxes
        if b["content"] != Content.WORKSPACE
    ]
    stays, _ = replayed(tight())
    expected = [
        (
            s["tensor"],
            s["how"],
            len(s["readers"]),
            *((s["readers"][0], s["readers"][-1]) if s["readers"] else ("", "")),
            s["out"],
        )
        for s in stays
    ]
    assert sorted(drawn) == sorted(expected)
    assert {row[1] for row in drawn} == {"kept", "again", "paged"}


@pytest.mark.parametrize("axis", [("begin", "end"), ("first", "last")])
@pytest.mark.parametrize("which", [tight, two])
def test_no_two_boxes_overlap(which: Any, axis: tuple[str, str]) -> None:
    if which is two and axis == ("begin", "end"):
        pytest.skip("devices that work at once reuse bytes in the order of steps")
    found = data(which())
    low, high = axis
    slack = 1e-12 if axis == ("begin", "end") else -0.49  # steps are whole, halves where ops share
    for arena in found["arenas"]:
        boxes = sorted(rows(arena["boxes"]), key=lambda b: b["offset"])
        for i, a in enumerate(boxes):
            assert arena["begin"] <= a["offset"]
            assert a["offset"] + a["bytes"] <= arena["end"]
            for b in boxes[i + 1 :]:
                if b["offset"] >= a["offset"] + a["bytes"]:
                    break
                assert a[high] <= b[low] + slack or b[high] <= a[low] + slack, (a, b)


def test_the_highest_box_ends_at_the_peak() -> None:
    (arena,) = data()["arenas"]
    ends = [b["offset"] + b["bytes"] for b in rows(arena["boxes"])]
    assert max(ends) == arena["end"] == report_of(tight()).peak_bytes
    assert arena["limit"] == report_of(tight()).budget_bytes


def test_lines_to_the_backward_pass_say_how_activations_got_there() -> None:
    found = data()
    names, layers = found["names"], layers_of(tight().program.training)
    ways = {0: "kept", 1: "again", 2: "paged"}
    drawn = {
        (names[name], names[found["layers"][b]], ways[how])
        for name, a, b, how in found["network"]["carried"]
    }
    _, carried = replayed(tight())
    assert drawn == {(name, layers[op], how) for name, op, how in carried}
    assert {how for *_, how in drawn} == set(ways.values())


# Several devices --------------------------------------------------------------------------------


def test_devices_that_share_a_memory_have_an_arena_each_beside_what_they_share() -> None:
    found, build = data(two()), two()
    names = [arena["name"] for arena in found["arenas"]]
    assert names[0] == "shared by all devices"
    assert names[1:] == ["linux-big", "linux-small"]
    parts = {part.device: part.arena for part in build.plan.step.parts}
    for arena in found["arenas"][1:]:
        part = parts[arena["name"]]
        assert (arena["begin"], arena["end"]) == (part.offset, part.offset + part.size_bytes)
    steps = rows(found["steps"])
    assert {s["device"] for s in steps} == {0, 1}
    assert sum(s["work"] == Action.COPY for s in steps) > 0
    for device in (0, 1):
        busy = [s["end"] - s["begin"] for s in steps if s["device"] == device and s["target"] < 0]
        idle = [w["end"] - w["begin"] for w in rows(found["pauses"]) if w["device"] == device]
        assert math.fsum(busy + idle) == pytest.approx(found["total_s"], rel=1e-9)
    idle_j = found["energy_j"] - math.fsum(s["energy"] for s in steps)
    document = json.loads(files_of(build)["devices.json"])
    idle_w = math.fsum(device.get("idle_w", 0.0) for device in document["devices"])
    assert idle_j == pytest.approx(idle_w * found["total_s"], rel=1e-6, abs=1e-12)


def test_devices_on_boards_of_their_own_have_a_memory_each() -> None:
    files = files_of(two(apart=True))
    found = chart_data(read_source(files))
    assert [a["name"] for a in found["arenas"]] == ["linux-big", "linux-small"]
    for arena in found["arenas"]:
        assert arena["begin"] == 0
        contents = set(arena["boxes"]["content"])
        assert Content.PARAMETER in contents
    alone = {
        name.removeprefix("linux-small/"): content
        for name, content in files.items()
        if name.startswith("linux-small/")
    }
    report = report_of(two(apart=True)).of("linux-small").to_json()
    alone["build.json"] = json.dumps(report).encode()
    (arena,) = chart_data(read_source(alone))["arenas"]
    assert arena == found["arenas"][1] | {"name": arena["name"], "boxes": arena["boxes"]}
    assert "linux-small" in report_html(alone)


# Layers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["digits-cnn", "resnet8", "lstm", "transformer-tiny"])
def test_each_op_belongs_to_the_layer_it_is_named_after(model: str) -> None:
    made = build_model(model, 4)
    graph = make_program(made.graph, made.loss, made.optimizer).training
    layers = layers_of(graph)
    assert list(layers) != []
    assert {op.name for op in graph.ops} == set(layers)
    forward = {op.name for op in graph.ops if not op.backward}
    assert set(layers.values()) <= forward
    assert SHARED not in layers.values()
    if model == "digits-cnn":
        ours = {op for op, layer in layers.items() if layer == "bn2"}
        assert ours == {
            *("bn2", "bn2.statistics", "bn2.update_running", "bn2.affine.update"),
            *("bn2.backward_affine", "bn2.backward_input"),
        }


# The page ---------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Elements and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: defaultdict[str, str] = defaultdict(str)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, text: str) -> None:
        self.texts[self.tags[-1][0] if self.tags else ""] += text


def test_the_page_refers_to_nothing_else() -> None:
    text = report_html(files_of(tight(), ran(tight())))
    page = Page(text)
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            assert (attributes.get(name) or "data:").startswith("data:"), tag
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttp|import\(", text)
    policy = dict(page.tags)["meta"]
    assert any(a.get("content", "").startswith("default-src 'none'") for _, a in page.tags), policy


def test_no_name_ends_the_script_or_becomes_an_element() -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    files = {
        name: content.replace(b'"relu1', b'"' + hostile.encode())
        for name, content in files_of(tight()).items()
        if name.endswith(".json")
    }
    assert hostile.encode() in files["graph.json"]
    report = json.loads(files["build.json"]) | {"model": f"{hostile}-net"}
    text = report_html({**files, "build.json": json.dumps(report).encode()})
    page = Page(text)
    assert "img" not in dict(page.tags)
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert hostile in page.texts["h1"]
    embedded = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert hostile in json.loads(embedded[0])["names"]


def test_a_page_of_a_large_network_is_small_and_made_quickly() -> None:
    source = large()
    assert len(source.graph.ops) > 800
    begun = time.process_time()
    text = _render(source, chart_data(source))
    assert time.process_time() - begun < 2
    assert len(text.encode()) < 300_000
    small = report_html(files_of(tight()))
    assert len(small.encode()) < 80_000


def test_the_same_project_gives_the_same_page() -> None:
    files = files_of(tight(), ran(tight()))
    assert report_html(files) == report_html(dict(reversed([*files.items()])))


def test_a_folder_and_its_files_give_the_same_page(tmp_path: Path) -> None:
    files = files_of(tight(), ran(tight()))
    for name, content in files.items():
        if name.endswith(".json"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
    assert report_html(tmp_path) == report_html(files)


# Words ------------------------------------------------------------------------------------------


def proofs(build: Any = None, run: Any = None) -> dict[str, str]:
    source = read_source(files_of(build or tight(), run))
    return dict(words.proofs(source))


def test_what_was_not_done_is_said() -> None:
    found = proofs()
    assert found["Bits"].startswith("Not verified.")
    assert found["Board"] == "This plan has not run."
    assert found["Time"].endswith("planned, not measured.")
    assert "Nothing was measured" in found["Costs"]


@pytest.mark.parametrize(
    ("gap", "words_of_it"), [(0.0, "takes less energy"), (5e-6, "takes over 0.0005% less energy")]
)
def test_a_plan_that_is_optimal_to_within_a_gap_is_not_called_the_best(
    gap: float, words_of_it: str
) -> None:
    source = read_source(files_of(tight(), None))
    schedule = replace(
        source.build.schedule, status=Status.OPTIMAL, gap=gap, bound_covers=BoundCovers.ALL
    )
    build = replace(source.build, schedule=schedule)
    found = dict(words.proofs(replace(source, build=build)))["Plan"]
    assert found.startswith(f"No plan {words_of_it} among ")


def test_a_run_that_failed_verification_is_not_called_verified() -> None:
    run = ran(tight())
    assert run.verify is not None
    failed = replace(
        run.verify, ok=False, missed=("the bits differ",), bit_identical_to_unscheduled=False
    )
    run = replace(run, verify=failed)
    source = read_source(files_of(tight(), run))
    assert [c.tone for c in words.badges(source) if "verif" in c.text] == ["bad"]
    text = proofs(run=run)["Bits"]
    assert "are NOT those" in text
    assert text.endswith("the bits differ")
    assert "the bits differ" in report_html(files_of(tight(), run))


def test_a_run_of_another_plan_is_left_out() -> None:
    run = ran(tight())
    memories = {ONLY: replace(run.memories[ONLY], plan_id="another")}
    other = replace(run, plan_id="another", memories=memories)
    assert read_source(files_of(tight(), run)).run == run
    assert read_source(files_of(tight(), other)).run is None


def test_ram_that_differs_from_the_plan_is_called_a_difference() -> None:
    run = ran(tight())
    memory = replace(run.memories[ONLY], high_water_bytes=run.high_water_bytes + 8)
    assert proofs(run=run)["RAM"].endswith("the same.")
    assert proofs(run=replace(run, memories={ONLY: memory}))["RAM"].endswith("a difference.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (1.5, "1.5 s"),
        (0.51545, "515 ms"),
        (0.0000057, "5.7 µs"),
        (1234.0, "1,234 s"),
        (0.99999, "1 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert words.seconds(value) == text


def test_joules_of_measured_seconds_are_at_the_planned_power() -> None:
    """Of ops, at the board's power; an emulator has no seconds of its storage."""
    build, run = tight(), ran(tight())
    power_w, found = 9.9e-3, data(run=run)
    emulated = rows(found["steps"])
    moved = [
        step
        for step in emulated
        if step["work"] in (Action.PAGE_IN, Action.PAGE_OUT)
        or found["names"][step["kind"]].startswith("load_")
    ]
    ops = [step for step in emulated if step not in moved]
    assert len(ops) >= 20
    for step in ops:
        assert step["spent"] == pytest.approx(step["measured"] * power_w, rel=1e-6)
    assert moved
    assert all(s["spent"] is None and s["measured"] is not None for s in moved)
    board = rows(data(run=replace(run, emulated=False, emulator=None, port="p"))["steps"])
    for step in board:
        share = step["measured"] / (step["end"] - step["begin"])
        assert step["spent"] == pytest.approx(step["energy"] * share, rel=1e-9)
    source = read_source(files_of(build, run))
    assert "no meter measures single ops" in words.layers_note(source)
    assert "No meter measured it." in dict(words.proofs(source))["Energy"]


def test_a_meter_is_named_with_what_it_counted() -> None:
    run = replace(ran(tight()), measured_energy_j=1.25, energy_source="rapl")
    source = read_source(files_of(tight(), run))
    assert "the meter rapl: 1.25 J for the run" in next(
        tile.note for tile in words.tiles(source) if tile.label.startswith("Energy")
    )
    assert (
        "The meter rapl counted 1.25 J in the whole run of 3 steps"
        in (dict(words.proofs(source))["Energy"])
    )


def test_layers_have_the_shape_of_their_output_not_of_what_waits_instead() -> None:
    settings = BuildSettings(
        "linux", "digits-cnn", batch=2, ram_bytes=1 << 26, store_as="float16", work_limit=0.1
    )
    found = data(build=plan_build(settings, lambda _: None))
    names, network = found["names"], found["network"]
    shapes = dict(zip((names[n] for n in found["layers"]), network["shape"], strict=True))
    assert names[shapes["conv1"]] == names[shapes["relu1"]] == "8\u00d78\u00d78"


@pytest.mark.parametrize("in_budget_j", [None, 0.004])
def test_smaller_activations_are_told_of(in_budget_j: float | None) -> None:
    floats = FloatsInstead(7_000, 0.002, in_budget_j)
    stored = StoredAs("float16", 9_000, 4_000, 0.0002, 0.003, floats)
    source = read_source(files_of(tight()))
    text = words.lead(replace(source, build=replace(source.build, stored_as=stored)))
    assert "stored as float16, 4,000 B instead of 9,000 B" in text
    assert "gradients are 0.0002 from float32's" in text
    assert "keeping everything would take 7,000 B" in text
    assert ("at most 4 mJ" if in_budget_j else "no plan in this budget was found") in text


def test_streamed_weights_are_part_of_what_a_step_moves() -> None:
    streaming = StreamingReport(
        tensors=("fc.weight",),
        streamed_bytes=464_640,
        resident_bytes=29_016,
        requests=260,
        read_bytes=712_704,
        written_bytes=475_136,
        energy_j=0.5,
        time_s=1.5,
        epoch_steps=359,
        rewrites=120.0,
    )
    source = read_source(files_of(two()))
    assert source.build.streaming is None
    assert "stream" not in words.lead(source)
    streamed = replace(source, build=replace(source.build, streaming=streaming))
    assert "they read 712,704 B from storage and write 475,136 B." in words.lead(streamed)
    assert "nothing to storage" not in words.lead(streamed)
    assert "stored" not in words.lead(streamed)
    stored = replace(streaming, stored=("conv", "conv.backward_input"), stored_bytes=4_096)
    in_pieces = replace(source, build=replace(source.build, streaming=stored))
    assert "2 activations and gradients are stored in storage" in words.lead(in_pieces)


def test_commands_make_build_run_and_report_again() -> None:
    source = read_source(files_of(tight(), ran(tight())))
    assert words.commands(source) == [
        "poetfw build --board nrf52840 --ram 58000",
        "poetfw run --board nrf52840 --trace",
        "poetfw report --out folder -o report.html",
    ]
    assert words.commands(read_source(files_of(two()))) == []


# What is refused --------------------------------------------------------------------------------


def test_a_folder_without_a_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no build in"):
        report_html(tmp_path)
    with pytest.raises(OutputError, match=r"have no build\.json"):
        report_html({})


@pytest.mark.parametrize("name", ["graph.json", "plan.json", "memory.json"])
def test_missing_and_malformed_files_are_named(name: str) -> None:
    files = dict(files_of(tight()))
    without = {path: content for path, content in files.items() if path != name}
    with pytest.raises(OutputError, match=name):
        report_html(without)
    with pytest.raises(OutputError, match="malformed"):
        report_html({**files, name: files[name][:-200]})
    unread = ("arithmetic", "at_once", "evaluation")
    for key in json.loads(files[name]).keys() - unread:
        document = json.loads(files[name])
        document[key] = {"wrong": [None]}
        with pytest.raises(OutputError):
            report_html({**files, name: json.dumps(document).encode()})


def test_files_of_different_plans_are_refused() -> None:
    files = dict(files_of(tight()))
    plan = json.loads(files["plan.json"])
    plan["training"] = plan["training"][:-3]
    with pytest.raises(OutputError, match="contradict each other"):
        report_html({**files, "plan.json": json.dumps(plan).encode()})


def test_the_command_writes_the_page_of_a_folder(tmp_path: Path) -> None:
    names = ("build.json", "graph.json", "plan.json", "memory.json")
    for name in names:
        (tmp_path / name).write_bytes(files_of(tight())[name])
    written = tmp_path / "report.html"
    told = succeed("report", "--out", ".", "-o", written, cwd=tmp_path)
    assert told["size_bytes"] == written.stat().st_size
    assert written.read_text() == report_html(tmp_path)
    for arguments, said in {
        ("--board", "mkr1000", "--out", "."): "holds a build for nrf52840, not for mkr1000",
        ("--out", "elsewhere"): "there is no build in elsewhere",
    }.items():
        refused = poetfw("report", *arguments, "-o", "x.html", cwd=tmp_path)
        assert refused.code == 1
        assert said in refused.stderr
        assert not (tmp_path / "x.html").exists()
    assert poetfw("report", "-o", "x.txt", cwd=tmp_path).code == 2


def test_a_malformed_run_is_refused() -> None:
    files = files_of(tight(), ran(tight()))
    document = json.loads(files["run/report.json"])
    for broken in ({**document, "loss": "low"}, {**document, "schema_version": 2}, []):
        with pytest.raises(OutputError, match=r"run/report\.json"):
            report_html({**files, "run/report.json": json.dumps(broken).encode()})


@pytest.mark.parametrize("name", ["../up", "..", "a/b"])
def test_memories_are_not_paths(name: str) -> None:
    report = json.loads(files_of(two(apart=True))["build.json"])
    report["memories"] = {name: report["memories"]["linux-big"]}
    files = {**files_of(two(apart=True)), "build.json": json.dumps(report).encode()}
    with pytest.raises(OutputError, match="names no memories"):
        report_html(files)


def test_the_board_file_is_not_needed() -> None:
    names = ("build.json", "graph.json", "plan.json", "memory.json")
    files = files_of(tight())
    assert report_html({name: files[name] for name in names}) == report_html(files)
    assert load_board("nrf52840").name in report_html(files)
