/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads an SD card through storage/sd.c on QEMU's lm3s6965evb, whose card hangs on a PL022.
 *
 * The host has filled blocks [200, 216) with the pattern; this fills block 3, [100, 116) and
 * LAST_BLOCK, reads everything back, and asks for blocks that do not exist. Exit code 0 and "@sd ok"
 * if all went as it should, else 1 and the step and status at which it did not. With COUNTED it only asks
 * the timer how many instructions a loop of so many takes. With ROUNDS it only moves so many times BLOCKS.
 */
#include "console.h"
#include "hal.h"
#include "high_water.h"
#include "poet.h"
#include "sd.h"

#define BLOCKS 16u
#define HOST_BLOCK 200u

static uint8_t buffer[BLOCKS * POET_SD_BLOCK_BYTES];

static uint8_t pattern(uint32_t block, uint32_t i)
{
    return (uint8_t)((block * POET_SD_BLOCK_BYTES + i) * 2654435761u >> 13);
}

static int move(int begun)
{
    return begun == POET_SD_OK ? poet_sd_wait() : begun;
}

static int write(uint32_t block, uint32_t count)
{
    for (uint32_t i = 0u; i < count * POET_SD_BLOCK_BYTES; i++) {
        buffer[i] = pattern(block, i);
    }
    return move(poet_sd_write_begin(block, buffer, count));
}

/* 1 where the card answers well but with other data. */
static int read(uint32_t block, uint32_t count)
{
    for (uint32_t i = 0u; i < sizeof buffer; i++) {
        buffer[i] = (uint8_t)~pattern(block, i);
    }
    const int status = move(poet_sd_read_begin(block, buffer, count));
    for (uint32_t i = 0u; i < count * POET_SD_BLOCK_BYTES; i++) {
        if (status == POET_SD_OK && buffer[i] != pattern(block, i)) {
            return 1;
        }
    }
    return status;
}

static void expect(const char *step, int status, int expected)
{
    if (status != expected) {
        poet_print("@sd failed step=");
        poet_print(step);
        poet_print(" status=");
        poet_print_signed(status);
        poet_print("\n");
        poet_hal_exit(1);
    }
}

#ifdef COUNTED
static void check_ticks(void)
{
    const uint64_t start = poet_hal_ticks();
    uint32_t left = COUNTED / 2u;
    __asm__ volatile(".syntax unified\n1:\tsubs %0, #1\n\tbne 1b" : "+l"(left)::"cc");
    const uint64_t more = poet_hal_ticks() - start - COUNTED;
    expect("ticks", more < 500u ? 0 : 1, 0); /* those around the loop, and an interrupt */
    poet_print("@sd ok\n");
    poet_hal_exit(0);
}
#endif

#ifdef ROUNDS
static void move_much(void)
{
    poet_print("@begin\n");
    for (uint32_t i = 0u; i < ROUNDS; i++) {
        expect("write", move(poet_sd_write_begin(i * BLOCKS, buffer, BLOCKS)), POET_SD_OK);
    }
    poet_print("@written\n");
    for (uint32_t i = 0u; i < ROUNDS; i++) {
        expect("read", move(poet_sd_read_begin(i * BLOCKS, buffer, BLOCKS)), POET_SD_OK);
    }
    poet_print("@read\n");
    poet_hal_exit(0);
}
#endif

_Noreturn void poet_run(void)
{
    expect("start", poet_hal_init(), POET_OK);
    poet_paint_stack();
#ifdef COUNTED
    check_ticks();
#endif
    expect("open", poet_sd_open(), POET_SD_OK);
#ifdef ROUNDS
    move_much();
#endif
    uint32_t blocks = 0u;
    expect("size", poet_sd_blocks(&blocks), POET_SD_OK);
    expect("blocks", blocks == LAST_BLOCK + 1u ? 0 : 1, 0);
    expect("write-one", write(3u, 1u), POET_SD_OK);
    expect("write-many", write(100u, BLOCKS), POET_SD_OK);
    expect("write-last", write(LAST_BLOCK, 1u), POET_SD_OK);
    expect("read-one", read(3u, 1u), POET_SD_OK);
    expect("read-many", read(100u, BLOCKS), POET_SD_OK);
    expect("read-middle", read(105u, 2u), POET_SD_OK);
    expect("read-host", read(HOST_BLOCK, BLOCKS), POET_SD_OK);
    expect("read-last", read(LAST_BLOCK, 1u), POET_SD_OK);
    expect("beyond-end", move(poet_sd_read_begin(LAST_BLOCK + 1u, buffer, 1u)), POET_SD_ERROR_COMMAND);
    expect("beyond-addresses", poet_sd_read_begin(UINT32_MAX, buffer, 1u), POET_SD_ERROR_RANGE);
    expect("reopen", poet_sd_open(), POET_SD_OK);
    expect("read-after-reopen", read(100u, BLOCKS), POET_SD_OK);
    poet_print("@sd ok\n");
    poet_hal_exit(0);
}
