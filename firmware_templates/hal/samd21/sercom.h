/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM (SAM D21 data sheet, DS40001882, chapters 25 to 27): common part of its modes. */
#ifndef POET_SERCOM_H
#define POET_SERCOM_H

#include "clock.h"
#include "core.h"
#include "wait.h"

#include <stdint.h>

#define SERCOM(i) (0x42000800u + 0x400u * (i))
#define SERCOM_CTRLA(i) (SERCOM(i) + 0x00u)
#define SERCOM_CTRLA_SWRST (1u << 0)
#define SERCOM_CTRLA_ENABLE (1u << 1)
#define SERCOM_CTRLA_MODE_USART (1u << 2)
#define SERCOM_CTRLA_MODE_SPI_MASTER (3u << 2)
#define SERCOM_CTRLB(i) (SERCOM(i) + 0x04u)
#define SERCOM_CTRLB_TXEN (1u << 16)
#define SERCOM_CTRLB_RXEN (1u << 17)
#define SERCOM_BAUD(i) (SERCOM(i) + 0x0cu)
#define SERCOM_INTENSET(i) (SERCOM(i) + 0x16u)
#define SERCOM_INTERRUPT(i) (9u + (i))
#define SERCOM_INTFLAG(i) (SERCOM(i) + 0x18u)
#define SERCOM_INTFLAG_DRE (1u << 0)
#define SERCOM_INTFLAG_RXC (1u << 2)
#define SERCOM_SYNCBUSY(i) (SERCOM(i) + 0x1cu)
#define SERCOM_SYNCBUSY_SWRST (1u << 0)
#define SERCOM_SYNCBUSY_ENABLE (1u << 1)
#define SERCOM_DATA(i) (SERCOM(i) + 0x28u)

/* Connects a SERCOM to its clock and resets it. Returns whether it succeeded. */
static inline int poet_sercom_reset(uint32_t i)
{
    if (!poet_clock_sercom(i)) {
        return 0;
    }
    poet_write(SERCOM_CTRLA(i), SERCOM_CTRLA_SWRST);
    return poet_wait(SERCOM_SYNCBUSY(i), SERCOM_SYNCBUSY_SWRST, 0u, POET_POLLS);
}

static inline int poet_sercom_is_on(uint32_t i)
{
    return (poet_read(SERCOM_CTRLA(i)) & SERCOM_CTRLA_ENABLE) != 0u;
}

/* Disables the SERCOM. A timeout is ignored: it reads as disabled at once. */
static inline int poet_sercom_disable(uint32_t i)
{
    poet_write(SERCOM_CTRLA(i), poet_read(SERCOM_CTRLA(i)) & ~SERCOM_CTRLA_ENABLE);
    return poet_wait(SERCOM_SYNCBUSY(i), SERCOM_SYNCBUSY_ENABLE, 0u, POET_POLLS);
}

/* Enables the SERCOM, or leaves it disabled after a timeout. */
static inline void poet_sercom_enable(uint32_t i)
{
    poet_write(SERCOM_CTRLA(i), poet_read(SERCOM_CTRLA(i)) | SERCOM_CTRLA_ENABLE);
    if (!poet_wait(SERCOM_SYNCBUSY(i), SERCOM_SYNCBUSY_ENABLE, 0u, POET_POLLS)) {
        (void)poet_sercom_disable(i);
    }
}

#endif
