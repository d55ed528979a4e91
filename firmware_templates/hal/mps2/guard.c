/* SPDX-License-Identifier: Apache-2.0 */
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

/* A region is a power of two of bytes in eight subregions, of which the last ones can be left out. */
#define REGION_LOG2(bytes) (32u - (uint32_t)__builtin_clz((uint32_t)(bytes) - 1u))
#define SUBREGION_BYTES(bytes) (1u << (REGION_LOG2(bytes) - 3u))
#define SUBREGIONS(bytes) ((uint32_t)(bytes) / SUBREGION_BYTES(bytes))

#define IS_GUARDABLE(bytes) ((bytes) >= 256u && (bytes) % SUBREGION_BYTES(bytes) == 0u)
_Static_assert(IS_GUARDABLE(POET_RAM_BYTES), "RAM must be eighths of a power of two of bytes");
_Static_assert(IS_GUARDABLE(POET_FLASH_BYTES), "flash must be eighths of a power of two of bytes");
_Static_assert(POET_RAM_BYTES <= 4u << 20, "the emulated machine has 4 MB of RAM");
_Static_assert(POET_FLASH_BYTES <= 4u << 20, "the emulated machine has 4 MB of code memory");

static void set_region(uint32_t number, uint32_t address, uint32_t bytes, uint32_t attributes)
{
    const uint32_t disabled = 0xff00u & 0xffu << (8u + SUBREGIONS(bytes));
    MPU_RBAR = address | MPU_RBAR_VALID | number;
    MPU_RASR = attributes | disabled | (REGION_LOG2(bytes) - 1u) << 1 | MPU_RASR_ENABLE;
}

void poet_guard_memory(void)
{
    set_region(0u, FLASH_ADDRESS, POET_FLASH_BYTES, MPU_RASR_READ_ONLY | MPU_RASR_NORMAL);
    set_region(1u, RAM_ADDRESS, POET_RAM_BYTES,
               MPU_RASR_READ_WRITE | MPU_RASR_EXECUTE_NEVER | MPU_RASR_NORMAL);
    set_region(2u, PERIPHERAL_ADDRESS, PERIPHERAL_BYTES,
               MPU_RASR_READ_WRITE | MPU_RASR_EXECUTE_NEVER | MPU_RASR_DEVICE);
    /* Without the background region and without HFNMIENA: nothing else is accessible, except that
     * the fault handler, which runs as HardFault, sees all memory. */
    MPU_CTRL = MPU_CTRL_ENABLE;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}
