/* SPDX-License-Identifier: Apache-2.0 */
/* SD card in SPI mode (SD Specifications Part 1, Physical Layer Simplified Specification, chapter 7): SDSC and
 * SDHC/SDXC, blocks of 512 bytes, commands and data with CRC. All waits are bounded; a failed operation is attempted
 * three times in all, each time with a newly initialised card.
 *
 * Each function returns 0 or a negative enum poet_sd_status, that of the last attempt.
 */
#ifndef POET_SD_H
#define POET_SD_H

#include <stdint.h>

#define POET_SD_BLOCK_BYTES 512u

enum poet_sd_status {
    POET_SD_OK = 0,
    POET_SD_ERROR_NO_CARD = -16,   /* nothing answers as a card does after reset */
    POET_SD_ERROR_VOLTAGE = -17,   /* the card does not run at 2.7-3.6 V */
    POET_SD_ERROR_NOT_READY = -18, /* initialisation does not come to its end */
    POET_SD_ERROR_COMMAND = -19,   /* the card refused a command */
    POET_SD_ERROR_TIMEOUT = -20,   /* no data came from the card */
    POET_SD_ERROR_READ = -21,      /* the card reported an error in place of data */
    POET_SD_ERROR_WRITE = -22,     /* the card did not accept data */
    POET_SD_ERROR_RANGE = -23,     /* beyond the card's end, or what its addressing can express */
    POET_SD_ERROR_SIZE = -24,      /* the card does not state its size in a known way */
    POET_SD_ERROR_BUS = -25,       /* the bus's controller did not end a transfer */
    POET_SD_ERROR_CRC = -26,       /* data was damaged on its way from the card, or to it */
    POET_SD_ERROR_BUSY = -27,      /* the card is busy for too long, or its data line is held low */
    POET_SD_ERROR_PROTECTED = -28, /* the card is write-protected */
};

/* Initialises the card at up to 400 kHz, then raises the clock to 8 MHz. No transfer may be under way. Call it again
 * to recover from an error or a changed card. */
int poet_sd_open(void);

/* Reads the open card's size in blocks. No transfer may be under way. */
int poet_sd_blocks(uint32_t *blocks);

/* Starts a transfer of `count` (1 or more) blocks, whose RAM belongs to the transfer until poet_sd_wait. The plan's
 * POET_TRANSFERS, or one, may be under way; they are completed in order. */
int poet_sd_read_begin(uint32_t block, uint8_t *ram, uint32_t count);
int poet_sd_write_begin(uint32_t block, const uint8_t *ram, uint32_t count);

/* Continues after the end of an exchange on the bus; called once for each, from its interrupt. */
void poet_sd_exchanged(void);

/* Waits for the oldest transfer under way and returns its status; 0 if none is under way. After an error the content of
 * RAM or card is undefined. */
int poet_sd_wait(void);

#endif
