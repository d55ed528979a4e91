/* SPDX-License-Identifier: Apache-2.0 */
/* High-water marks: paint a memory area, and find later where the paint is gone. */
#ifndef POET_HIGH_WATER_H
#define POET_HIGH_WATER_H

#include <stdint.h>

/* Paint the arena; paint the stack below the caller. */
void poet_paint_arena(void);
void poet_paint_stack(void);

/* Bytes from the start of the arena to the last one written since, rounded up to the alignment. */
uint32_t poet_arena_high_water(void);

/* The same for one device's part of the arena, if a step runs on several devices. */
uint32_t poet_device_high_water(uint32_t device);

/* Largest number of stack bytes in use since; 0 if the firmware does not own the stack. */
uint32_t poet_stack_high_water(void);

#endif
