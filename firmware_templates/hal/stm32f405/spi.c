/* SPDX-License-Identifier: Apache-2.0 */
/* SPI1 as master (RM0090, chapter 28), byte by byte: without DMA. */
#include "spi.h"

#include "gpio.h"
#include "hal_pins.h"
#include "poet_memory.h"
#include "rcc.h"
#include "wait.h"

#include <stddef.h>

#define SPI_CR1 0x40013000u
#define SPI_CR1_MSTR (1u << 2)
#define SPI_CR1_BR(log2) (((log2) - 1u) << 3)
#define SPI_CR1_SPE (1u << 6)
#define SPI_CR1_OWN_SELECT (3u << 8) /* SSM and SSI: no other master on the bus */
#define SPI_SR 0x40013008u
#define SPI_SR_RXNE (1u << 0)
#define SPI_DR 0x4001300cu
#define SPI_HZ 84000000u /* clock to divide; without it, the storage cannot be opened */
#define SLOWEST_LOG2 8u

/* The bus must be disabled, with no transfer under way. */
static void start(uint32_t log2)
{
    const uint32_t settings = SPI_CR1_MSTR | SPI_CR1_OWN_SELECT | SPI_CR1_BR(log2);
    poet_write(SPI_CR1, settings);
    poet_write(SPI_CR1, settings | SPI_CR1_SPE);
}

static void stop(void)
{
    poet_write(SPI_CR1, poet_read(SPI_CR1) & ~SPI_CR1_SPE);
}

void poet_hal_spi_init(void)
{
    poet_gpio_output_high(POET_PIN_SD_SELECT);
    poet_gpio_give(POET_PIN_SD_CLOCK, POET_GPIO_SPI1);
    poet_gpio_give(POET_PIN_SD_MOSI, POET_GPIO_SPI1);
    poet_gpio_give(POET_PIN_SD_MISO, POET_GPIO_SPI1);
    poet_clock_enable(RCC_APB2ENR, RCC_APB2_SPI1);
    poet_write(RCC_APB2RSTR, RCC_APB2_SPI1);
    poet_write(RCC_APB2RSTR, 0u);
    start(SLOWEST_LOG2);
}

int poet_hal_spi_ok(void)
{
    return (poet_read(SPI_CR1) & SPI_CR1_SPE) != 0u;
}

void poet_hal_spi_clock(uint32_t hz)
{
    uint32_t log2 = 1u;
    while (SPI_HZ >> log2 > hz && log2 < SLOWEST_LOG2) {
        log2++;
    }
    if (poet_hal_spi_ok()) {
        stop();
        start(log2);
    }
}

void poet_hal_spi_select(int selected)
{
    poet_gpio_write(POET_PIN_SD_SELECT, !selected);
}

/* One byte at a time: with a second one under way, an interrupt at the wrong moment would lose the first. */
int poet_hal_spi_begin(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        uint8_t received = 0xffu;
        if (poet_hal_spi_ok()) {
            poet_write(SPI_DR, tx != NULL ? tx[i] : 0xffu);
            if (poet_wait(SPI_SR, SPI_SR_RXNE, SPI_SR_RXNE, POET_POLLS_PER_BYTE)) {
                received = (uint8_t)poet_read(SPI_DR);
            } else {
                stop();
            }
        }
        if (rx != NULL) {
            rx[i] = received;
        }
    }
    return 1;
}
