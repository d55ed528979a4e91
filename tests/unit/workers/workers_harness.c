/* SPDX-License-Identifier: Apache-2.0 */
/* Has workers go through lists that behave in the way that the first argument names; prints how the steps ended. */
#define _POSIX_C_SOURCE 200809L

#include "poet.h"
#include "workers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATEMENTS 60u

static const char *mode;
static uint32_t order[STATEMENTS + 1u]; /* written by many, each when it is its turn: unguarded */
static uint32_t ended;
static uint32_t between;

void poet_between_ops(void)
{
    between++;
}

static void sleep_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int behave(uint32_t number)
{
    if (strcmp(mode, "fails") == 0 && number == 20u) {
        return -5;
    }
    if (strcmp(mode, "hangs") == 0 && number == 20u) {
        for (;;) {
            pause();
        }
    }
    if (strcmp(mode, "dies") == 0 && number == 20u) {
        pthread_exit(NULL);
    }
    if (strcmp(mode, "slow") == 0 && number <= 3u) {
        sleep_ms(2000);
    }
    return POET_OK;
}

/* Statement n is worker n % POET_WORKERS's, and waits for the one before: they are counted in turn. */
static int list(uint32_t worker)
{
    for (uint32_t number = 1u; number <= STATEMENTS; number++) {
        const uint32_t own = number % POET_WORKERS;
        if (POET_TAKES(own)) {
            POET_TRY(poet_wait_for((number - 1u) % POET_WORKERS, number - 1u));
            POET_ALONE(behave(number));
            order[ended++] = number;
            poet_end_statement(worker, number);
        }
    }
    return POET_OK;
}

static int copies(void)
{
    uint8_t from[100], to[102], here[16], there[16];
    for (uint32_t i = 0u; i < sizeof from; i++) {
        from[i] = (uint8_t)(i + 1u);
    }
    for (uint32_t bytes = 0u; bytes <= sizeof from; bytes++) {
        for (uint32_t buffer = 1u; buffer <= 16u; buffer++) {
            memset(to, 0, sizeof to);
            memset(here, 0, sizeof here);
            memset(there, 0, sizeof there);
            poet_copy(to + 1, from, bytes, here, there, buffer);
            if (to[0] != 0u || to[bytes + 1u] != 0u || memcmp(to + 1, from, bytes) != 0 ||
                memcmp(here, there, sizeof here) != 0 || (buffer < 16u && here[buffer] != 0u)) {
                return 1;
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "copies") == 0) {
        return copies();
    }
    const char *const first = mode;
    for (int step = 0; step < 20; step++) {
        ended = 0u;
        const int status = poet_run_workers(list);
        int in_order = 1;
        for (uint32_t i = 0u; i < ended; i++) {
            in_order &= order[i] == i + 1u;
        }
        if (step < 2 || status < POET_OK) {
            printf("%d %u %d\n", status, ended, in_order);
        }
        if (status == POET_ERROR_WORKER) {
            fflush(stdout);
            exit(1); /* a worker is still there */
        }
        mode = "";
    }
    printf("%u %s\n", between, first);
    return 0;
}
