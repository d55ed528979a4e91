/* SPDX-License-Identifier: Apache-2.0 */
/* Macronix MX25R6435F (data sheet revision 1.6): 8 MB of flash with 4,096-byte erase sectors, in which writing only
 * clears bits. */
#ifndef POET_FLASH_H
#define POET_FLASH_H

/* Statuses of this family. */
enum poet_flash_status {
    POET_FLASH_ERROR_QSPI = -80,             /* the QSPI peripheral does not become active */
    POET_FLASH_ERROR_NONE = -81,             /* no MX25R6435F answers, or it stays busy */
    POET_FLASH_ERROR_PROTECTED = -82,        /* a part of the flash is write-protected */
    POET_FLASH_ERROR_MODE = -83,             /* the flash does not take its settings */
    POET_FLASH_ERROR_RANGE = -84,            /* beyond the flash's end */
    POET_FLASH_ERROR_READ = -85,             /* reading flash does not come to its end */
    POET_FLASH_ERROR_ERASE = -86,            /* erasing flash does not come to its end */
    POET_FLASH_ERROR_PROGRAM = -87,          /* writing flash does not come to its end */
    POET_FLASH_ERROR_NOT_ERASED = -88,       /* the flash could not erase a sector */
    POET_FLASH_ERROR_NOT_PROGRAMMED = -89,   /* the flash could not write a page */
};

#endif
