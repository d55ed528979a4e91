/* SPDX-License-Identifier: Apache-2.0 */
/* A Linux computer. */
#define _POSIX_C_SOURCE 200809L

#include "board.h"

#include "energy.h"
#include "hal.h"
#include "plan.h"
#include "poet.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char poet_hal_tick_unit[] = "ns";

static uint64_t start_ns;
static int listens;

static uint64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        abort();
    }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void poet_listen_to_input(int does)
{
    listens = does;
}

int poet_hal_init(void)
{
    start_ns = now_ns();
    poet_energy_start();
    return POET_OK;
}

static int has_input(int timeout_ms)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    return poll(&input, 1, timeout_ms) > 0;
}

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    if (!listens || !has_input(0)) {
        return 0u;
    }
    const ssize_t taken = read(STDIN_FILENO, text, bytes);
    if (taken <= 0) {
        poet_hal_exit(0); /* end of input */
    }
    return (uint32_t)taken;
}

uint64_t poet_hal_listen_ticks(void)
{
    return listens ? POET_LISTEN_FOR_EVER : 0u;
}

uint64_t poet_hal_ticks(void)
{
    return now_ns() - start_ns;
}

void poet_hal_idle(void)
{
    (void)has_input(-1);
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

/* The operating system grows the stack: it is not measured. */
struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack none = {NULL, NULL};
    return none;
}

_Noreturn void poet_hal_exit(int code)
{
    poet_energy_report();
    exit(code);
}
