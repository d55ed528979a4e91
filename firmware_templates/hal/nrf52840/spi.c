/* SPDX-License-Identifier: Apache-2.0 */
/* SPIM0 with EasyDMA (nRF52840 Product Specification 1.7, section 6.25). Not SPIM3: its erratum 198 corrupts transmitted
 * data when the processor uses the same RAM. */
#include "for_size.h"

#include "spi.h"

#include "gpio.h"
#include "hal_pins.h"
#include "nvic.h"
#include "wait.h"

#include <stddef.h>

#define SPIM_TASKS_START 0x40003010u
#define SPIM_TASKS_STOP 0x40003014u
#define SPIM_EVENTS_STOPPED 0x40003104u
#define SPIM_EVENTS_END 0x40003118u
#define SPIM_INTENSET 0x40003304u
#define SPIM_INTENSET_END (1u << 6)
#define SPIM_ENABLE 0x40003500u
#define SPIM_ENABLE_DISABLED 0u
#define SPIM_ENABLE_ENABLED 7u
#define SPIM_PSEL_SCK 0x40003508u
#define SPIM_PSEL_MOSI 0x4000350cu
#define SPIM_PSEL_MISO 0x40003510u
#define SPIM_FREQUENCY 0x40003524u
#define SPIM_FREQUENCY_8_MHZ 0x80000000u
#define SPIM_FREQUENCY_125_KHZ 0x02000000u
#define SPIM_RXD_PTR 0x40003534u
#define SPIM_RXD_MAXCNT 0x40003538u
#define SPIM_TXD_PTR 0x40003544u
#define SPIM_TXD_MAXCNT 0x40003548u
#define SPIM_CONFIG 0x40003554u
#define SPIM_CONFIG_MODE0_MSB_FIRST 0u
#define SPIM_ORC 0x400035c0u

#define SPIM_INTERRUPT 3u
#define STRAYS_MAXIMUM 1000u

static int under_way;
static uint32_t strays; /* interrupts without an event since an exchange began */

int poet_hal_spi_ok(void)
{
    return poet_read(SPIM_ENABLE) == SPIM_ENABLE_ENABLED;
}

/* Afterwards DMA writes nothing to RAM, and no interrupt comes. */
static void switch_off(void)
{
    poet_interrupt_disable(SPIM_INTERRUPT);
    under_way = 0;
    if (poet_hal_spi_ok()) {
        poet_write(SPIM_EVENTS_STOPPED, 0u);
        poet_write(SPIM_TASKS_STOP, 1u);
        (void)poet_wait(SPIM_EVENTS_STOPPED, POET_POLLS);
    }
    poet_write(SPIM_ENABLE, SPIM_ENABLE_DISABLED);
}

void poet_hal_spi_init(void)
{
    switch_off();
    poet_gpio_output_high(POET_PIN_SD_SELECT, 0u);
    poet_gpio_output_high(POET_PIN_SD_MOSI, GPIO_CNF_HIGH_DRIVE);
    poet_gpio_output_high(POET_PIN_SD_CLOCK, GPIO_CNF_HIGH_DRIVE);
    poet_gpio_write(POET_PIN_SD_CLOCK, 0); /* idle level of mode 0 */
    poet_write(GPIO_PIN_CNF(POET_PIN_SD_MISO), GPIO_CNF_INPUT_PULLUP);
    poet_write(SPIM_PSEL_SCK, POET_PIN_SD_CLOCK);
    poet_write(SPIM_PSEL_MOSI, POET_PIN_SD_MOSI);
    poet_write(SPIM_PSEL_MISO, POET_PIN_SD_MISO);
    poet_write(SPIM_CONFIG, SPIM_CONFIG_MODE0_MSB_FIRST);
    poet_write(SPIM_ORC, 0xffu); /* sent if there is no data */
    strays = 0u;
    poet_write(SPIM_EVENTS_END, 0u);
    poet_write(SPIM_INTENSET, SPIM_INTENSET_END);
    poet_write(SPIM_ENABLE, SPIM_ENABLE_ENABLED);
    poet_interrupt_enable(SPIM_INTERRUPT);
}

/* Register codes halve as rates do. */
void poet_hal_spi_clock(uint32_t hz)
{
    uint32_t code = SPIM_FREQUENCY_8_MHZ;
    for (uint32_t rate = 8000000u; rate > hz && code > SPIM_FREQUENCY_125_KHZ; rate /= 2u) {
        code /= 2u;
    }
    poet_write(SPIM_FREQUENCY, code);
}

void poet_hal_spi_select(int selected)
{
    poet_gpio_write(POET_PIN_SD_SELECT, !selected);
}

int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    if (!poet_hal_spi_ok()) {
        return 1;
    }
    poet_write(SPIM_TXD_PTR, poet_dma_address(tx));
    poet_write(SPIM_TXD_MAXCNT, tx != NULL ? bytes : 0u);
    poet_write(SPIM_RXD_PTR, poet_dma_address(rx));
    poet_write(SPIM_RXD_MAXCNT, rx != NULL ? bytes : 0u);
    strays = 0u;
    under_way = 1;
    poet_barrier();
    poet_write(SPIM_TASKS_START, 1u);
    return 0;
}

/* The event requests the interrupt until clearing it has reached the peripheral: hence the read. */
int poet_hal_spi_take_end(void)
{
    const int ended = poet_read(SPIM_EVENTS_END) != 0u;
    poet_write(SPIM_EVENTS_END, 0u);
    (void)poet_read(SPIM_EVENTS_END);
    poet_barrier();
    if (ended && under_way) {
        under_way = 0;
        return 1;
    }
    if (++strays == STRAYS_MAXIMUM) {
        switch_off();
    }
    return 0;
}
