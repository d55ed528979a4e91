/* SPDX-License-Identifier: Apache-2.0 */
/* GPIO (nRF52840 Product Specification 1.7, section 6.9). Pins are numbered 32 * port + number, as in peripherals'
 * PSEL registers. */
#ifndef POET_GPIO_H
#define POET_GPIO_H

#include "core.h"

#include <stdint.h>

#define GPIO_PORT(pin) (0x50000000u + 0x300u * ((pin) / 32u))
#define GPIO_OUTSET(pin) (GPIO_PORT(pin) + 0x508u)
#define GPIO_OUTCLR(pin) (GPIO_PORT(pin) + 0x50cu)
#define GPIO_PIN_CNF(pin) (GPIO_PORT(pin) + 0x700u + 4u * ((pin) % 32u))
#define GPIO_CNF_OUTPUT 1u
#define GPIO_CNF_INPUT_DISCONNECTED (1u << 1) /* a peripheral drives the pin */
#define GPIO_CNF_INPUT_PULLUP (3u << 2)
#define GPIO_CNF_HIGH_DRIVE (3u << 8)

#define PSEL_DISCONNECTED 0xffffffffu

static inline void poet_gpio_write(uint32_t pin, int high)
{
    if (high) {
        poet_write(GPIO_OUTSET(pin), 1u << pin % 32u);
    } else {
        poet_write(GPIO_OUTCLR(pin), 1u << pin % 32u);
    }
}

/* Makes the pin an output, initially high. */
static inline void poet_gpio_output_high(uint32_t pin, uint32_t drive)
{
    poet_gpio_write(pin, 1);
    poet_write(GPIO_PIN_CNF(pin), GPIO_CNF_OUTPUT | drive);
}

#endif
