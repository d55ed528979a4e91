/* SPDX-License-Identifier: Apache-2.0 */
/* The training step of a project, timed on this computer without an application or a storage: processor time
 * of each op, the least of all steps. Parameters and data are random numbers. */
#ifndef POET_BENCH_CLOCK
#define POET_BENCH_CLOCK CLOCK_PROCESS_CPUTIME_ID
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "crc32.h"
#include "poet.h"

enum { OPS = 4096 };

uint8_t poet_arena[POET_ARENA_BYTES] __attribute__((aligned(64)));

static int64_t least[OPS];
static int32_t ops;
static int64_t before;

static int64_t now(void)
{
    struct timespec time;
    if (clock_gettime(POET_BENCH_CLOCK, &time) != 0) {
        abort();
    }
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void poet_between_ops(void)
{
    const int64_t after = now();
    if (ops >= OPS) {
        abort();
    }
    if (least[ops] == 0 || after - before < least[ops]) {
        least[ops] = after - before;
    }
    ops++;
    before = now();
}

static void fill(float *elements, size_t count)
{
    static uint32_t state = 1u;
    for (size_t i = 0u; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        elements[i] = (float)(int32_t)state * 0x1p-35f;
    }
}

int poet_data_load_x(void *x)
{
    fill(x, POET_BATCH * POET_X_BYTES / sizeof(float));
    return POET_OK;
}

int poet_data_load_y(void *y)
{
    for (uint32_t n = 0u; n < POET_BATCH; n++) {
        ((int32_t *)y)[n] = (int32_t)n % POET_CLASSES;
    }
    return POET_OK;
}

/* Gradients are for the storage, of which there is none. */
int poet_capture(uint32_t slot, const void *gradient, uint32_t bytes)
{
    (void)slot;
    (void)gradient;
    (void)bytes;
    return POET_OK;
}

int main(int count, char **arguments)
{
    const int steps = count > 1 ? atoi(arguments[1]) : 3;
    int64_t whole = INT64_MAX;
    fill((float *)(void *)poet_arena, POET_PAGE_BUFFER / sizeof(float));
    for (int step = 0; step < steps; step++) {
        const int64_t start = now();
        ops = 0;
        before = start;
        if (poet_train_step() != POET_OK) {
            return 1;
        }
        whole = now() - start < whole ? now() - start : whole;
    }
    for (int32_t op = 0; op < ops; op++) {
        printf("op %" PRId64 "\n", least[op]);
    }
    printf("step %" PRId64 "\ncrc32 %08" PRIx32 "\n", whole,
           poet_crc32(0u, poet_arena, POET_PAGE_BUFFER));
    return 0;
}
