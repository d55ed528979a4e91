/* SPDX-License-Identifier: Apache-2.0 */
/* GPIO (RM0090, chapter 8): pins, numbered 16 * port + number. */
#ifndef POET_GPIO_H
#define POET_GPIO_H

#include "core.h"
#include "rcc.h"

#include <stdint.h>

#define GPIO_PORT(pin) (0x40020000u + 0x400u * ((pin) / 16u))
#define GPIO_MODER(pin) (GPIO_PORT(pin) + 0x00u)
#define GPIO_MODER_OUTPUT 1u
#define GPIO_MODER_PERIPHERAL 2u
#define GPIO_OSPEEDR(pin) (GPIO_PORT(pin) + 0x08u)
#define GPIO_OSPEEDR_FAST 2u /* up to 50 MHz */
#define GPIO_PUPDR(pin) (GPIO_PORT(pin) + 0x0cu)
#define GPIO_PUPDR_UP 1u
#define GPIO_BSRR(pin) (GPIO_PORT(pin) + 0x18u)
#define GPIO_AFR(pin) (GPIO_PORT(pin) + 0x20u + 4u * ((pin) % 16u / 8u))

enum poet_gpio_function {
    POET_GPIO_SPI1 = 5,
    POET_GPIO_USART1 = 7,
};

/* Sets a pin's field of `width` bits in a register. */
static inline void poet_gpio_set(uint32_t address, uint32_t index, uint32_t width, uint32_t value)
{
    const uint32_t shift = width * index;
    const uint32_t others = poet_read(address) & ~(((1u << width) - 1u) << shift);
    poet_write(address, others | value << shift);
}

static inline void poet_gpio_write(uint32_t pin, int high)
{
    poet_write(GPIO_BSRR(pin), 1u << (pin % 16u + (high ? 0u : 16u)));
}

/* Makes the pin an output, initially high. */
static inline void poet_gpio_output_high(uint32_t pin)
{
    poet_clock_enable(RCC_AHB1ENR, RCC_AHB1ENR_GPIO(pin / 16u));
    poet_gpio_write(pin, 1);
    poet_gpio_set(GPIO_MODER(pin), pin % 16u, 2u, GPIO_MODER_OUTPUT);
}

/* Connects the pin to a peripheral; undriven pins are pulled up. */
static inline void poet_gpio_give(uint32_t pin, enum poet_gpio_function function)
{
    poet_clock_enable(RCC_AHB1ENR, RCC_AHB1ENR_GPIO(pin / 16u));
    poet_gpio_set(GPIO_OSPEEDR(pin), pin % 16u, 2u, GPIO_OSPEEDR_FAST);
    poet_gpio_set(GPIO_PUPDR(pin), pin % 16u, 2u, GPIO_PUPDR_UP);
    poet_gpio_set(GPIO_AFR(pin), pin % 8u, 4u, (uint32_t)function);
    poet_gpio_set(GPIO_MODER(pin), pin % 16u, 2u, GPIO_MODER_PERIPHERAL);
}

#endif
