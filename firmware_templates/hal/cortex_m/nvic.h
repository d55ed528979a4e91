/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupts of peripherals (ARMv6-M Architecture Reference Manual, B3.4), all of the same priority. */
#ifndef POET_NVIC_H
#define POET_NVIC_H

#include "core.h"

#include <stdint.h>

#define NVIC_ISER(interrupt) (0xe000e100u + (interrupt) / 32u * 4u)
#define NVIC_ICER(interrupt) (0xe000e180u + (interrupt) / 32u * 4u)

/* A vector, in a family's own table of them: { [interrupt] = handler }. */
#define POET_VECTORS __attribute__((section(".vectors.interrupts"), used))
typedef void (*const poet_vector)(void);

static inline void poet_interrupt_enable(uint32_t interrupt)
{
    poet_write(NVIC_ISER(interrupt), 1u << interrupt % 32u);
}

static inline void poet_interrupt_disable(uint32_t interrupt)
{
    poet_write(NVIC_ICER(interrupt), 1u << interrupt % 32u);
    poet_barrier();
}

#endif
