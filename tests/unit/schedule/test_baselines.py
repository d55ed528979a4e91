# SPDX-License-Identifier: Apache-2.0
"""The published methods: legal plans or a reason, and what their papers promise."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from dataclasses import replace
from itertools import chain as concatenated
from itertools import pairwise

import pytest

from made_problems import random_problem, training_chain, with_ram_fraction
from poetfw.boards import load_board
from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Work
from poetfw.costs import analytic_costs
from poetfw.models import build_model
from poetfw.planning import schedule_problem
from poetfw.schedule import (
    SCHEDULERS,
    ExecutionPlan,
    Node,
    ScheduleProblem,
    Simulation,
    StepKind,
    Storage,
    Transfer,
    simulate,
    solve,
)
from poetfw.schedule.baselines.chain import chain_of
from poetfw.schedule.baselines.checkpoint_all import checkpoint_all
from poetfw.schedule.baselines.emitter import Emitter, emit
from poetfw.schedule.baselines.griewank import forward_steps, next_checkpoint, revolve
from poetfw.schedule.baselines.offloading import Offloading, lower_bound_s
from poetfw.schedule.baselines.registry import BASELINES, published_plan
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.simulator import unlimited
from poetfw.schedule.transfers import plan_transfers
from poetfw.training import make_program

PAGING_ONLY = ("greedy", "dynprog", "vdnn", "autoswap", "tflms")
SWAP = ("swap-on-demand", "swap-reduced", "swap-proactive")
FIXED = ("chen-sqrt", "griewank", "swap-on-demand", "swap-proactive")
"""Methods that compute again, or page, whether or not RAM is short."""

CHANNEL = Storage(1, Transfer(1000.0, 0.0, 1e-3), Transfer(1000.0, 0.0, 1e-3))


def plain_chain(
    sizes: list[int], times_s: list[float] | None = None, storage: Storage | None = CHANNEL
) -> ScheduleProblem:
    """conv1 → … → convL, and a backward node for each that reads what it read and what it made."""
    times_s = times_s or [1.0] * len(sizes)
    nodes = [Node("x", (), 0.0, 0.0, 1, page=False)]
    for number, (size, time_s) in enumerate(zip(sizes, times_s, strict=True), start=1):
        before = nodes[-1].name
        nodes.append(Node(f"conv{number}", (before,), time_s, time_s, size))
    gradient: tuple[str, ...] = ()
    for number in reversed(range(1, len(sizes) + 1)):
        read, time_s = nodes[number - 1], 2 * times_s[number - 1]
        inputs = (read.name, *gradient) if gradient else (read.name, f"conv{number}")
        nodes.append(
            Node(f"grad{number}", inputs, time_s, time_s, read.output_bytes, backward=True)
        )
        gradient = (f"grad{number}",)
    return ScheduleProblem("chain", sum(sizes) * 3 + 2, None, storage, tuple(nodes))


def real_problem(model: str) -> ScheduleProblem:
    board = load_board("nrf52840")
    built = build_model(model, 8, 0)
    program = make_program(built.graph, built.loss, built.optimizer)
    costs = analytic_costs(program.training, board)
    problem = schedule_problem(program.training, board, costs, None)
    assert problem.storage is not None
    return replace(problem, storage=replace(problem.storage, overlap=False))


def replayed(problem: ScheduleProblem, name: str) -> Simulation | None:
    """What the simulator says of a method's plan; None if the method says it has none."""
    try:
        plan = BASELINES[name].plan(problem)
    except UnsuitableError:
        return None
    return simulate(problem, plan)


def baseline_time_s(problem: ScheduleProblem) -> float:
    return math.fsum(node.time_s for node in problem.nodes)


# All of them ------------------------------------------------------------------------------------


def test_every_method_is_a_scheduler() -> None:
    names = set("chen-sqrt chen-greedy griewank dtr capuchin pofo".split()) | {*PAGING_ONLY, *SWAP}
    assert set(BASELINES) == names
    assert names | {"checkmate"} <= set(SCHEDULERS)


@pytest.mark.parametrize("name", BASELINES)
def test_plans_of_random_graphs_are_legal(name: str) -> None:
    plans = 0
    for seed in range(60):
        rng = random.Random(seed)
        problem = random_problem(seed, nodes=rng.randint(5, 20), slack=rng.uniform(0.2, 1))
        if seed % 3 == 0:
            deadline_s = baseline_time_s(problem) * rng.uniform(1, 2)
            problem = replace(problem, deadline_s=deadline_s)
        if seed % 4 == 0:
            problem = replace(problem, storage=None)
        plans += replayed(problem, name) is not None
    assert plans or name == "vdnn"  # the random graphs have no convolutions


@pytest.mark.parametrize("name", BASELINES)
def test_plans_of_training_steps_are_legal(name: str) -> None:
    plans = 0
    for seed in range(8):
        rng = random.Random(seed)
        problem = training_chain(rng.randint(1, 4), 16, 8, 8)
        problem = with_ram_fraction(problem, rng.uniform(0.5, 1))
        plans += replayed(problem, name) is not None
    assert plans


@pytest.mark.parametrize("model", ["digits-cnn", "resnet8"])
def test_plans_of_real_models(model: str) -> None:
    problem = real_problem(model)
    for fraction in (0.9, 0.7):
        tight = with_ram_fraction(problem, fraction)
        found = {name: replayed(tight, name) for name in BASELINES}
        for name in ("dtr", "capuchin", "pofo", "greedy", "dynprog", "autoswap", "tflms"):
            assert found[name] is not None, (name, fraction)
        for name in (*PAGING_ONLY, *SWAP):
            plan = found[name]
            assert plan is None or plan.recomputes == 0


@pytest.mark.parametrize("name", [name for name in BASELINES if name not in FIXED])
def test_with_ram_enough_nothing_is_done(name: str) -> None:
    for problem in (training_chain(3, 8, 8, 8), real_problem("digits-cnn")):
        roomy = with_ram_fraction(problem, 1.0)
        assert BASELINES[name].plan(roomy) == checkpoint_all(Indexed.of(roomy))


@pytest.mark.parametrize("name", BASELINES)
def test_solve_takes_them_by_name(name: str) -> None:
    schedule = solve(with_ram_fraction(training_chain(4, 16, 8, 8), 0.9), name)
    assert schedule.scheduler == name
    assert schedule.bound_j is not None
    assert schedule.bound_j <= schedule.energy_j


@pytest.mark.parametrize("name", BASELINES)
def test_a_budget_out_of_reach_is_refused(name: str) -> None:
    problem = with_ram_fraction(training_chain(4, 16, 8, 8), 0.05)
    with pytest.raises(UnsuitableError, match=rf"{name} has no schedule: .* bytes"):
        BASELINES[name].plan(problem)


@pytest.mark.parametrize("name", [*PAGING_ONLY, "chen-sqrt", "chen-greedy", "griewank", "pofo"])
def test_without_a_backward_pass_they_refuse(name: str) -> None:
    forward = tuple(node for node in plain_chain([8] * 4).nodes if not node.backward)
    problem = ScheduleProblem("inference", 100, None, CHANNEL, forward)
    with pytest.raises(UnsuitableError, match="has no forward and backward pass"):
        BASELINES[name].plan(problem)


@pytest.mark.parametrize("name", [*PAGING_ONLY, *SWAP])
def test_without_storage_there_is_no_paging(name: str) -> None:
    with pytest.raises(UnsuitableError, match="there is no storage"):
        BASELINES[name].plan(plain_chain([8] * 4, storage=None))


@pytest.mark.parametrize("name", ["chen-sqrt", "chen-greedy", "griewank", "pofo"])
def test_what_is_no_chain_is_refused(name: str) -> None:
    nodes = (
        Node("x", (), 1.0, 1.0, 8),
        Node("y", (), 1.0, 1.0, 8),
        Node("sum", ("x", "y"), 1.0, 1.0, 8),
        Node("grad", ("sum",), 1.0, 1.0, 8, backward=True),
    )
    with pytest.raises(UnsuitableError, match="is not a chain"):
        BASELINES[name].plan(ScheduleProblem("split", 100, None, None, nodes))


@pytest.mark.parametrize("name", ["chen-sqrt", "capuchin"])
def test_a_plan_takes_some_of_the_work(name: str) -> None:
    """Even where a method goes through no items: a search with a thousand of them ends."""
    problem = with_ram_fraction(training_chain(8), 0.8)
    work = Work(1.0)
    with suppress(UnsuitableError):
        published_plan(problem, BASELINES[name], work)
    assert work.left < 1.0


def test_vdnn_says_what_it_goes_by() -> None:
    problem = with_ram_fraction(random_problem(1, nodes=12), 0.9)
    nodes = tuple(replace(node, backward=i >= 6) for i, node in enumerate(problem.nodes))
    with pytest.raises(UnsuitableError, match="has 'conv' in its name"):
        BASELINES["vdnn"].plan(replace(problem, nodes=nodes))


# Grouping and decisions -------------------------------------------------------------------------


def test_a_real_graph_is_grouped_into_a_chain() -> None:
    problem = real_problem("resnet8")
    chain = chain_of(Indexed.of(problem), "test")
    names = [[problem.nodes[i].name for i in segment.forward] for segment in chain.segments]
    assert [node.name for node in problem.nodes[: chain.forward]] == list(concatenated(*names))
    # A residual block is one segment: two tensors cross everywhere within it.
    assert any(sum("conv" in name for name in segment) == 2 for segment in names)
    starts = [segment.backward.start for segment in reversed(chain.segments)]
    stops = [segment.backward.stop for segment in reversed(chain.segments)]
    assert [starts[0], *stops] == [chain.forward, *starts[1:], len(problem.nodes)]
    for before, segment in pairwise(chain.segments):
        assert segment.input == before.output
        for t in segment.backward:
            read = {u for u in chain.graph.inputs[t] if u < chain.forward} - chain.sources
            assert max(read, default=0) < segment.forward.stop


def test_what_cannot_be_had_again_is_kept() -> None:
    nodes = list(plain_chain([8] * 3).nodes)
    nodes[1] = replace(nodes[1], recompute=False)
    graph = Indexed.of(ScheduleProblem("chain", 1000, None, None, tuple(nodes)))

    def script(emitter: Emitter) -> None:
        for t in range(graph.n):
            emitter.compute(t)
            if t == 3:
                for i in (1, 2):
                    emitter.drop(i)

    assert computations(emit(graph, script)) == {"x": 1, "conv1": 1, "conv2": 2, "conv3": 1} | {
        f"grad{i}": 1 for i in (1, 2, 3)
    }


def computations(plan: ExecutionPlan) -> dict[str, int]:
    computed = [step.node for step in plan if step.kind is StepKind.COMPUTE]
    return {name: computed.count(name) for name in computed}


# Recomputing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [16, 36, 64, 100])
def test_chen_sqrt_takes_memory_of_the_square_root(links: int) -> None:
    problem = plain_chain([100] * links)
    plan = BASELINES["chen-sqrt"].plan(problem)
    root = math.isqrt(links)
    # √n - 1 tensors between segments, √n within one, the gradient and its successor.
    assert unlimited(problem, plan).peak_bytes <= 100 * (2 * root + 2)
    # Computed again is all but what is kept, up to the last that is.
    times = list(computations(plan).values())
    assert times.count(2) == (root - 1) ** 2 == sum(times) - len(times)


def test_chen_greedy_meets_more_budgets_than_chen_sqrt() -> None:
    rng = random.Random(0)
    problem = plain_chain([rng.choice((50, 100, 400)) for _ in range(30)], storage=None)
    for fraction in (0.9, 0.7, 0.5, 0.4):
        tight = with_ram_fraction(problem, fraction)
        greedy, root = replayed(tight, "chen-greedy"), replayed(tight, "chen-sqrt")
        assert greedy is not None
        assert root is None or greedy.time_s <= root.time_s


def fewest_steps(steps: int, checkpoints: int) -> int:
    """The fewest steps forward by trying each place of the next checkpoint."""
    table = {(1, s): 0 for s in range(1, checkpoints + 1)}
    for n in range(2, steps + 1):
        table[n, 1] = n * (n - 1) // 2
        for s in range(2, checkpoints + 1):
            table[n, s] = min(m + table[n - m, s - 1] + table[m, s] for m in range(1, n))
    return table[steps, checkpoints]


def test_revolve_takes_the_binomial_number_of_steps() -> None:
    assert forward_steps(10, 3) == 15  # C(5, 3) = 10 steps, each taken forward at most twice
    assert forward_steps(6, 1) == 15
    for steps in range(1, 30):
        for checkpoints in range(1, 8):
            assert forward_steps(steps, checkpoints) == fewest_steps(steps, checkpoints)


def test_the_next_checkpoint_is_the_first_of_the_best_places() -> None:
    for steps in range(2, 40):
        for checkpoints in range(2, 9):
            place = next_checkpoint(steps, checkpoints)
            taken = [
                m + forward_steps(steps - m, checkpoints - 1) + forward_steps(m, checkpoints)
                for m in range(1, steps)
            ]
            assert place == 1 + taken.index(min(taken))


@pytest.mark.parametrize(("links", "checkpoints"), [(10, 3), (10, 1), (10, 10), (21, 4), (35, 3)])
def test_revolve_plans_take_that_number(links: int, checkpoints: int) -> None:
    problem = plain_chain([100] * links)
    plan = revolve(chain_of(Indexed.of(problem), "test"), checkpoints)
    simulation = unlimited(problem, plan)
    # The first sweep over all but the last link is no recomputing.
    assert simulation.recomputes == forward_steps(links, checkpoints) - (links - 1)
    # The input is a source here and tiny: checkpoints besides it, the state, gradients.
    assert simulation.peak_bytes <= 100 * (checkpoints - 1 + 3) + 1


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(("links", "slots"), [(19, 4), (19, 5), (35, 6)])
def test_an_input_that_can_be_loaded_again_takes_no_checkpoint(
    links: int, slots: int, again: bool
) -> None:
    problem = plain_chain([100] * links)
    x = replace(problem.nodes[0], output_bytes=100, recompute=again)
    problem = replace(problem, nodes=(x, *problem.nodes[1:]), ram_bytes=100 * slots)
    computed = computations(BASELINES["griewank"].plan(problem))
    loads = computed.pop("x")
    # Two gradients and what the op reads besides; the input is one more, or is loaded again.
    checkpoints = slots - 2 if again else slots - 3
    assert sum(computed.values()) - 2 * links == fewest_steps(links, checkpoints) - (links - 1)
    assert (loads > 1) is again


def test_an_input_that_is_slow_to_load_is_kept() -> None:
    problem = plain_chain([100] * 10)
    x = replace(problem.nodes[0], output_bytes=100, time_s=100.0)
    problem = replace(problem, nodes=(x, *problem.nodes[1:]), ram_bytes=600)
    assert computations(BASELINES["griewank"].plan(problem))["x"] == 1


def test_dtr_evicts_the_cheap_large_stale_tensor() -> None:
    # At conv5 one tensor must go: conv1 is dear, conv3 fresh, conv4 being read.
    problem = plain_chain([100] * 5, [900.0, 1.0, 4.0, 4.0, 1.0], storage=None)
    plan = BASELINES["dtr"].plan(replace(problem, ram_bytes=499))
    freed = [step.node for step in plan if step.kind is StepKind.FREE]
    assert freed[:2] == ["x", "conv2"]  # having x again costs nothing
    assert computations(plan)["conv2"] == 2


def test_dtr_keeps_what_a_replaced_input_cannot_give_again() -> None:
    """`d` may take over `a`, which cannot be computed again, and evict `c`, which needs `a`."""

    def node(name: str, *inputs: str, size: int, workspace: int = 0, **flags: str) -> Node:
        return Node(name, inputs, 1.0, 1.0, size, workspace, **flags)

    nodes = (
        node("a", size=64, recompute_before="c"),
        node("b", "a", size=128, workspace=256, recompute_before="e"),
        node("c", "a", "b", size=128, in_place="b"),
        node("d", "a", "b", size=64, workspace=256, in_place="a"),
        node("e", "c", "d", size=64, in_place="d"),
    )
    problem = ScheduleProblem("taken", 448, None, None, nodes)
    with pytest.raises(UnsuitableError, match="at node 'd' nothing is left to evict"):
        BASELINES["dtr"].plan(problem)
    roomy = replace(problem, ram_bytes=576)
    assert computations(BASELINES["dtr"].plan(roomy)) == dict.fromkeys("abcde", 1)


def test_dtr_has_tensors_back_before_they_are_lost() -> None:
    """An update closes conv1 while its tensor is evicted and still wanted."""
    nodes = list(plain_chain([100] * 4, storage=None).nodes)
    position = next(i for i, node in enumerate(nodes) if node.name == "grad3")
    update = Node("update", ("grad3",), 1.0, 1.0, 0, recompute=False, backward=True)
    nodes.insert(position + 1, update)
    nodes[1] = replace(nodes[1], recompute_before="update")
    problem = ScheduleProblem("closing", 401, None, None, tuple(nodes))
    plan = BASELINES["dtr"].plan(problem)
    assert simulate(problem, plan).recomputes > 0


def test_pofo_recomputes_no_more_than_simpler_methods() -> None:
    rng = random.Random(1)
    compared = 0
    for _ in range(6):
        links = rng.randint(8, 20)
        sizes = [rng.choice((50, 100, 200)) for _ in range(links)]
        problem = plain_chain(sizes, [rng.uniform(1, 5) for _ in sizes], storage=None)
        problem = with_ram_fraction(problem, rng.uniform(0.4, 0.9))
        found = {name: replayed(problem, name) for name in ("pofo", "chen-greedy", "griewank")}
        for name in ("chen-greedy", "griewank"):
            other = found[name]
            if other is not None:
                best = found["pofo"]
                assert best is not None
                assert best.time_s <= other.time_s * 1.02  # it works in slots of RAM
                compared += 1
    assert compared >= 6


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 30), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_pofo_is_hardly_ever_slower_than_any_other(seeds: range, overlap: bool) -> None:
    ratios = []
    for seed in seeds:
        rng = random.Random(seed)
        links, bandwidth = rng.randint(6, 24), rng.choice((250.0, 500.0, 1000.0, 2000.0))
        channel = Transfer(bandwidth, 0.0, 1e-3)
        sizes = [rng.randint(100, 1000) for _ in range(links)]
        times_s = [rng.uniform(0.5, 1.5) for _ in sizes]
        problem = plain_chain(sizes, times_s, Storage(1, channel, channel, overlap))
        problem = with_ram_fraction(problem, rng.uniform(0.3, 0.9))
        found = {name: planned_time_s(problem, name) for name in BASELINES if name not in SWAP}
        pofo_s, other_s = found.pop("pofo"), min(found.values())
        if other_s < math.inf:
            ratios.append(pofo_s / other_s)
    assert len(ratios) >= len(seeds) * 0.7
    assert max(ratios) <= 1.03


@pytest.mark.parametrize("fraction", [0.3, 0.5])
def test_pofo_is_the_fastest_on_a_chain_of_links_that_are_alike(fraction: float) -> None:
    problem = with_ram_fraction(plain_chain([1000] * 17), fraction)
    times_s = {name: planned_time_s(problem, name) for name in BASELINES}
    assert times_s["pofo"] == min(times_s.values()) < math.inf


def planned_time_s(problem: ScheduleProblem, name: str) -> float:
    """Seconds that a method's plan takes with its transfers moved; infinite without a plan."""
    try:
        plan = plan_transfers(problem, BASELINES[name].plan(problem))
    except UnsuitableError:
        return math.inf
    return simulate(problem, plan).time_s


# Paging -----------------------------------------------------------------------------------------


def test_capuchin_pages_what_is_free_and_recomputes_what_is_not() -> None:
    sizes = [1000] * 8
    fast = replace(CHANNEL, page_in=Transfer(1e6, 0, 1), page_out=Transfer(1e6, 0, 1))
    slow = replace(CHANNEL, page_in=Transfer(1.0, 0, 1), page_out=Transfer(1.0, 0, 1))
    for storage, pages in ((fast, True), (slow, False)):
        problem = with_ram_fraction(plain_chain(sizes, storage=storage), 0.6)
        simulation = replayed(problem, "capuchin")
        assert simulation is not None
        assert (simulation.page_ins > 0) is pages
        assert (simulation.recomputes > 0) is not pages


def test_the_lower_bound_is_proposition_3() -> None:
    problem = plain_chain([1000] * 10)
    peak = unlimited(problem, checkpoint_all(Indexed.of(problem))).peak_bytes
    assert lower_bound_s(replace(problem, ram_bytes=peak)) == baseline_time_s(problem) == 30.0
    tight = replace(problem, ram_bytes=peak - 6000)
    assert lower_bound_s(tight) == 30.0
    slow = Transfer(100.0, 0.0, 1e-3)
    tight = replace(tight, storage=Storage(1, slow, slow))
    assert lower_bound_s(tight) == pytest.approx(2 * 6000 / 100)


@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 30), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_dynprog_is_within_its_papers_ratio_of_the_lower_bound(seeds: range) -> None:
    worst = 1.0
    paged = 0
    for seed in seeds:
        rng = random.Random(seed)
        sizes = [rng.randint(200, 1000) for _ in range(rng.randint(20, 40))]
        times_s = [rng.uniform(0.5, 1.5) for _ in sizes]
        problem = plain_chain(sizes, times_s)
        problem = with_ram_fraction(problem, rng.uniform(0.5, 0.9))
        plan = BASELINES["dynprog"].plan(problem)
        moved = {step.node for step in plan if step.kind is StepKind.PAGE_IN}
        paged += len(moved)
        offloading = Offloading.of(problem, "test")
        tensors = {i for i, node in enumerate(problem.nodes) if node.name in moved}
        worst = max(worst, offloading.step_time_s(tensors) / lower_bound_s(problem))
    assert paged
    assert worst <= 1.2


@pytest.mark.parametrize("name", PAGING_ONLY)
def test_what_paging_takes_is_above_the_lower_bound(name: str) -> None:
    rng = random.Random(3)
    problem = plain_chain([rng.randint(200, 1000) for _ in range(20)])
    for fraction in (0.9, 0.7, 0.5):
        tight = with_ram_fraction(problem, fraction)
        simulation = replayed(tight, name)
        assert simulation is not None
        assert simulation.time_s >= lower_bound_s(tight)
        assert simulation.recomputes == 0
