/* SPDX-License-Identifier: Apache-2.0 */
/* All that hal.h wants besides the storage, for a board whose bus is polled: spi_bus.c has that. */
#include "hal.h"
#include "poet.h"
#include "quiet_board.h"

#include <setjmp.h>

const char poet_hal_tick_unit[] = "ns";
void (*test_console)(const char *text, uint32_t bytes);
static jmp_buf end;

void test_run(void);

int poet_hal_init(void)
{
    return POET_OK;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    test_console(text, bytes);
}

uint64_t poet_hal_ticks(void)
{
    return 0u;
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

_Noreturn void poet_hal_exit(int code)
{
    longjmp(end, code + 1);
}

void test_run(void)
{
    if (setjmp(end) == 0) {
        poet_run();
    }
}
