/* SPDX-License-Identifier: Apache-2.0 */
/* PORT (SAM D21 data sheet, DS40001882, chapter 23): pins, numbered 32 * port + number. */
#ifndef POET_PORT_H
#define POET_PORT_H

#include "core.h"

#include <stdint.h>

#define PORT_GROUP(pin) (0x41004400u + 0x80u * ((pin) / 32u))
#define PORT_DIRSET(pin) (PORT_GROUP(pin) + 0x08u)
#define PORT_OUTCLR(pin) (PORT_GROUP(pin) + 0x14u)
#define PORT_OUTSET(pin) (PORT_GROUP(pin) + 0x18u)
#define PORT_PMUX(pin) (PORT_GROUP(pin) + 0x30u + (pin) % 32u / 2u)
#define PORT_PINCFG(pin) (PORT_GROUP(pin) + 0x40u + (pin) % 32u)
#define PORT_PINCFG_PMUXEN 0x01u
#define PORT_PINCFG_INEN 0x02u
#define PORT_PINCFG_PULLEN 0x04u
#define PORT_PINCFG_DRVSTR 0x40u

enum poet_port_function {
    POET_PORT_C = 2,
    POET_PORT_D = 3,
};

static inline void poet_port_write(uint32_t pin, int high)
{
    poet_write(high ? PORT_OUTSET(pin) : PORT_OUTCLR(pin), 1u << pin % 32u);
}

/* Makes the pin an output, initially high. */
static inline void poet_port_output_high(uint32_t pin)
{
    poet_port_write(pin, 1);
    poet_write(PORT_DIRSET(pin), 1u << pin % 32u);
}

/* Connects the pin to a peripheral. */
static inline void poet_port_give(uint32_t pin, enum poet_port_function function, uint32_t config)
{
    const uint32_t shift = 4u * (pin % 2u);
    const uint32_t others = poet_read8(PORT_PMUX(pin)) & ~(0xfu << shift);
    poet_write8(PORT_PMUX(pin), (uint8_t)(others | (uint32_t)function << shift));
    poet_write8(PORT_PINCFG(pin), (uint8_t)(config | PORT_PINCFG_PMUXEN));
}

#endif
