/* SPDX-License-Identifier: Apache-2.0 */
/* SPI bus of the SD card: the PL022 of QEMU's lm3s6965evb, which exchanges each byte at once. */
#include "spi.h"

#include "registers.h"

#include <stddef.h>

#define RCGC1 REGISTER(0x400fe104u)
#define RCGC1_SSI0 (1u << 4)
#define RCGC2 REGISTER(0x400fe108u)
#define RCGC2_PORTS_C_D (3u << 2)
#define PORT_C 0x40006000u
#define PORT_D 0x40007000u
#define GPIO_DATA(port, pin) REGISTER((port) + (4u << (pin)))
#define GPIO_DIRECTION(port) REGISTER((port) + 0x400u)
#define GPIO_ENABLE(port) REGISTER((port) + 0x51cu)
#define SD_SELECT_PIN 0u /* of port D, active low */
#define OLED_DATA_PIN 7u /* of port C: the display shares the bus */

#define SSI_CR0 REGISTER(0x40008000u)
#define SSI_CR0_8_BITS 7u
#define SSI_CR1 REGISTER(0x40008004u)
#define SSI_CR1_ENABLE 2u
#define SSI_DATA REGISTER(0x40008008u)
#define SSI_PRESCALE REGISTER(0x40008010u)
#define SSI_FIFO_BYTES 8u

void poet_hal_spi_init(void)
{
    RCGC1 |= RCGC1_SSI0;
    RCGC2 |= RCGC2_PORTS_C_D;
    GPIO_DIRECTION(PORT_D) |= 1u << SD_SELECT_PIN;
    GPIO_ENABLE(PORT_D) |= 1u << SD_SELECT_PIN;
    GPIO_DIRECTION(PORT_C) |= 1u << OLED_DATA_PIN;
    GPIO_ENABLE(PORT_C) |= 1u << OLED_DATA_PIN;
    GPIO_DATA(PORT_C, OLED_DATA_PIN) = 1u << OLED_DATA_PIN;
    poet_hal_spi_select(0);
    SSI_CR1 = 0u;
    SSI_PRESCALE = 2u;
    SSI_CR0 = SSI_CR0_8_BITS;
    SSI_CR1 = SSI_CR1_ENABLE;
}

void poet_hal_spi_clock(uint32_t hz)
{
    (void)hz; /* an emulated bus takes no time */
}

void poet_hal_spi_select(int selected)
{
    GPIO_DATA(PORT_D, SD_SELECT_PIN) = selected ? 0u : 1u << SD_SELECT_PIN;
}

int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    for (uint32_t done = 0u; done < bytes;) {
        const uint32_t left = bytes - done;
        const uint32_t end = done + (left < SSI_FIFO_BYTES ? left : SSI_FIFO_BYTES);
        for (uint32_t i = done; i < end; i++) {
            SSI_DATA = tx != NULL ? tx[i] : 0xffu;
        }
        for (; done < end; done++) {
            const uint8_t received = (uint8_t)SSI_DATA;
            if (rx != NULL) {
                rx[done] = received;
            }
        }
    }
    return 1;
}

int poet_hal_spi_ok(void)
{
    return 1;
}
