/* SPDX-License-Identifier: Apache-2.0 */
/* A measuring firmware fed by a test: its cases take ticks that are known beforehand, and its storage is memory. */
#include "main.c"

#include "../runtime/quiet_board.h"

#define BLOCKS 64u
#define SAID_BYTES 65536u

uint8_t test_device[BLOCKS * POET_BLOCK_BYTES];
char test_said[SAID_BYTES];
uint32_t test_said_bytes;
uint32_t test_runs;    /* of cases, since the start */
uint32_t test_kernel_ticks; /* of the kernel beside a transfer */
uint32_t test_refuses; /* the number of a case that fails; none where it is there is no such one */

const char poet_hal_tick_unit[] = "instructions";

#define MARKS 4096u
uint64_t test_marks[MARKS]; /* ticks at which a case began and ended, in turn */
uint32_t test_mark_count;

static uint64_t ticks;
static struct poet_link heard;
static struct run last;

void test_start(void);
void test_feed(const char *text, uint32_t bytes);

/* A reset: the storage keeps what it holds. */
void test_start(void)
{
    memset(&heard, 0, sizeof heard);
    memset(&last, 0, sizeof last);
    scratch_is_open = 0;
    test_said_bytes = 0u;
    test_refuses = UINT32_MAX;
    test_kernel_ticks = 8400u;
}

void test_feed(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        if (poet_link_take(&heard, text[i])) {
            answer(&heard, &last);
        }
    }
}

static int take(uint32_t number, uint64_t count)
{
    ticks += count;
    test_runs++;
    return number == test_refuses ? POET_ERROR_STORAGE : POET_OK;
}

static int run_small(void)
{
    return take(0u, 137u);
}

static int run_large(void)
{
    return take(1u, 5000000u);
}

static int run_out(void)
{
    POET_TRY(poet_page_out(3u, poet_arena + 512, 2400u));
    return take(2u, 4300u);
}

static int run_in(void)
{
    POET_TRY(poet_page_in(3u, poet_arena + 512, 2400u));
    return take(3u, 3100u);
}

static int run_load(void)
{
    poet_select_next();
    POET_TRY(poet_data_load_x(poet_arena + 512));
    POET_TRY(poet_data_load_y(poet_arena + 2912));
    return take(4u, 20011u);
}

/* A transfer beside a kernel, and the kernel. */
static int run_beside(void)
{
    POET_TRY(poet_page_out(3u, poet_arena + 512, 2400u));
    return take(5u, 9017u);
}

static int run_kernel(void)
{
    return take(5u, test_kernel_ticks);
}

uint32_t test_passes(void);

/* Of the kernel, in half a page-out's time; computing takes no ticks here, which counts as one. */
uint32_t test_passes(void)
{
    return poet_prepare_kernel(run_out) == POET_OK ? passes : 0u;
}

/* What it takes depends on its operand, which it changes. */
static int run_fed_operand(void)
{
    float *const x = (float *)(void *)(poet_arena + 752);
    const uint64_t count = 1000u + (uint64_t)*x;
    *x += 50.0f;
    return take(6u, count);
}

static int run_nothing(void)
{
    return take(7u, 7u);
}

const struct poet_fill poet_fills[] = {
    {512u, 4u, POET_FILL_SIGNED, 0u, 0u},
    {528u, 4u, POET_FILL_POSITIVE, 0u, 0u},
    {544u, 48u, POET_FILL_LIKE, 1u, 16u},
    {736u, 3u, POET_FILL_LIKE, 17u, 3u},
    {752u, 1u, POET_FILL_LIKE, 20u, 1u},
    {756u, 1u, POET_FILL_SIGNED, 0u, 0u},
};
const float poet_values[] = {-1.0f, 0.0f,  1.0f,  2.0f,  3.0f,  4.0f,  5.0f,  6.0f,  7.0f,  8.0f,
                             9.0f,  10.0f, 11.0f, 12.0f, 13.0f, 14.0f, 15.0f, 16.0f, 17.0f, 18.0f,
                             0.0f,  6.0f,  30.0f};
const uint32_t poet_case_count = 8u;
const struct poet_case poet_cases[] = {
    {KEY_SMALL, run_small, NULL, NULL, 0u, 4u, POET_NO_TRANSFER, 0u, 0u},
    {KEY_LARGE, run_large, NULL, NULL, 0u, 0u, POET_NO_TRANSFER, 0u, 0u},
    {KEY_OUT, run_out, NULL, NULL, 0u, 0u, POET_TRANSFER_OUT, 2400u, 0u},
    {KEY_IN, run_in, run_out, NULL, 0u, 0u, POET_TRANSFER_IN, 2400u, 0u},
    {KEY_LOAD, run_load, poet_prepare_sample, NULL, 0u, 0u, POET_NO_TRANSFER, 0u, 0u},
    {KEY_TAKEN, run_beside, run_out, run_kernel, 0u, 0u, POET_NO_TRANSFER, 2400u, 0u},
    {KEY_FED, run_fed_operand, NULL, NULL, 4u, 2u, POET_NO_TRANSFER, 0u, 3u},
    {"0000000000000000", run_nothing, NULL, NULL, 0u, 0u, POET_NO_TRANSFER, 0u, 0u},
};

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes && test_said_bytes < SAID_BYTES; i++) {
        test_said[test_said_bytes++] = text[i];
    }
}

int poet_hal_init(void)
{
    return POET_OK;
}

uint64_t poet_hal_ticks(void)
{
    return ticks;
}

int poet_hal_storage_open(void)
{
    return POET_OK;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    *blocks = BLOCKS;
    return POET_OK;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    memcpy(ram, test_device + block * POET_BLOCK_BYTES, count * POET_BLOCK_BYTES);
    return block + count <= BLOCKS ? POET_OK : POET_ERROR_STORAGE;
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    memcpy(test_device + block * POET_BLOCK_BYTES, ram, count * POET_BLOCK_BYTES);
    return block + count <= BLOCKS ? POET_OK : POET_ERROR_STORAGE;
}

int poet_hal_storage_wait(void)
{
    return POET_OK;
}

int poet_hal_storage_flush(void)
{
    return POET_OK;
}
