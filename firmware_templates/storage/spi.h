/* SPDX-License-Identifier: Apache-2.0 */
/* SPI bus of the SD card, implemented by families that use sd.c. Mode 0, most significant bit first. */
#ifndef POET_SPI_H
#define POET_SPI_H

#include <stdint.h>

/* Sets up or resets the bus, with the card deselected. An exchange under way is aborted: nothing of it reaches RAM
 * any more, and it causes no interrupt. */
void poet_hal_spi_init(void);

/* Sets the clock: the fastest one supported that does not exceed `hz`. */
void poet_hal_spi_clock(uint32_t hz);

/* Drives the card's chip select: low (selected) or high. */
void poet_hal_spi_select(int selected);

/* Starts an exchange of `bytes` bytes (1 to 512). A null `tx` sends 0xff; a null `rx` drops received bytes; not both
 * are null. They need not be aligned, and must be in memory that the bus can reach: arena and static data are.
 *
 * Returns 1 if it is done with that: every bit is through, or the bus is not ok. Else it returns 0, and there is an
 * interrupt when the last bit is through or the bus is not ok, whose handler takes the end and calls poet_sd_exchanged. A
 * family without interrupts exchanges the bytes before it returns. */
int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes);

/* Of a family with interrupts, in the handler: whether the exchange that was begun has ended. */
int poet_hal_spi_take_end(void);

/* True if no exchange has failed since the bus was set up. */
int poet_hal_spi_ok(void);

#endif
