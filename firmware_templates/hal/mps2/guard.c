/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "guard.h"

#include "plan.h"
#include "registers.h"

#include <stdint.h>

/* ARMv7-M Architecture Reference Manual, B3.5. */
#define MPU_CTRL REGISTER(0xe000ed94u)
#define MPU_CTRL_ENABLE 1u
#define MPU_RBAR REGISTER(0xe000ed9cu)
#define MPU_RBAR_VALID (1u << 4)
#define MPU_RASR REGISTER(0xe000eda0u)
#define MPU_RASR_ENABLE 1u
#define MPU_RASR_READ_ONLY (6u << 24)
#define MPU_RASR_READ_WRITE (3u << 24)
#define MPU_RASR_EXECUTE_NEVER (1u << 28)
#define MPU_RASR_NORMAL (2u << 16)
#define MPU_RASR_DEVICE (1u << 16)

#define FLASH_ADDRESS 0x00000000u
#define RAM_ADDRESS 0x20000000u
#define PERIPHERAL_ADDRESS 0x40000000u
#define PERIPHERAL_BYTES 0x20000000u

/* The processor has eight regions. */
#define RAM_REGIONS 4u
#define FLASH_REGIONS 3u

#define SUBREGIONS 8u
#define SUBREGIONS_LOG2 3u
#define SMALLEST_LOG2 8u /* smallest region with subregions */

_Static_assert(POET_RAM_BYTES <= 4u << 20, "the emulated machine has 4 MB of RAM");
_Static_assert(POET_FLASH_BYTES <= 4u << 20, "the emulated machine has 4 MB of code memory");

static uint32_t ceil_log2(uint32_t bytes)
{
    uint32_t log2 = SMALLEST_LOG2;
    while (1u << log2 < bytes) {
        log2++;
    }
    return log2;
}

/* Makes [address, address + bytes) accessible. A region's size is a power of two and its address a multiple of it;
 * each eighth can be disabled. So a region covers the whole eighths, and a smaller one the rest; the last one rounds
 * up. */
static void cover(uint32_t region, uint32_t regions, uint32_t address, uint32_t bytes,
                  uint32_t attributes)
{
    const uint32_t upper = address + bytes;
    const uint32_t end = region + regions;
    for (; region < end && address < upper; region++) {
        const uint32_t log2 = ceil_log2(upper - address);
        const uint32_t unit_log2 = log2 - SUBREGIONS_LOG2;
        const uint32_t base = address >> log2 << log2;
        const uint32_t first = (address - base) >> unit_log2;
        uint32_t count = (upper - address) >> unit_log2;
        if (region + 1u == end || log2 == SMALLEST_LOG2) {
            count = (upper - address + (1u << unit_log2) - 1u) >> unit_log2;
        }
        const uint32_t left_out = ~(((1u << count) - 1u) << first) & ((1u << SUBREGIONS) - 1u);
        MPU_RBAR = base | MPU_RBAR_VALID | region;
        MPU_RASR = attributes | left_out << 8 | (log2 - 1u) << 1 | MPU_RASR_ENABLE;
        address += count << unit_log2;
    }
}

void poet_guard_memory(void)
{
    cover(0u, RAM_REGIONS, RAM_ADDRESS, POET_RAM_BYTES,
          MPU_RASR_READ_WRITE | MPU_RASR_EXECUTE_NEVER | MPU_RASR_NORMAL);
    cover(RAM_REGIONS, FLASH_REGIONS, FLASH_ADDRESS, POET_FLASH_BYTES,
          MPU_RASR_READ_ONLY | MPU_RASR_NORMAL);
    cover(RAM_REGIONS + FLASH_REGIONS, 1u, PERIPHERAL_ADDRESS, PERIPHERAL_BYTES,
          MPU_RASR_READ_WRITE | MPU_RASR_EXECUTE_NEVER | MPU_RASR_DEVICE);
    /* Without background region and HFNMIENA, nothing else is accessible, except that the fault handler, which runs
     * as HardFault, can access all memory. */
    MPU_CTRL = MPU_CTRL_ENABLE;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}
