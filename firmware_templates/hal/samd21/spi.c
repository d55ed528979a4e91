/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM1 as SPI master (SAM D21 data sheet, DS40001882, chapter 27), fed by two channels of the DMA controller. */
#include "spi.h"

#include "dmac.h"
#include "hal_pins.h"
#include "nvic.h"
#include "port.h"
#include "sercom.h"

#include <stddef.h>

#define BUS 1u /* number of the SERCOM */
#define SPI_CTRLA_DOPO_PAD_0 (0u << 16) /* data out; the clock is pad 1 */
#define SPI_CTRLA_DIPO_PAD_3 (3u << 20)
#define SPI_HZ 48000000u /* clock of the SERCOM; without it, the storage cannot be opened */
#define SPI_BAUD_MAXIMUM 255u
#define STRAYS_MAXIMUM 1000u

/* The channel with the lower number has priority: the receiver's buffer must not overflow. */
enum channel { RECEIVER, SENDER, CHANNELS };

static struct poet_dmac_descriptor descriptors[CHANNELS];
static struct poet_dmac_descriptor under_way[CHANNELS]; /* write-back memory of the controller */
static uint8_t ones = 0xffu; /* sent if there is no data */
static uint8_t dropped;
static int is_under_way;
static uint32_t strays; /* interrupts without a flag since an exchange began */

/* Afterwards DMA writes nothing to RAM, and no interrupt comes. */
static void stop(void)
{
    poet_interrupt_disable(POET_DMAC_INTERRUPT);
    is_under_way = 0;
    poet_dmac_stop();
}

static void switch_off(void)
{
    stop();
    (void)poet_sercom_disable(BUS);
}

void poet_hal_spi_init(void)
{
    stop();
    poet_port_output_high(POET_PIN_SD_SELECT);
    poet_port_give(POET_PIN_SD_MOSI, POET_PORT_C, PORT_PINCFG_DRVSTR);
    poet_port_give(POET_PIN_SD_CLOCK, POET_PORT_C, PORT_PINCFG_DRVSTR);
    poet_port_write(POET_PIN_SD_MISO, 1); /* direction of the pull resistor: up */
    poet_port_give(POET_PIN_SD_MISO, POET_PORT_C, PORT_PINCFG_INEN | PORT_PINCFG_PULLEN);
    if (poet_sercom_reset(BUS) && poet_dmac_start(descriptors, under_way)) {
        poet_dmac_connect(RECEIVER, POET_DMAC_SERCOM_RECEIVES(BUS), POET_DMAC_ERROR | POET_DMAC_DONE);
        poet_dmac_connect(SENDER, POET_DMAC_SERCOM_SENDS(BUS), POET_DMAC_ERROR);
        poet_write(SERCOM_CTRLA(BUS),
                   SERCOM_CTRLA_MODE_SPI_MASTER | SPI_CTRLA_DOPO_PAD_0 | SPI_CTRLA_DIPO_PAD_3);
        poet_write(SERCOM_CTRLB(BUS), SERCOM_CTRLB_RXEN);
        poet_sercom_enable(BUS);
        strays = 0u;
        poet_interrupt_enable(POET_DMAC_INTERRUPT);
    }
}

int poet_hal_spi_ok(void)
{
    return poet_sercom_is_on(BUS);
}

/* BAUD = SPI_HZ / (2 f) - 1: table 25-2, synchronous. It can be written only while the SERCOM is disabled. */
void poet_hal_spi_clock(uint32_t hz)
{
    const uint32_t half_periods = (SPI_HZ + 2u * hz - 1u) / (2u * hz);
    const uint32_t baud = half_periods - 1u < SPI_BAUD_MAXIMUM ? half_periods - 1u : SPI_BAUD_MAXIMUM;
    if (poet_hal_spi_ok() && poet_sercom_disable(BUS)) {
        poet_write8(SERCOM_BAUD(BUS), (uint8_t)baud);
        poet_sercom_enable(BUS);
    }
}

void poet_hal_spi_select(int selected)
{
    poet_port_write(POET_PIN_SD_SELECT, !selected);
}

/* A source or target without increment is a single byte. */
int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    const uint32_t data = SERCOM_DATA(BUS);
    const uint32_t target = poet_dma_address(rx != NULL ? rx : &dropped);
    const uint32_t source = poet_dma_address(tx != NULL ? tx : &ones);
    if (!poet_hal_spi_ok()) {
        return 1;
    }
    poet_dmac_describe(&descriptors[RECEIVER], data, target, bytes, rx != NULL ? POET_DMAC_TARGET_ADVANCES : 0u);
    poet_dmac_describe(&descriptors[SENDER], source, data, bytes, tx != NULL ? POET_DMAC_SOURCE_ADVANCES : 0u);
    strays = 0u;
    is_under_way = 1;
    poet_barrier();
    poet_dmac_begin(RECEIVER);
    poet_dmac_begin(SENDER);
    return 0;
}

int poet_hal_spi_take_end(void)
{
    const uint32_t flags = poet_dmac_take_flags(RECEIVER) | (poet_dmac_take_flags(SENDER) & POET_DMAC_ERROR);
    const int ended = is_under_way && flags != 0u;
    if (ended) {
        is_under_way = 0;
    }
    if (ended ? (flags & POET_DMAC_ERROR) != 0u : ++strays == STRAYS_MAXIMUM) {
        switch_off();
    }
    return ended;
}
