/* SPDX-License-Identifier: Apache-2.0 */
/* A block device and a console in memory. Its power can be made to fail after a number of blocks, one
 * transfer or a few after a number of others, and one block for ever to be read. With POET_TRANSFERS it moves nothing before it must. */
#include "hal.h"
#include "poet.h"
#include "poet_math.h"
#include "poet_memory.h"

#define BLOCKS 256u
#define CONSOLE_BYTES 8192u

uint8_t test_device[BLOCKS * POET_BLOCK_BYTES];
char test_console[CONSOLE_BYTES];
uint32_t test_blocks_until_power_fails;
uint32_t test_transfers_until_one_fails;
uint32_t test_transfers_that_fail; /* then */
uint32_t test_bad_block;           /* that cannot be read; none: UINT32_MAX */
uint32_t test_device_blocks; /* that it says it has; none: it does not say */

static uint32_t console_used;
static int last_status;

void test_device_reset(void)
{
    memset(test_device, 0, sizeof test_device);
    memset(test_console, 0, sizeof test_console);
    memset(poet_arena, 0, POET_ARENA_BYTES);
    console_used = 0u;
    test_blocks_until_power_fails = UINT32_MAX;
    test_transfers_until_one_fails = UINT32_MAX;
    test_transfers_that_fail = 1u;
    test_bad_block = UINT32_MAX;
    test_device_blocks = BLOCKS;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes && console_used < CONSOLE_BYTES - 1u; i++) {
        test_console[console_used++] = text[i];
    }
}

int poet_hal_storage_open(void)
{
    return POET_OK;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    *blocks = test_device_blocks;
    return test_device_blocks != 0u ? POET_OK : POET_ERROR_STORAGE;
}

static int is_on_device(uint32_t block, uint32_t count)
{
    return count <= BLOCKS && block <= BLOCKS - count;
}

static int fails(void)
{
    if (test_transfers_until_one_fails == 0u && test_transfers_that_fail > 1u) {
        test_transfers_that_fail--;
        return 1;
    }
    return test_transfers_until_one_fails-- == 0u;
}

static int read_now(uint32_t block, void *ram, uint32_t count)
{
    last_status = POET_ERROR_STORAGE;
    if (is_on_device(block, count) && !fails() && test_bad_block - block >= count) {
        memcpy(ram, test_device + block * POET_BLOCK_BYTES, count * POET_BLOCK_BYTES);
        last_status = POET_OK;
    }
    return POET_OK;
}

static int write_now(uint32_t block, const void *ram, uint32_t count)
{
    const uint8_t *source = ram;
    last_status = !fails() && is_on_device(block, count) ? POET_OK : POET_ERROR_STORAGE;
    for (uint32_t i = 0u; i < count && last_status == POET_OK; i++) {
        if (test_blocks_until_power_fails == 0u) {
            last_status = POET_ERROR_STORAGE;
        } else {
            test_blocks_until_power_fails--;
            memcpy(test_device + (block + i) * POET_BLOCK_BYTES, source + i * POET_BLOCK_BYTES,
                   POET_BLOCK_BYTES);
        }
    }
    return POET_OK;
}

#ifdef POET_TRANSFERS
static struct {
    uint32_t block;
    uint32_t count;
    void *target; /* null: the other way */
    const void *source;
} queue[POET_TRANSFERS];
static uint32_t begun, ended;
uint32_t test_most_under_way;

static int begin(uint32_t block, void *target, const void *source, uint32_t count)
{
    if (begun - ended == POET_TRANSFERS) {
        return POET_ERROR_ARGUMENT;
    }
    queue[begun % POET_TRANSFERS].block = block;
    queue[begun % POET_TRANSFERS].count = count;
    queue[begun % POET_TRANSFERS].target = target;
    queue[begun % POET_TRANSFERS].source = source;
    begun++;
    if (begun - ended > test_most_under_way) {
        test_most_under_way = begun - ended;
    }
    return POET_OK;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    return begin(block, ram, NULL, count);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    return begin(block, NULL, ram, count);
}

int poet_hal_storage_wait(void)
{
    const uint32_t i = ended % POET_TRANSFERS;
    if (begun == ended) {
        return POET_ERROR_ARGUMENT; /* nothing is under way */
    }
    ended++;
    (void)(queue[i].target != NULL ? read_now(queue[i].block, queue[i].target, queue[i].count)
                                   : write_now(queue[i].block, queue[i].source, queue[i].count));
    return last_status;
}
#else
int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    return read_now(block, ram, count);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    return write_now(block, ram, count);
}

int poet_hal_storage_wait(void)
{
    return last_status;
}
#endif

int poet_hal_storage_flush(void)
{
    return POET_OK;
}

/* The math over arrays: a call through ctypes for each value would take minutes. */
#define APPLY(function)                                                      \
    void test_##function(const float *x, float *y, uint32_t elements)        \
    {                                                                        \
        for (uint32_t i = 0u; i < elements; i++) {                           \
            y[i] = function(x[i]);                                           \
        }                                                                    \
    }

void test_poet_expf(const float *x, float *y, uint32_t elements);
void test_poet_logf(const float *x, float *y, uint32_t elements);
void test_poet_sqrtf(const float *x, float *y, uint32_t elements);
void test_poet_sqrtf_soft(const float *x, float *y, uint32_t elements);
void test_poet_tanhf(const float *x, float *y, uint32_t elements);
void test_device_reset(void);
APPLY(poet_expf)
APPLY(poet_logf)
APPLY(poet_sqrtf)
APPLY(poet_sqrtf_soft)
APPLY(poet_tanhf)
