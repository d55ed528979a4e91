/* SPDX-License-Identifier: Apache-2.0 */
/* The whole interface to a board. Each family under hal/ implements it, and provides the entry point
 * that initialises memory and calls poet_run(). The library uses the functions of the block storage alone.
 *
 * Functions that return int return POET_OK, a negative enum poet_status, or a negative status of the
 * family's own, -16 or less; no two families use the same one, so that a console can be understood.
 */
#ifndef POET_HAL_H
#define POET_HAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The application. Ends by poet_hal_exit. */
__attribute__((noreturn)) void poet_run(void);

/* What a tick is: "cycles", "instructions" or "ns". */
extern const char poet_hal_tick_unit[];

/* Makes everything below usable, the console even where it fails. Called once, first. */
int poet_hal_init(void);

/* Sends `bytes` characters to the console. Returns when they are sent or safely queued. */
void poet_hal_console_write(const char *text, uint32_t bytes);

/* Takes up to `bytes` characters that came in on the console; how many: 0 where none waits, or nobody can say
 * anything. Never waits. What is not taken in time is lost. */
uint32_t poet_hal_console_read(char *text, uint32_t bytes);

/* For how many ticks the firmware listens after a start, before it does what the storage says: 0 for not at all,
 * and then nothing ever comes in. */
#define POET_LISTEN_FOR_EVER UINT64_MAX
uint64_t poet_hal_listen_ticks(void);

/* Ticks since poet_hal_init. Never runs backwards; wraps after 2^64. */
uint64_t poet_hal_ticks(void);

/* Makes the block storage ready. Called once, before the first transfer. */
int poet_hal_storage_open(void);

/* How many whole blocks the open storage has. */
int poet_hal_storage_blocks(uint32_t *blocks);

/* Starts to move `count` (1 or more) consecutive blocks of POET_BLOCK_BYTES between storage and RAM.
 * The RAM belongs to the transfer until poet_hal_storage_wait. Where the plan defines POET_TRANSFERS, so
 * many may be under way, and they are done in their order; else only one. A family without DMA moves the
 * blocks before it returns. `ram` need not be aligned. */
int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count);
int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count);

/* Waits for the transfer that has been under way for longest, and returns how it ended. */
int poet_hal_storage_wait(void);

/* Sees to it that what has been written stays, whatever happens to the power from now on, and before anything that
 * is written later. Nothing is under way. */
int poet_hal_storage_flush(void);

/* What `count` blocks hold need not be kept: whoever says so writes them next, from the first on. Flash, which can
 * only erase many blocks at once, saves work and wear by it; how often it erased is counted. Storage that is not
 * erased leaves both to storage.c. */
void poet_hal_storage_forget(uint32_t block, uint32_t count);
uint32_t poet_hal_storage_erases(void);

/* Sleeps until a character may have come in, or a watchdog wants to be fed, or not at all. Ticks may stand still
 * meanwhile. */
void poet_hal_idle(void);

/* Why the board started: one word such as "power-on", "pin", "watchdog", "software". */
const char *poet_hal_reset_cause(void);

/* A watchdog, for the application: nothing else touches it. A family without one does not define these, and they are
 * NULL; hal.toml says which times one can count, and only those may be asked for. From its start on it resets the board
 * once `ms` milliseconds have passed without it being fed. It can only be stopped by a reset: started again, it is fed, and
 * keeps its time. Only one that runs is fed. Sleep is no hang: it does not count while the core sleeps, or else
 * poet_hal_idle ends in time for it to be fed, and poet_hal_exit feeds it. */
__attribute__((weak)) void poet_hal_watchdog_start(uint32_t ms);
__attribute__((weak)) void poet_hal_watchdog_feed(void);

/* The stack, as [lower, upper). Both are null where it is not the firmware's own. */
struct poet_stack {
    uint8_t *lower;
    uint8_t *upper;
};
struct poet_stack poet_hal_stack(void);

/* Ends the program with an exit code; a board that cannot exit sleeps for ever. */
__attribute__((noreturn)) void poet_hal_exit(int code);

#ifdef __cplusplus
}
#endif

#endif
