/* SPDX-License-Identifier: Apache-2.0 */
/* The SPI bus as calls out of the library: what is at the other end is the test's. */
#include "spi.h"

#include <stddef.h>

uint8_t (*test_spi_exchange)(uint8_t byte);
void (*test_spi_select)(int selected);
void (*test_spi_clock)(uint32_t hz);
int test_spi_ok;

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

void poet_hal_spi_transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        const uint8_t received = test_spi_exchange(tx != NULL ? tx[i] : 0xffu);
        if (rx != NULL) {
            rx[i] = received;
        }
    }
}
