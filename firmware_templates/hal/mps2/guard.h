/* SPDX-License-Identifier: Apache-2.0 */
/* Memory protection unit, set up to expose only the board's RAM and flash. */
#ifndef POET_GUARD_H
#define POET_GUARD_H

/* Enables the guard: an access outside POET_RAM_BYTES of RAM, POET_FLASH_BYTES of flash and the peripherals faults,
 * as does a write to flash.
 *
 * This is exact for RAM in whole KB and flash in whole 4 KB up to 2 MB. Otherwise a little memory beyond the end is
 * accessible as well, where the linker script puts nothing. */
void poet_guard_memory(void);

#endif
