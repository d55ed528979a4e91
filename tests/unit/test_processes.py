# SPDX-License-Identifier: Apache-2.0
"""Tests in forked processes: what they say, whose fixtures they share, and what a crash costs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)
SHARED = """
import os, time, pytest

@pytest.fixture(scope="module")
def shared():
    yield
    open({log!r}, "a").write(f"{{os.getpid()}} {name}\\n")

@pytest.mark.parametrize("n", range({count}))
def test_passes(shared, n):
    print("said by {name}", n)
    time.sleep(0.02)
    if n == {fails}:
        assert os.getpid() == 0
"""


def run(pytester: pytest.Pytester, count: int, *options: str) -> pytest.RunResult:
    plugins = "-p", "processes", "-p", "no:xdist", "-p", "no:cacheprovider"
    return pytester.runpytest_inprocess(*plugins, f"--processes={count}", "-rw", *options)


@pytest.mark.parametrize("count", [1, 3])
def test_every_test_runs_once(pytester: pytest.Pytester, tmp_path: Path, count: int) -> None:
    log = tmp_path / "log"
    for name in "abcdef":
        values = {"log": str(log), "name": name, "count": 4, "fails": 2 if name == "c" else -1}
        (pytester.path / f"test_{name}.py").write_text(SHARED.format(**values))
    result = run(pytester, count)
    result.assert_outcomes(passed=23, failed=1)
    result.stdout.fnmatch_lines(["*FAILURES*", "*test_passes?2?*", "*assert*== 0*", "said by c 2"])
    assert not result.stdout.str().count("said by a")
    ended = [line.split() for line in log.read_text().splitlines()]
    assert {name for _, name in ended} == set("abcdef")
    assert len(ended) <= 6 + count, "files are dealt out whole, but for the last ones"
    assert len({process for process, _ in ended}) <= count


def test_a_file_is_shared_out_when_none_is_left(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_a="""
        import os, time, pytest

        @pytest.mark.parametrize("n", range(20))
        def test_sleeps(n):
            time.sleep(0.02)
            open("of" + str(os.getpid()), "a").write(".")
        """
    )
    run(pytester, 2).assert_outcomes(passed=20)
    shares = sorted(len(path.read_text()) for path in pytester.path.glob("of*"))
    assert sum(shares) == 20
    assert shares[0] >= 5, "one process left the other nearly all of it"


def test_a_process_that_crashes_costs_one_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.parametrize("n", range(6))
        def test_crashes(n):
            if n in (0, 3):
                os._exit(7)
        """
    )
    result = run(pytester, 1)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["*test_crashes?3?*", "its process ended with 7"])


def test_a_test_that_takes_too_long_says_where_it_was(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile(
        """
        import time

        def test_waits():
            time.sleep(60)

        def test_passes():
            pass
        """
    )
    plugins = "-p", "processes", "-p", "no:xdist", "--processes=1", "--timeout=0.2"
    result = pytester.runpytest_subprocess(*plugins, "-o", "timeout_method=thread")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Timeout*", "*time.sleep(60)*"])


def test_the_session_ends_at_once_where_it_is_asked_to(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", range(50))
        def test_fails(n):
            assert n < 3
        """
    )
    assert run(pytester, 2, "-x").parseoutcomes()["failed"] == 1


def test_warnings_arrive(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import warnings

        def test_warns():
            class Own(DeprecationWarning):
                def __reduce__(self):
                    raise TypeError("cannot be sent")

            warnings.warn(Own("beware"))
        """
    )
    result = run(pytester, 1)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*DeprecationWarning: beware*"])


def test_nothing_runs_if_a_file_cannot_be_collected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_a="import nothing_of_this_name", test_b="def test_b(): pass")
    run(pytester, 2).assert_outcomes(errors=1)
