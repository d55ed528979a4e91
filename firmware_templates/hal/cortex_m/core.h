/* SPDX-License-Identifier: Apache-2.0 */
/* Bus accesses and instructions of the core as functions; all drivers access the chip through these. */
#ifndef POET_CORE_H
#define POET_CORE_H

#include "registers.h"

#include <stdint.h>

static inline uint32_t poet_read(uint32_t address)
{
    return REGISTER(address);
}

static inline void poet_write(uint32_t address, uint32_t value)
{
    REGISTER(address) = value;
}

/* The same for 8-bit and 16-bit registers. */
static inline uint8_t poet_read8(uint32_t address)
{
    return *(volatile uint8_t *)(uintptr_t)address;
}

static inline void poet_write8(uint32_t address, uint8_t value)
{
    *(volatile uint8_t *)(uintptr_t)address = value;
}

static inline uint16_t poet_read16(uint32_t address)
{
    return *(volatile uint16_t *)(uintptr_t)address;
}

static inline void poet_write16(uint32_t address, uint16_t value)
{
    *(volatile uint16_t *)(uintptr_t)address = value;
}

/* Address of RAM as a DMA controller takes it. */
static inline uint32_t poet_dma_address(const void *ram)
{
    return (uint32_t)ram;
}

/* Data barrier: earlier writes are complete before later accesses begin. */
static inline void poet_barrier(void)
{
    __asm__ volatile("dsb" ::: "memory");
}

/* Disables interrupts; returns the state for poet_interrupts_restore. */
static inline uint32_t poet_interrupts_off(void)
{
    uint32_t primask;
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(primask)::"memory");
    return primask;
}

static inline void poet_interrupts_restore(uint32_t primask)
{
    __asm__ volatile("msr primask, %0" ::"r"(primask) : "memory");
}

static inline void poet_wait_for_event(void)
{
    __asm__ volatile("wfe");
}

#endif
