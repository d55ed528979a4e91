/* SPDX-License-Identifier: Apache-2.0 */
/* The SPI bus with the SD card, which the families that use sd.c implement. Mode 0, most significant bit
 * first. */
#ifndef POET_SPI_H
#define POET_SPI_H

#include <stdint.h>

/* Sets up the bus, or sets it up anew, with the card not selected. */
void poet_hal_spi_init(void);

/* Clock from now on: the fastest the bus has that is not above `hz`. */
void poet_hal_spi_clock(uint32_t hz);

/* Drives the card's chip select: low (selected) or high. */
void poet_hal_spi_select(int selected);

/* Exchanges `bytes` bytes (1 or more). A null `tx` sends 0xff; a null `rx` drops what is received. Both
 * must be in RAM. Returns when the last bit is through; if that does not come in time, the bus is no
 * longer ok, and until it is set up again transfers only receive 0xff. */
void poet_hal_spi_transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes);

/* Whether every transfer since the bus was set up has ended. */
int poet_hal_spi_ok(void);

#endif
