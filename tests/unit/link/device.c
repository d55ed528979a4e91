/* SPDX-License-Identifier: Apache-2.0 */
/* The firmware's side of the line, fed by a test: its storage is memory, and what it prints is kept. */
#include "desk.c"

#include "../runtime/quiet_board.h"

#define BLOCKS 128u
#define SAID_BYTES 65536u

uint8_t test_device[BLOCKS * POET_BLOCK_BYTES];
char test_said[SAID_BYTES];
uint32_t test_said_bytes;
uint32_t test_blocks = BLOCKS;
int test_open_status;
uint32_t test_stuck_block = UINT32_MAX; /* keeps what it holds, whatever is written */
uint32_t test_steps;                    /* trained since the start */
uint32_t test_erases;                   /* since the start */
uint32_t test_forgotten[2];             /* blocks, [first, end): what flash need not keep */

const char poet_hal_tick_unit[] = "ns";

static struct poet_link heard;
static struct session session;

void test_start(void);
void test_feed(const char *text, uint32_t bytes);
int __real_poet_train_step(void);
int __wrap_poet_train_step(void);

/* A reset: what was under way is forgotten, what is in the storage is not. */
void test_start(void)
{
    memset(&heard, 0, sizeof heard);
    memset(&session, 0, sizeof session);
    memset(poet_arena, 0xa5, POET_ARENA_BYTES);
    test_said_bytes = 0u;
}

void test_feed(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        if (poet_link_take(&heard, text[i])) {
            (void)answer(&heard, &session);
        }
        if (session.due != NULL) {
            answer_by(&session, session.due);
            session.due = NULL;
        }
    }
}

int __wrap_poet_train_step(void)
{
    test_steps++;
    return __real_poet_train_step();
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes && test_said_bytes < SAID_BYTES; i++) {
        test_said[test_said_bytes++] = text[i];
    }
}

uint64_t poet_hal_ticks(void)
{
    static uint64_t ticks;
    return ticks++;
}

uint32_t poet_hal_storage_erases(void)
{
    return test_erases;
}

int poet_hal_storage_open(void)
{
    return test_open_status;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    *blocks = test_blocks;
    return POET_OK;
}

static int status;

static int is_there(uint32_t block, uint32_t count)
{
    status = count <= test_blocks && block <= test_blocks - count ? POET_OK : POET_ERROR_STORAGE;
    return status == POET_OK;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    if (is_there(block, count)) {
        memcpy(ram, test_device + block * POET_BLOCK_BYTES, count * POET_BLOCK_BYTES);
    }
    return POET_OK;
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    if (is_there(block, count) && block == test_forgotten[0]) {
        memset(test_device + block * POET_BLOCK_BYTES, 0xff,
               (test_forgotten[1] - block) * POET_BLOCK_BYTES);
    }
    if (is_there(block, count) && block != test_stuck_block) {
        memcpy(test_device + block * POET_BLOCK_BYTES, ram, count * POET_BLOCK_BYTES);
    }
    return POET_OK;
}

int poet_hal_storage_wait(void)
{
    return status;
}

void poet_hal_storage_forget(uint32_t block, uint32_t count)
{
    test_forgotten[0] = block;
    test_forgotten[1] = block + count;
}

int poet_hal_storage_flush(void)
{
    return POET_OK;
}
