/* SPDX-License-Identifier: Apache-2.0 */
/* SPIM2 with EasyDMA (nRF52840 Product Specification 1.7, section 6.25). Not SPIM3: its erratum 198
 * corrupts transmitted data when the processor uses the same RAM. */
#include "spi.h"

#include "gpio.h"
#include "hal_pins.h"
#include "poet_memory.h"
#include "wait.h"

#include <stddef.h>

#define SPIM_TASKS_START 0x40023010u
#define SPIM_TASKS_STOP 0x40023014u
#define SPIM_EVENTS_END 0x40023118u
#define SPIM_ENABLE 0x40023500u
#define SPIM_ENABLE_DISABLED 0u
#define SPIM_ENABLE_ENABLED 7u
#define SPIM_PSEL_SCK 0x40023508u
#define SPIM_PSEL_MOSI 0x4002350cu
#define SPIM_PSEL_MISO 0x40023510u
#define SPIM_FREQUENCY 0x40023524u
#define SPIM_RXD_PTR 0x40023534u
#define SPIM_RXD_MAXCNT 0x40023538u
#define SPIM_TXD_PTR 0x40023544u
#define SPIM_TXD_MAXCNT 0x40023548u
#define SPIM_CONFIG 0x40023554u
#define SPIM_CONFIG_MODE0_MSB_FIRST 0u
#define SPIM_ORC 0x400235c0u
#define SPIM_MAXCNT_MAXIMUM 0xffffu

void poet_hal_spi_init(void)
{
    poet_write(SPIM_ENABLE, SPIM_ENABLE_DISABLED);
    poet_gpio_output_high(POET_PIN_SD_SELECT, 0u);
    poet_gpio_output_high(POET_PIN_SD_MOSI, GPIO_CNF_HIGH_DRIVE);
    poet_gpio_output_high(POET_PIN_SD_CLOCK, GPIO_CNF_HIGH_DRIVE);
    poet_gpio_write(POET_PIN_SD_CLOCK, 0); /* where mode 0 leaves it between transfers */
    poet_write(GPIO_PIN_CNF(POET_PIN_SD_MISO), GPIO_CNF_INPUT_PULLUP);
    poet_write(SPIM_PSEL_SCK, POET_PIN_SD_CLOCK);
    poet_write(SPIM_PSEL_MOSI, POET_PIN_SD_MOSI);
    poet_write(SPIM_PSEL_MISO, POET_PIN_SD_MISO);
    poet_write(SPIM_CONFIG, SPIM_CONFIG_MODE0_MSB_FIRST);
    poet_write(SPIM_ORC, 0xffu); /* sent when nothing else is */
    poet_write(SPIM_ENABLE, SPIM_ENABLE_ENABLED);
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
    poet_write(SPIM_FREQUENCY, code);
}

void poet_hal_spi_select(int selected)
{
    poet_gpio_write(POET_PIN_SD_SELECT, !selected);
}

int poet_hal_spi_ok(void)
{
    return poet_read(SPIM_ENABLE) == SPIM_ENABLE_ENABLED;
}

/* Waits awake: asleep the cycle counter would stop, and storage would seem to take no time. */
static void transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    poet_write(SPIM_TXD_PTR, poet_dma_address(tx));
    poet_write(SPIM_TXD_MAXCNT, tx != NULL ? bytes : 0u);
    poet_write(SPIM_RXD_PTR, poet_dma_address(rx));
    poet_write(SPIM_RXD_MAXCNT, rx != NULL ? bytes : 0u);
    poet_write(SPIM_EVENTS_END, 0u);
    poet_barrier();
    poet_write(SPIM_TASKS_START, 1u);
    if (!poet_wait(SPIM_EVENTS_END, bytes * POET_POLLS_PER_BYTE)) {
        poet_write(SPIM_TASKS_STOP, 1u); /* it may not write to RAM later on */
        poet_write(SPIM_ENABLE, SPIM_ENABLE_DISABLED);
    }
    poet_barrier();
}

void poet_hal_spi_transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    while (bytes > 0u) {
        const uint32_t part = bytes < SPIM_MAXCNT_MAXIMUM ? bytes : SPIM_MAXCNT_MAXIMUM;
        if (poet_hal_spi_ok()) {
            transfer(tx, rx, part);
        }
        if (!poet_hal_spi_ok() && rx != NULL) {
            memset(rx, 0xff, part);
        }
        tx = tx != NULL ? tx + part : NULL;
        rx = rx != NULL ? rx + part : NULL;
        bytes -= part;
    }
}
