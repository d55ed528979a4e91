/* SPDX-License-Identifier: Apache-2.0 */
/* The complete interface to a board. Each family under hal/ implements it, with an entry point that initialises
 * memory and calls poet_run(). The library itself uses only the functions of the block storage.
 *
 * Functions that return int return POET_OK, a negative enum poet_status, or a negative status of the family, -16 or
 * less. Families do not share statuses, so that a status on the console is unambiguous.
 */
#ifndef POET_HAL_H
#define POET_HAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The application. Ends with poet_hal_exit. */
__attribute__((noreturn)) void poet_run(void);

/* Unit of a tick: "cycles", "instructions" or "ns". */
extern const char poet_hal_tick_unit[];

/* Initialises the board; the console works even if it fails. Called once, first. */
int poet_hal_init(void);

/* Sends `bytes` characters to the console. Returns when they are sent or safely queued. */
void poet_hal_console_write(const char *text, uint32_t bytes);

/* Receives up to `bytes` waiting console characters and returns their number; 0 if none waits or there is no input.
 * Never waits. Characters that are not received in time are lost. */
uint32_t poet_hal_console_read(char *text, uint32_t bytes);

/* Ticks for which the firmware listens after a start, before it follows the storage; 0 if there is no input. */
#define POET_LISTEN_FOR_EVER UINT64_MAX
uint64_t poet_hal_listen_ticks(void);

/* Ticks since poet_hal_init: monotonic, wraps after 2^64. */
uint64_t poet_hal_ticks(void);

/* Initialises the block storage. Called once, before the first transfer. */
int poet_hal_storage_open(void);

/* Number of whole blocks of the open storage. */
int poet_hal_storage_blocks(uint32_t *blocks);

/* Starts a transfer of `count` (1 or more) consecutive blocks of POET_BLOCK_BYTES between storage and RAM. The RAM
 * belongs to the transfer until poet_hal_storage_wait. If the plan defines POET_TRANSFERS, as many may be under way,
 * completed in order; else one. A family without DMA transfers the blocks before it returns. `ram` need not be
 * aligned. */
int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count);
int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count);

/* Waits for the oldest transfer under way, and returns its status. */
int poet_hal_storage_wait(void);

/* Makes all written data durable: it survives a power cut from now on, and precedes anything written later. No
 * transfer is under way. */
int poet_hal_storage_flush(void);

/* Discards the content of `count` blocks: the caller writes them next, in order. Flash, which erases many blocks at
 * once, saves work and wear; erase operations are counted. Storage without erasing inherits both from storage.c. */
void poet_hal_storage_forget(uint32_t block, uint32_t count);
uint32_t poet_hal_storage_erases(void);

/* Sleeps until a character may have arrived or the watchdog needs feeding, or returns at once. Ticks may stop
 * meanwhile. */
void poet_hal_idle(void);

/* Reset cause in one word, such as "power-on", "pin", "watchdog", "software". */
const char *poet_hal_reset_cause(void);

/* Watchdog for the application; nothing else uses it. Families without a watchdog leave these undefined, that is,
 * NULL; hal.toml holds the supported times. Once started, it resets the board if it is not fed for `ms` milliseconds.
 * Only a reset stops it: a second start feeds it and keeps its time. It must run to be fed. Sleep is not a hang: it
 * pauses while the core sleeps, or poet_hal_idle returns in time to feed it and poet_hal_exit feeds it. */
__attribute__((weak)) void poet_hal_watchdog_start(uint32_t ms);
__attribute__((weak)) void poet_hal_watchdog_feed(void);

/* Stack as [lower, upper); both are null if the firmware does not own it. */
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
