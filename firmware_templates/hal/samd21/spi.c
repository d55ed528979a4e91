/* SPDX-License-Identifier: Apache-2.0 */
/* SERCOM1 as SPI master (SAM D21 data sheet, DS40001882, chapter 27), byte by byte: without DMA. */
#include "spi.h"

#include "hal_pins.h"
#include "poet_memory.h"
#include "port.h"
#include "sercom.h"

#include <stddef.h>

#define BUS 1u /* the SERCOM */
#define SPI_CTRLA_DOPO_PAD_0 (0u << 16) /* data out; the clock is pad 1 */
#define SPI_CTRLA_DIPO_PAD_3 (3u << 20)
#define SPI_HZ 48000000u /* of the SERCOM: without this clock storage is not opened */
#define SPI_BAUD_MAXIMUM 255u
#define SPI_UNDER_WAY 2u /* what fits into the receiver's buffer if nobody empties it */

void poet_hal_spi_init(void)
{
    poet_port_output_high(POET_PIN_SD_SELECT);
    poet_port_give(POET_PIN_SD_MOSI, POET_PORT_C, PORT_PINCFG_DRVSTR);
    poet_port_give(POET_PIN_SD_CLOCK, POET_PORT_C, PORT_PINCFG_DRVSTR);
    poet_port_write(POET_PIN_SD_MISO, 1); /* which way it is pulled */
    poet_port_give(POET_PIN_SD_MISO, POET_PORT_C, PORT_PINCFG_INEN | PORT_PINCFG_PULLEN);
    if (poet_sercom_reset(BUS)) {
        poet_write(SERCOM_CTRLA(BUS),
                   SERCOM_CTRLA_MODE_SPI_MASTER | SPI_CTRLA_DOPO_PAD_0 | SPI_CTRLA_DIPO_PAD_3);
        poet_write(SERCOM_CTRLB(BUS), SERCOM_CTRLB_RXEN);
        poet_sercom_enable(BUS);
    }
}

int poet_hal_spi_ok(void)
{
    return poet_sercom_is_on(BUS);
}

/* BAUD = SPI_HZ / (2 f) - 1: table 25-2, synchronous. It can only be written while the SERCOM is off. */
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

/* Returns how many bytes were received before the bus was switched off, if it was. The next byte is sent
 * while one is received, so that the bus does not rest. */
static uint32_t exchange(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    uint32_t sent = 0u;
    uint32_t received = 0u;
    uint32_t polls = 0u;
    while (received < bytes) {
        const uint32_t flags = poet_read8(SERCOM_INTFLAG(BUS));
        if ((flags & SERCOM_INTFLAG_DRE) != 0u && sent < bytes && sent - received < SPI_UNDER_WAY) {
            poet_write16(SERCOM_DATA(BUS), tx != NULL ? tx[sent] : 0xffu);
            sent++;
            polls = 0u;
        } else if ((flags & SERCOM_INTFLAG_RXC) != 0u) {
            const uint8_t byte = (uint8_t)poet_read16(SERCOM_DATA(BUS));
            if (rx != NULL) {
                rx[received] = byte;
            }
            received++;
        } else if (polls++ == 2u * POET_POLLS_PER_BYTE) { /* since two bytes were under way */
            (void)poet_sercom_disable(BUS);
            break;
        }
    }
    return received;
}

void poet_hal_spi_transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    const uint32_t received = poet_hal_spi_ok() ? exchange(tx, rx, bytes) : 0u;
    if (rx != NULL) {
        memset(rx + received, 0xff, bytes - received);
    }
}
