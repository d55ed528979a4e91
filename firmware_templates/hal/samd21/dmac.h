/* SPDX-License-Identifier: Apache-2.0 */
/* DMA controller (SAM D21 data sheet, DS40001882, chapter 20): channels that transfer a byte per peripheral request.
 * A channel uses one descriptor; linked descriptors have errata. */
#ifndef POET_DMAC_H
#define POET_DMAC_H

#include "core.h"
#include "wait.h"

#include <stdint.h>

#define POET_DMAC_INTERRUPT 6u

#define PM_AHBMASK 0x40000414u
#define PM_AHBMASK_DMAC (1u << 5)
#define PM_APBBMASK 0x4000041cu
#define PM_APBBMASK_DMAC (1u << 4)

#define DMAC_CTRL 0x41004800u
#define DMAC_CTRL_SWRST (1u << 0)
#define DMAC_CTRL_DMAENABLE (1u << 1)
#define DMAC_CTRL_LEVEL_0 (1u << 8)
#define DMAC_BASEADDR 0x41004834u
#define DMAC_WRBADDR 0x41004838u
/* Registers of the selected channel: */
#define DMAC_CHID 0x4100483fu
#define DMAC_CHCTRLA 0x41004840u
#define DMAC_CHCTRLA_SWRST (1u << 0)
#define DMAC_CHCTRLA_ENABLE (1u << 1)
#define DMAC_CHCTRLB 0x41004844u
#define DMAC_CHCTRLB_TRIGSRC(source) ((source) << 8)
#define DMAC_CHCTRLB_TRIGACT_BEAT (2u << 22)
#define DMAC_CHINTENSET 0x4100484du
#define DMAC_CHINTFLAG 0x4100484eu

/* Peripheral requests that trigger a byte. */
#define POET_DMAC_SERCOM_RECEIVES(i) (1u + 2u * (i))
#define POET_DMAC_SERCOM_SENDS(i) (2u + 2u * (i))

enum poet_dmac_flags {
    POET_DMAC_ERROR = 1, /* bus error */
    POET_DMAC_DONE = 2,
};

/* Descriptor in RAM, 16-byte aligned. An incremented address is given as the address behind the last byte. */
struct poet_dmac_descriptor {
    _Alignas(16) uint16_t control;
    uint16_t count;
    uint32_t source;
    uint32_t target;
    uint32_t next;
};
#define POET_DMAC_VALID (1u << 0)
#define POET_DMAC_SOURCE_ADVANCES (1u << 10)
#define POET_DMAC_TARGET_ADVANCES (1u << 11)

static inline void poet_dmac_stop(void)
{
    poet_write16(DMAC_CTRL, 0u);
    (void)poet_wait(DMAC_CTRL, DMAC_CTRL_DMAENABLE, 0u, POET_POLLS);
}

/* Resets the controller and sets the descriptors, by channel. Returns whether it succeeded. */
static inline int poet_dmac_start(const struct poet_dmac_descriptor *descriptors,
                                  struct poet_dmac_descriptor *under_way)
{
    poet_write(PM_AHBMASK, poet_read(PM_AHBMASK) | PM_AHBMASK_DMAC);
    poet_write(PM_APBBMASK, poet_read(PM_APBBMASK) | PM_APBBMASK_DMAC);
    poet_dmac_stop(); /* a reset requires that it is disabled */
    poet_write16(DMAC_CTRL, DMAC_CTRL_SWRST);
    if (!poet_wait(DMAC_CTRL, DMAC_CTRL_SWRST, 0u, POET_POLLS)) {
        return 0;
    }
    poet_write(DMAC_BASEADDR, poet_dma_address(descriptors));
    poet_write(DMAC_WRBADDR, poet_dma_address(under_way));
    poet_write16(DMAC_CTRL, DMAC_CTRL_DMAENABLE | DMAC_CTRL_LEVEL_0);
    return 1;
}

/* Enables a channel, with an interrupt on these flags. */
static inline void poet_dmac_connect(uint32_t channel, uint32_t trigger, uint32_t flags)
{
    poet_write8(DMAC_CHID, (uint8_t)channel);
    poet_write(DMAC_CHCTRLB, DMAC_CHCTRLB_TRIGSRC(trigger) | DMAC_CHCTRLB_TRIGACT_BEAT);
    poet_write8(DMAC_CHINTENSET, (uint8_t)flags);
}

static inline void poet_dmac_describe(struct poet_dmac_descriptor *descriptor, uint32_t source, uint32_t target,
                                      uint32_t bytes, uint32_t advances)
{
    descriptor->control = (uint16_t)(POET_DMAC_VALID | advances);
    descriptor->count = (uint16_t)bytes;
    descriptor->source = source + ((advances & POET_DMAC_SOURCE_ADVANCES) != 0u ? bytes : 0u);
    descriptor->target = target + ((advances & POET_DMAC_TARGET_ADVANCES) != 0u ? bytes : 0u);
    descriptor->next = 0u;
}

/* Interrupts are disabled, since a handler would select another channel between the two writes. */
static inline void poet_dmac_begin(uint32_t channel)
{
    const uint32_t primask = poet_interrupts_off();
    poet_write8(DMAC_CHID, (uint8_t)channel);
    poet_write8(DMAC_CHCTRLA, DMAC_CHCTRLA_ENABLE);
    poet_interrupts_restore(primask);
}

/* Returns the flags that are set, and clears them. */
static inline uint32_t poet_dmac_take_flags(uint32_t channel)
{
    poet_write8(DMAC_CHID, (uint8_t)channel);
    const uint32_t flags = poet_read8(DMAC_CHINTFLAG);
    poet_write8(DMAC_CHINTFLAG, (uint8_t)flags);
    return flags;
}

#endif
