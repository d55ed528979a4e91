/* SPDX-License-Identifier: Apache-2.0 */
/* The QSPI peripheral (nRF52840 Product Specification 1.7, section 6.19): flash addresses of 24 bits, four data lines
 * at 16 MHz. One thing is under way at a time. */
#ifndef POET_QSPI_H
#define POET_QSPI_H

#include "wait.h"

#include <stdint.h>

#define QSPI_EVENTS_READY 0x40029100u
#define QSPI_ENABLE 0x40029500u
#define QSPI_ENABLE_DISABLED 0u
#define QSPI_ENABLE_ENABLED 1u

/* The longest read: the register counts up to 0x3ffff bytes. */
#define POET_QSPI_LONGEST 0x20000u

/* What goes with an instruction to the flash. */
enum poet_qspi_flags {
    POET_QSPI_PLAIN = 0,
    POET_QSPI_WAIT = 1 << 14,  /* first wait until the flash is not busy */
    POET_QSPI_WRITE = 1 << 15, /* first enable writing */
};

/* Sets up the peripheral, or sets it up anew. Returns whether it becomes active. */
int poet_qspi_start(void);

/* Sends an instruction with `bytes` (up to 4) of *data, which then holds what came back. Returns whether it ended.
 * Only before poet_qspi_listen. */
int poet_qspi_instruct(uint32_t opcode, uint32_t bytes, enum poet_qspi_flags flags, uint32_t *data);

/* From now on the end of what begins is an interrupt, whose handler (QSPI_IRQHandler) is the caller's. It takes the end:
 * whether something has ended, rather than nothing that was begun. */
void poet_qspi_listen(void);
int poet_qspi_take_end(void);

/* Begin to read, to write into erased flash, and to erase 4,096 bytes. `ram` is RAM at a multiple of 4, and so are
 * `address` and `bytes`. Erasing has only begun when it ends, and the last page may still be written: whoever
 * is told so begins to await the flash, which ends with the answer of an instruction, as poet_qspi_answer has it. */
void poet_qspi_read(uint32_t address, uint8_t *ram, uint32_t bytes);
void poet_qspi_write(uint32_t address, const uint8_t *ram, uint32_t bytes);
void poet_qspi_erase(uint32_t address);
void poet_qspi_await(uint32_t opcode);
uint32_t poet_qspi_answer(void);

/* Whether there is an end to take, and whether the peripheral is on: it is switched off if it interrupts for nothing. */
static inline int poet_qspi_is_ready(void)
{
    return poet_read(QSPI_EVENTS_READY) != 0u;
}

static inline int poet_qspi_is_on(void)
{
    return poet_read(QSPI_ENABLE) == QSPI_ENABLE_ENABLED;
}

/* Gives up what is under way: nothing of it reaches RAM any more, and no interrupt comes of it. */
void poet_qspi_stop(void);

#endif
