/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

#include "hal.h"
#include "poet.h"

#include <setjmp.h>

uint32_t (*test_read)(uint32_t address);
void (*test_write)(uint32_t address, uint32_t value);
uint32_t (*test_read_part)(uint32_t address, uint32_t bytes);
void (*test_write_part)(uint32_t address, uint32_t bytes, uint32_t value);
uint32_t (*test_dma_address)(const void *ram);
void (*test_barrier)(void);
int (*test_sleep)(void); /* whether anything wakes the core */

static jmp_buf end;

void test_run(void);

uint32_t poet_read(uint32_t address)
{
    return test_read(address);
}

void poet_write(uint32_t address, uint32_t value)
{
    test_write(address, value);
}

uint8_t poet_read8(uint32_t address)
{
    return (uint8_t)test_read_part(address, 1u);
}

void poet_write8(uint32_t address, uint8_t value)
{
    test_write_part(address, 1u, value);
}

uint16_t poet_read16(uint32_t address)
{
    return (uint16_t)test_read_part(address, 2u);
}

void poet_write16(uint32_t address, uint16_t value)
{
    test_write_part(address, 2u, value);
}

uint32_t poet_dma_address(const void *ram)
{
    return ram != NULL ? test_dma_address(ram) : 0u;
}

void poet_barrier(void)
{
    test_barrier();
}

uint32_t poet_interrupts_off(void)
{
    return 0u;
}

void poet_interrupts_restore(uint32_t primask)
{
    (void)primask;
}

/* What sleeps for ever has ended. */
void poet_wait_for_event(void)
{
    if (test_sleep == NULL || !test_sleep()) {
        longjmp(end, 1);
    }
}

struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack none = {NULL, NULL};
    return none;
}

void test_run(void)
{
    if (setjmp(end) == 0) {
        poet_run();
    }
}
