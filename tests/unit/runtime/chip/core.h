/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for hal/cortex_m/core.h: every access goes out of the library, to the test's chip. */
#ifndef POET_CORE_H
#define POET_CORE_H

#include <stdint.h>

uint32_t poet_read(uint32_t address);
void poet_write(uint32_t address, uint32_t value);
uint8_t poet_read8(uint32_t address);
void poet_write8(uint32_t address, uint8_t value);
uint16_t poet_read16(uint32_t address);
void poet_write16(uint32_t address, uint16_t value);
uint32_t poet_dma_address(const void *ram);
void poet_barrier(void);
uint32_t poet_interrupts_off(void);
void poet_interrupts_restore(uint32_t primask);
void poet_wait_for_event(void);

#endif
