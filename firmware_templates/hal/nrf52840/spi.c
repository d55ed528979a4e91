/* SPDX-License-Identifier: Apache-2.0 */
/* SPIM2 with EasyDMA (nRF52840 Product Specification 1.7, section 6.25). Not SPIM3: its erratum 198
 * corrupts transmitted data when the processor uses the same RAM. */
#include "spi.h"

#include "gpio.h"
#include "hal_pins.h"

#include <stddef.h>

#define SPIM_TASKS_START REGISTER(0x40023010u)
#define SPIM_EVENTS_END REGISTER(0x40023118u)
#define SPIM_ENABLE REGISTER(0x40023500u)
#define SPIM_ENABLE_DISABLED 0u
#define SPIM_ENABLE_ENABLED 7u
#define SPIM_PSEL_SCK REGISTER(0x40023508u)
#define SPIM_PSEL_MOSI REGISTER(0x4002350cu)
#define SPIM_PSEL_MISO REGISTER(0x40023510u)
#define SPIM_FREQUENCY REGISTER(0x40023524u)
#define SPIM_RXD_PTR REGISTER(0x40023534u)
#define SPIM_RXD_MAXCNT REGISTER(0x40023538u)
#define SPIM_TXD_PTR REGISTER(0x40023544u)
#define SPIM_TXD_MAXCNT REGISTER(0x40023548u)
#define SPIM_CONFIG REGISTER(0x40023554u)
#define SPIM_CONFIG_MODE0_MSB_FIRST 0u
#define SPIM_ORC REGISTER(0x400235c0u)
#define SPIM_MAXCNT_MAXIMUM 0xffffu

void poet_hal_spi_init(void)
{
    SPIM_ENABLE = SPIM_ENABLE_DISABLED;
    poet_gpio_output_high(POET_PIN_SD_SELECT, 0u);
    poet_gpio_output_high(POET_PIN_SD_MOSI, GPIO_CNF_HIGH_DRIVE);
    poet_gpio_output_high(POET_PIN_SD_CLOCK, GPIO_CNF_HIGH_DRIVE);
    poet_gpio_write(POET_PIN_SD_CLOCK, 0); /* where mode 0 leaves it between transfers */
    GPIO_PIN_CNF(POET_PIN_SD_MISO) = GPIO_CNF_INPUT_PULLUP;
    SPIM_PSEL_SCK = POET_PIN_SD_CLOCK;
    SPIM_PSEL_MOSI = POET_PIN_SD_MOSI;
    SPIM_PSEL_MISO = POET_PIN_SD_MISO;
    SPIM_CONFIG = SPIM_CONFIG_MODE0_MSB_FIRST;
    SPIM_ORC = 0xffu; /* sent when nothing else is */
    SPIM_ENABLE = SPIM_ENABLE_ENABLED;
}

void poet_hal_spi_clock(uint32_t hz)
{
    static const struct {
        uint32_t hz;
        uint32_t code;
    } rates[] = {
        {8000000u, 0x80000000u}, {4000000u, 0x40000000u}, {2000000u, 0x20000000u},
        {1000000u, 0x10000000u}, {500000u, 0x08000000u},  {250000u, 0x04000000u},
    };
    uint32_t code = 0x02000000u; /* 125 kHz, the slowest */
    for (uint32_t i = sizeof rates / sizeof rates[0]; i-- > 0u;) {
        if (rates[i].hz <= hz) {
            code = rates[i].code;
        }
    }
    SPIM_FREQUENCY = code;
}

void poet_hal_spi_select(int selected)
{
    poet_gpio_write(POET_PIN_SD_SELECT, !selected);
}

/* Waits awake: asleep the cycle counter would stop, and storage would seem to take no time. */
void poet_hal_spi_transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    while (bytes > 0u) {
        const uint32_t part = bytes < SPIM_MAXCNT_MAXIMUM ? bytes : SPIM_MAXCNT_MAXIMUM;
        SPIM_TXD_PTR = (uint32_t)tx;
        SPIM_TXD_MAXCNT = tx != NULL ? part : 0u;
        SPIM_RXD_PTR = (uint32_t)rx;
        SPIM_RXD_MAXCNT = rx != NULL ? part : 0u;
        SPIM_EVENTS_END = 0u;
        __asm__ volatile("dsb" ::: "memory");
        SPIM_TASKS_START = 1u;
        while (SPIM_EVENTS_END == 0u) {
        }
        __asm__ volatile("dsb" ::: "memory");
        tx = tx != NULL ? tx + part : NULL;
        rx = rx != NULL ? rx + part : NULL;
        bytes -= part;
    }
}
