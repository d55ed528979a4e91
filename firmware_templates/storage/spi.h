/* SPDX-License-Identifier: Apache-2.0 */
/* The SPI bus with the SD card, which the families that use sd.c implement. Mode 0, most significant bit
 * first. */
#ifndef POET_SPI_H
#define POET_SPI_H

#include <stdint.h>

/* Sets up the bus, or sets it up anew, with the card not selected. What was under way is given up: nothing of it
 * reaches RAM any more, and no interrupt comes of it. */
void poet_hal_spi_init(void);

/* Clock from now on: the fastest the bus has that is not above `hz`. */
void poet_hal_spi_clock(uint32_t hz);

/* Drives the card's chip select: low (selected) or high. */
void poet_hal_spi_select(int selected);

/* Begins to exchange `bytes` bytes (1 to 512). A null `tx` sends 0xff; a null `rx` drops what is received; they are
 * not both null, need not be aligned, and must be where the bus can reach them: arena and static data are.
 *
 * Returns 1 if it is done with that: every bit is through, or the bus is not ok. Else it returns 0, and there is an
 * interrupt when the last bit is through or the bus is not ok, whose handler takes the end and calls poet_sd_exchanged. A
 * family without interrupts exchanges the bytes before it returns. */
int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes);

/* Of a family with interrupts, in the handler: whether the exchange that was begun has ended. */
int poet_hal_spi_take_end(void);

/* Whether no exchange since the bus was set up has failed. */
int poet_hal_spi_ok(void);

#endif
