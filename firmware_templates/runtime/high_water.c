/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "high_water.h"

#include "hal.h"
#include "plan.h"

#include <stddef.h>

/* As a float, a signalling NaN, which no arithmetic produces; all its bytes differ. */
static const uint8_t PAINT[4] = {0xe1, 0xc3, 0xa5, 0x7f};

/* Space for poet_paint_stack's own frame below its frame address. */
#define FRAME_BYTES 64

static uint8_t paint_at(const uint8_t *address)
{
    return PAINT[(uintptr_t)address % sizeof PAINT];
}

static void paint(uint8_t *lower, const uint8_t *upper)
{
    /* Volatile prevents a call to memset, which would use the stack being painted. */
    for (volatile uint8_t *byte = lower; byte < upper; byte++) {
        *byte = paint_at((const uint8_t *)(uintptr_t)byte);
    }
}

void poet_paint_arena(void)
{
    paint(poet_arena, poet_arena + POET_ARENA_BYTES);
}

__attribute__((noinline)) void poet_paint_stack(void)
{
    const struct poet_stack stack = poet_hal_stack();
    if (stack.lower != NULL) {
        paint(stack.lower, (const uint8_t *)__builtin_frame_address(0) - FRAME_BYTES);
    }
}

static uint32_t high_water(const uint8_t *lower, uint32_t bytes)
{
    uint32_t used = bytes;
    while (used > 0u && lower[used - 1u] == paint_at(&lower[used - 1u])) {
        used--;
    }
    return (used + POET_ARENA_ALIGNMENT - 1u) / POET_ARENA_ALIGNMENT * POET_ARENA_ALIGNMENT;
}

uint32_t poet_arena_high_water(void)
{
    return high_water(poet_arena, POET_ARENA_BYTES);
}

#ifdef POET_WORKERS
uint32_t poet_device_high_water(uint32_t device)
{
    static const uint32_t arenas[][2] = {POET_DEVICE_ARENAS};
    return high_water(poet_arena + arenas[device][0], arenas[device][1]);
}
#endif

uint32_t poet_stack_high_water(void)
{
    const struct poet_stack stack = poet_hal_stack();
    const uint8_t *byte = stack.lower;
    while (byte < stack.upper && *byte == paint_at(byte)) {
        byte++;
    }
    return (uint32_t)(stack.upper - byte);
}
