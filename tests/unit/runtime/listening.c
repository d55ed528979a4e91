/* SPDX-License-Identifier: Apache-2.0 */
/* A board to which something is said at given ticks. Each look at the time is a tick; asleep, it passes until
 * something is said, and if nothing will be any more, the board is at its end. */
#include "hal.h"
#include "poet.h"

#include <setjmp.h>

#define SAYINGS 8u

static struct {
    uint64_t tick;
    const char *text;
} sayings[SAYINGS];
static uint32_t said;
static uint32_t all;
static uint64_t ticks;
static jmp_buf end;

uint64_t test_listen_ticks;

const char poet_hal_tick_unit[] = "ticks";

void test_say(uint64_t tick, const char *text);
int test_run(void);

/* Later calls say later things. */
void test_say(uint64_t tick, const char *text)
{
    sayings[all].tick = tick;
    sayings[all].text = text;
    all++;
}

int test_run(void)
{
    const int code = setjmp(end);
    if (code == 0) {
        poet_run();
    }
    return code - 1;
}

int poet_hal_init(void)
{
    return POET_OK;
}

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    if (said == all || sayings[said].tick > ticks || bytes == 0u) {
        return 0u;
    }
    *text = *sayings[said].text++;
    if (*sayings[said].text == '\0') {
        said++;
    }
    return 1u;
}

uint64_t poet_hal_listen_ticks(void)
{
    return test_listen_ticks;
}

uint64_t poet_hal_ticks(void)
{
    return ticks++;
}

void poet_hal_idle(void)
{
    if (said == all) {
        poet_hal_exit(76);
    }
    if (ticks < sayings[said].tick) {
        ticks = sayings[said].tick;
    }
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack none = {NULL, NULL};
    return none;
}

_Noreturn void poet_hal_exit(int code)
{
    longjmp(end, code + 1);
}
