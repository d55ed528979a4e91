# SPDX-License-Identifier: Apache-2.0
"""Applications that nobody gave a card: they begin by themselves, learn, and keep it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from unit.firmware.exported import STRICT, archive, exported, project

BLOCKS = 400
STEPS = 50
SENSOR = """\
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "file_card.h"
#include "net.h"

static struct net net;
static float x[NET_BATCH][NET_X_BYTES / 4];
static net_target y[NET_BATCH];
static float output[NET_OUTPUT_BYTES / 4];

static void measure(unsigned step)
{
    for (unsigned i = 0; i < NET_BATCH; i++) {
        y[i] = (net_target)((step + i) % NET_CLASSES);
        for (unsigned k = 0; k < NET_X_BYTES / 4; k++) {
            x[i][k] = k % NET_CLASSES == (unsigned)y[i] ? 1.0f : 0.01f * (float)(k % 7);
        }
    }
}

static int learn(unsigned steps)
{
    int status = 0;
    for (unsigned step = 0; step < steps && status == 0; step++) {
        measure(step);
        status = net_train_on(&net, x[0], sizeof x, y, sizeof y);
    }
    return status;
}

static void say(void)
{
    struct net_metrics metrics = {0};
    measure(0);
    printf("%d ", net_predict(&net, x[0], sizeof x[0], output, sizeof output));
    printf("%d ", net_metrics(&net, &metrics));
    printf("step=%u loss=%a", (unsigned)metrics.step, (double)metrics.loss);
    for (unsigned k = 0; k < NET_CLASSES; k++) {
        printf(" %a", (double)output[k]);
    }
    printf("\\n");
}

static atomic_int is_done, was_refused;
static int odd; /* statuses that another thread should not get */

/* A thread that wants predictions while another one trains. */
static void *ask(void *argument)
{
    static float mine[NET_X_BYTES / 4], said[NET_OUTPUT_BYTES / 4];
    (void)argument;
    while (!is_done) {
        const int status = net_predict(&net, mine, sizeof mine, said, sizeof said);
        const int busy = net_busy();
        odd += status != 0 && status != NET_ERROR_BUSY && status != NET_ERROR_ORDER;
        odd += busy != 0 && busy != NET_ERROR_BUSY;
        was_refused |= status == NET_ERROR_BUSY;
    }
    return NULL;
}

/* A call that is refused is made again. */
static int learn_beside(unsigned steps)
{
    pthread_t thread;
    int status, rounds = 0;
    if (pthread_create(&thread, NULL, ask, NULL) != 0) {
        return -1;
    }
    do {
        while ((status = net_reset(&net)) == NET_ERROR_BUSY) {
        }
        for (unsigned step = 0; step < steps && status == 0; step++) {
            measure(step);
            while ((status = net_train_on(&net, x[0], sizeof x, y, sizeof y)) == NET_ERROR_BUSY) {
            }
        }
    } while (status == 0 && !was_refused && ++rounds < 500);
    is_done = 1;
    return pthread_join(thread, NULL) == 0 && odd == 0 && was_refused ? status : -1;
}

/* Opens the card, or makes one of it. */
static int have_card(void)
{
    const int status = net_open(&net);
    const int is_empty = status == NET_ERROR_NO_PARTITION || status == NET_ERROR_IMAGE;
    return is_empty ? net_format(&net, 7, 2) : status;
}

int main(int argc, char **argv)
{
    int status = argc == 3 ? use_file(argv[1]) : -1;
    if (status == 0 && strcmp(argv[2], "learn") == 0) {
        /* The card is put in when it has learned. */
        status = net_reset(&net);
        status = status == 0 ? learn(50) : status;
        status = status == 0 ? have_card() : status;
        status = status == 0 ? net_save(&net) : status;
        say();
    } else if (status == 0 && strcmp(argv[2], "threads") == 0) {
        status = learn_beside(50);
        say();
    } else if (status == 0 && strcmp(argv[2], "card first") == 0) {
        status = have_card();
        status = status == 0 ? net_reset(&net) : status;
        status = status == 0 ? learn(50) : status;
        status = status == 0 ? net_save(&net) : status;
        say();
    } else if (status == 0 && strcmp(argv[2], "go on") == 0) {
        if ((status = net_open(&net)) == 0) {
            status = net_load(&net);
        }
        say();
    } else if (status == 0 && strcmp(argv[2], "bad") == 0) {
        /* A sensor that is loose for one sample; and later one whose network diverges. */
        if ((status = have_card()) == 0 && (status = net_reset(&net)) == 0) {
            status = learn(50);
        }
        say();
        x[NET_BATCH - 1][3] = NAN;
        printf("%d ", net_train_on(&net, x[0], sizeof x, y, sizeof y));
        x[NET_BATCH - 1][3] = -INFINITY;
        printf("%d ", net_train_on(&net, x[0], sizeof x, y, sizeof y));
        printf("%d\\n", net_predict(&net, x[NET_BATCH - 1], sizeof x[0], output, sizeof output));
        say();
        printf("%d\\n", net_save(&net));
        for (unsigned k = 0; k < NET_X_BYTES / 4; k++) {
            x[0][k] = x[NET_BATCH - 1][k] = 3e38f;
        }
        status = 0;
        for (unsigned step = 0; step < 10 && status == 0; step++) {
            status = net_train_on(&net, x[0], sizeof x, y, sizeof y);
        }
        printf("%d %d\\n", status, net_save(&net));
        status = net_load(&net);
        say();
    }
    printf("%d\\n", status);
    return status != 0;
}
"""


@pytest.fixture(scope="module")
def sensor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sensor")
    made = exported(project(folder / "project"), folder / "net", name="net")
    (folder / "sensor.c").write_text(SENSOR)
    includes = (f"-I{made / 'src'}", f"-I{made / 'examples'}")
    library = archive(made)
    command = ["gcc", *STRICT, "-D_DEFAULT_SOURCE", *includes, str(folder / "sensor.c")]
    subprocess.run(
        [*command, str(library), "-pthread", "-o", str(folder / "sensor")], check=True, timeout=120
    )
    return folder / "sensor"


def run(sensor: Path, card: Path, what: str) -> list[str]:
    command = [str(sensor), str(card), what]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode in (0, 1), result
    return result.stdout.splitlines()


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.img"
    path.write_bytes(bytes(BLOCKS * 512))
    return path


@pytest.mark.parametrize("first", ["learn", "card first"])
@pytest.mark.parametrize("blank", [b"\0", b"\xff", b"noise"])
def test_what_a_device_learnt_by_itself_is_there_after_a_reset(
    sensor: Path, card: Path, first: str, blank: bytes
) -> None:
    card.write_bytes((blank * (BLOCKS * 512))[: BLOCKS * 512])
    learnt, status = run(sensor, card, first)
    assert status == "0"
    assert f"step={STEPS}" in learnt
    again, status = run(sensor, card, "go on")
    assert status == "0"
    predicted = learnt.split(" loss=")[1].split()[1:]
    assert again.split(" loss=")[1].split()[1:] == predicted
    assert f"step={STEPS}" in again


def test_a_second_thread_is_refused_and_changes_nothing(sensor: Path, card: Path) -> None:
    assert run(sensor, card, "threads") == run(sensor, card, "learn")


def test_it_does_not_take_a_card_from_somebody_else(sensor: Path, card: Path) -> None:
    table = bytearray(512)
    table[446 + 4], table[510:] = 0x0C, b"\x55\xaa"
    boot_sector = b"\xeb\x3c\x90MSDOS5.0".ljust(510, b"\0") + b"\x55\xaa"
    for first in (bytes(table), boot_sector):
        content = first.ljust(BLOCKS * 512, b"x")
        card.write_bytes(content)
        assert run(sensor, card, "learn")[-1] in ("-8", "-7")
        assert card.read_bytes() == content


def test_it_says_that_a_card_is_too_small(sensor: Path, card: Path) -> None:
    card.write_bytes(bytes(64 * 512))
    assert run(sensor, card, "learn")[-1] == "-10"
    assert card.read_bytes() == bytes(64 * 512)


def test_what_is_not_finite_is_neither_learnt_nor_kept(sensor: Path, card: Path) -> None:
    before, refused, after, saved, diverged, loaded, status = run(sensor, card, "bad")
    assert refused == "-137 -137 -137"
    assert after == before  # nothing was trained
    assert saved == "0"
    assert diverged in ("-138 -128", "-138 -138")
    assert loaded.split(" loss=")[1].split()[1:] == before.split(" loss=")[1].split()[1:]
    assert status == "0"
