/* SPDX-License-Identifier: Apache-2.0 */
/* High-water marks on this computer's own stack, of which a part is declared to be the firmware's. */
#include "hal.h"
#include "high_water.h"
#include "plan.h"

#include <stddef.h>

#define STACK_BYTES 65536u

static struct poet_stack stack;
static uint8_t *lowest;

struct poet_stack poet_hal_stack(void)
{
    return stack;
}

uint32_t test_stack(uint32_t bytes, uint32_t *used);
uint32_t test_no_stack(void);

__attribute__((noinline)) static void use(uint32_t bytes)
{
    volatile uint8_t area[bytes];
    for (uint32_t i = 0u; i < bytes; i++) {
        area[i] = 0u;
    }
    lowest = (uint8_t *)(uintptr_t)area;
}

/* Returns the high-water mark after `bytes` were used; *used is the truth. */
__attribute__((noinline)) uint32_t test_stack(uint32_t bytes, uint32_t *used)
{
    stack.upper = __builtin_frame_address(0);
    stack.lower = stack.upper - STACK_BYTES;
    poet_paint_stack();
    use(bytes);
    *used = (uint32_t)(stack.upper - lowest);
    return poet_stack_high_water();
}

uint32_t test_no_stack(void)
{
    stack.upper = NULL;
    stack.lower = NULL;
    poet_paint_stack();
    return poet_stack_high_water();
}
