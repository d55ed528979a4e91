/* SPDX-License-Identifier: Apache-2.0 */
/* A Linux computer. The storage is the file named by the first argument, else by POETFW_STORAGE, else storage.img in
 * the working folder. With "listen" as second argument, it takes commands on standard input. */
#define _POSIX_C_SOURCE 200809L

#include "energy.h"
#include "hal.h"
#include "plan.h"
#include "poet.h"
#include "storage_file.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
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

int poet_hal_init(void)
{
    start_ns = now_ns();
    poet_energy_start();
    return POET_OK;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    while (bytes > 0u) {
        const ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written <= 0) {
            _exit(1); /* the reader is gone */
        }
        text += written;
        bytes -= (uint32_t)written;
    }
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

/* Ends the program if this computer lacks instructions that it is compiled for. */
static void require_processor(void)
{
#if defined POET_FMA && defined __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        static const char text[] = "this program is for processors with AVX2 and FMA: build it with "
                                   "arithmetic = \"separate\" in the board file\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1u);
        _exit(1);
    }
#endif
}

int main(int argc, char **argv)
{
    require_processor();
    const char *const name = argc > 1 ? argv[1] : getenv("POETFW_STORAGE");
    listens = argc > 2 && strcmp(argv[2], "listen") == 0;
    poet_storage_file(name != NULL ? name : "storage.img");
    poet_run();
}
