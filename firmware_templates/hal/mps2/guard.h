/* SPDX-License-Identifier: Apache-2.0 */
/* The memory protection unit, set so that only the board's RAM and flash exist. */
#ifndef POET_GUARD_H
#define POET_GUARD_H

/* From now on every access outside POET_RAM_BYTES of RAM, POET_FLASH_BYTES of flash and the
 * peripherals faults, as does a write to flash.
 *
 * This is exact for RAM of whole KB, and flash of whole 4 KB up to 2 MB. Otherwise less than that is
 * accessible beyond the end too, where the linker script puts nothing. */
void poet_guard_memory(void);

#endif
