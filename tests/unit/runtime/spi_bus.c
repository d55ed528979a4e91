/* SPDX-License-Identifier: Apache-2.0 */
/* The SPI bus as calls out of the library: what is at the other end is the test's. */
#include "spi.h"

void (*test_spi_exchange)(const uint8_t *tx, uint8_t *rx, uint32_t bytes);
void (*test_spi_select)(int selected);
void (*test_spi_clock)(uint32_t hz);
int test_spi_ok;
int test_spi_fails; /* how often it is not ok again */

void poet_hal_spi_init(void)
{
    test_spi_ok = 1;
    test_spi_select(0);
}

void poet_hal_spi_clock(uint32_t hz)
{
    test_spi_clock(hz);
}

int poet_hal_spi_ok(void)
{
    return test_spi_ok;
}

void poet_hal_spi_select(int selected)
{
    test_spi_select(selected);
}

int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    if (test_spi_fails > 0) {
        test_spi_fails--;
        test_spi_ok = 0;
        return 1;
    }
    test_spi_exchange(tx, rx, bytes);
    return 1;
}
