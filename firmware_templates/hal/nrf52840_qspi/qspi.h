/* SPDX-License-Identifier: Apache-2.0 */
/* QSPI peripheral (nRF52840 Product Specification 1.7, section 6.19): 24-bit flash addresses, four data lines at 16
 * MHz. One operation is under way at a time. */
#ifndef POET_QSPI_H
#define POET_QSPI_H

#include "wait.h"

#include <stdint.h>

#define QSPI_EVENTS_READY 0x40029100u
#define QSPI_ENABLE 0x40029500u
#define QSPI_ENABLE_DISABLED 0u
#define QSPI_ENABLE_ENABLED 1u

/* Longest read: the register counts to 0x3ffff bytes. */
#define POET_QSPI_LONGEST 0x20000u

/* Options of an instruction to the flash. */
enum poet_qspi_flags {
    POET_QSPI_PLAIN = 0,
    POET_QSPI_WAIT = 1 << 14,  /* wait until the flash is not busy before */
    POET_QSPI_WRITE = 1 << 15, /* send write enable before */
};

/* Sets up or resets the peripheral. Returns whether it becomes active. */
int poet_qspi_start(void);

/* Sends an instruction with `bytes` (up to 4) of *data, which receives the answer. Returns whether it ended. Only
 * before poet_qspi_listen. */
int poet_qspi_instruct(uint32_t opcode, uint32_t bytes, enum poet_qspi_flags flags, uint32_t *data);

/* From now on, the end of an operation is an interrupt, whose handler (QSPI_IRQHandler) is the caller's. It takes the
 * end; returns whether an operation ended, rather than a stray interrupt. */
void poet_qspi_listen(void);
int poet_qspi_take_end(void);

/* Start reading, writing into erased flash, and erasing 4,096 bytes. `ram`, `address` and `bytes` are multiples of 4.
 * At the end of an erase operation the flash is still erasing, and after writing the last page may be in progress:
 * the caller then waits for the flash, by an instruction whose answer poet_qspi_answer returns. */
void poet_qspi_read(uint32_t address, uint8_t *ram, uint32_t bytes);
void poet_qspi_write(uint32_t address, const uint8_t *ram, uint32_t bytes);
void poet_qspi_erase(uint32_t address);
void poet_qspi_await(uint32_t opcode);
uint32_t poet_qspi_answer(void);

/* True if there is an end to take; true if the peripheral is on: it is switched off after stray interrupts. */
static inline int poet_qspi_is_ready(void)
{
    return poet_read(QSPI_EVENTS_READY) != 0u;
}

static inline int poet_qspi_is_on(void)
{
    return poet_read(QSPI_ENABLE) == QSPI_ENABLE_ENABLED;
}

/* Aborts the operation under way: nothing of it reaches RAM any more, and it causes no interrupt. */
void poet_qspi_stop(void);

#endif
