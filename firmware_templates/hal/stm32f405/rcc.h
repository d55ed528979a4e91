/* SPDX-License-Identifier: Apache-2.0 */
/* RCC (RM0090, chapter 7): clocks and reset cause. */
#ifndef POET_RCC_H
#define POET_RCC_H

#include "core.h"

#include <stdint.h>

#define RCC_CR 0x40023800u
#define RCC_PLLCFGR 0x40023804u
#define RCC_CFGR 0x40023808u
#define RCC_APB2RSTR 0x40023824u
#define RCC_AHB1ENR 0x40023830u
#define RCC_AHB1ENR_GPIO(port) (1u << (port))
#define RCC_APB2ENR 0x40023844u
#define RCC_APB2_USART1 (1u << 4)
#define RCC_APB2_SPI1 (1u << 12)
#define RCC_CSR 0x40023874u
#define RCC_CSR_RMVF (1u << 24)

/* Starts the 168 MHz clock. *apb2_hz is the resulting frequency of APB2 peripherals: 84 MHz, or 16 MHz from the
 * internal oscillator if this fails with a status of wait.h. */
int poet_clock_start(uint32_t *apb2_hz);

/* Enables a peripheral's clock, by a bit of a clock enable register. */
static inline void poet_clock_enable(uint32_t address, uint32_t bit)
{
    poet_write(address, poet_read(address) | bit);
    (void)poet_read(address); /* the peripheral cannot be accessed earlier: RM0090, 7.2.12 */
}

#endif
