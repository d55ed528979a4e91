/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every case of cases.h between two marks that the emulator's plugin sees, and prints the stack it took
 * and the CRC-32 of what it wrote.
 */
#include <stdint.h>

#include "console.h"
#include "crc32.h"
#include "hal.h"
#include "high_water.h"
#include "plan.h"

struct bench_case {
    void (*prepare)(void);
    void (*run)(void);
    uint32_t result; /* where in the arena the result lies */
    uint32_t result_bytes;
};

__attribute__((aligned(8))) uint8_t poet_arena[POET_ARENA_BYTES];

static uint32_t state;

/* Numerical Recipes' generator: the upper bits are good enough. */
static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Multiples of 2^-23 from [-1, 1); of 2^-24 from [0.5, 1.5). */
static inline void fill_signed(uint32_t offset, uint32_t count)
{
    float *x = (float *)(void *)(poet_arena + offset);
    for (uint32_t i = 0u; i < count; i++) {
        x[i] = (float)((int32_t)draw() - 0x800000) * 0x1p-23f;
    }
}

static inline void fill_positive(uint32_t offset, uint32_t count)
{
    float *x = (float *)(void *)(poet_arena + offset);
    for (uint32_t i = 0u; i < count; i++) {
        x[i] = 0.5f + (float)draw() * 0x1p-24f;
    }
}

/* Words of numbers of some bits each, a divisor of 32, the first in the lowest bits. */
static inline void fill_integers(uint32_t offset, uint32_t count, uint32_t bits, uint32_t below)
{
    uint32_t *words = (uint32_t *)(void *)(poet_arena + offset);
    for (uint32_t i = 0u; i < count; i++) {
        words[i] = 0u;
        for (uint32_t at = 0u; at < 32u; at += bits) {
            words[i] |= ((draw() >> 4) % below) << at;
        }
    }
}

#define FLOATS(offset) ((float *)(void *)(poet_arena + (offset)))
#define INTEGERS(offset) ((int32_t *)(void *)(poet_arena + (offset)))

#include "cases.h"

/* The marks begin a block of code of their own: instructions that do nothing, and that no compiler writes. */
__attribute__((naked, noinline)) static void begin(void)
{
    __asm__ volatile("mov r10, r10\n\tbx lr");
}

__attribute__((naked, noinline)) static void end(void)
{
    __asm__ volatile("mov r11, r11\n\tbx lr");
}

__attribute__((noinline)) static uint32_t measure(void (*run)(void))
{
    poet_paint_stack();
    begin();
    run();
    end();
    return poet_stack_high_water();
}

static void nothing(void)
{
}

_Noreturn void poet_run(void)
{
    poet_hal_init();
    const uint32_t own = measure(nothing);
    for (uint32_t i = 0u; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct bench_case *one = &CASES[i];
        state = 1u;
        one->prepare();
        const uint32_t stack = measure(one->run) - own;
        poet_print("case ");
        poet_print_decimal(stack);
        poet_print(" ");
        poet_print_hex(poet_crc32(0u, poet_arena + one->result, one->result_bytes));
        poet_print("\n");
    }
    poet_hal_exit(0);
}
