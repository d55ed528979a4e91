/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupts of peripherals (ARMv6-M Architecture Reference Manual, B3.4), all with the same priority. */
#ifndef POET_NVIC_H
#define POET_NVIC_H

#include "core.h"

#include <stdint.h>

#define NVIC_ISER(interrupt) (0xe000e100u + (interrupt) / 32u * 4u)
#define NVIC_ICER(interrupt) (0xe000e180u + (interrupt) / 32u * 4u)

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
