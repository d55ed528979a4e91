/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads an SD card through storage/sd.c on QEMU's lm3s6965evb, whose card hangs on a PL022.
 *
 * The host has filled blocks [200, 216) with the pattern; this fills block 3, [100, 116) and
 * LAST_BLOCK, reads everything back, and asks for blocks that do not exist. Exit code 0 and "@sd ok"
 * if all went as it should, else 1 and the step and status at which it did not.
 */
#include "console.h"
#include "hal.h"
#include "poet.h"
#include "registers.h"
#include "sd.h"
#include "semihosting.h"
#include "spi.h"

#define BLOCKS 16u
#define HOST_BLOCK 200u

#define UART_DATA REGISTER(0x4000c000u)
#define UART_FLAGS REGISTER(0x4000c018u)
#define UART_FLAGS_TX_FULL 0x20u

#define RCGC1 REGISTER(0x400fe104u)
#define RCGC1_SSI0 (1u << 4)
#define RCGC2 REGISTER(0x400fe108u)
#define RCGC2_PORTS_C_D (3u << 2)
#define PORT_C 0x40006000u
#define PORT_D 0x40007000u
#define GPIO_DATA(port, pin) REGISTER((port) + (4u << (pin)))
#define GPIO_DIRECTION(port) REGISTER((port) + 0x400u)
#define GPIO_ENABLE(port) REGISTER((port) + 0x51cu)
#define SD_SELECT_PIN 0u    /* of port D, active low */
#define OLED_DATA_PIN 7u    /* of port C: the display shares the bus */

#define SSI_CR0 REGISTER(0x40008000u)
#define SSI_CR0_8_BITS 7u
#define SSI_CR1 REGISTER(0x40008004u)
#define SSI_CR1_ENABLE 2u
#define SSI_DATA REGISTER(0x40008008u)
#define SSI_STATUS REGISTER(0x4000800cu)
#define SSI_STATUS_RECEIVED 4u
#define SSI_PRESCALE REGISTER(0x40008010u)

static uint8_t buffer[BLOCKS * POET_SD_BLOCK_BYTES];

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        while ((UART_FLAGS & UART_FLAGS_TX_FULL) != 0u) {
        }
        UART_DATA = (uint8_t)text[i];
    }
}

_Noreturn void poet_hal_exit(int code)
{
    const uint32_t arguments[2] = {0x20026u, (uint32_t)code};
    for (;;) {
        (void)poet_semihosting(POET_SYS_EXIT_EXTENDED, arguments);
    }
}

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

void poet_hal_spi_transfer(const uint8_t *tx, uint8_t *rx, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        SSI_DATA = tx != NULL ? tx[i] : 0xffu;
        while ((SSI_STATUS & SSI_STATUS_RECEIVED) == 0u) {
        }
        const uint8_t received = (uint8_t)SSI_DATA;
        if (rx != NULL) {
            rx[i] = received;
        }
    }
}

int poet_hal_spi_ok(void)
{
    return 1;
}

static uint8_t pattern(uint32_t block, uint32_t i)
{
    return (uint8_t)((block * POET_SD_BLOCK_BYTES + i) * 2654435761u >> 13);
}

static int write(uint32_t block, uint32_t count)
{
    for (uint32_t i = 0u; i < count * POET_SD_BLOCK_BYTES; i++) {
        buffer[i] = pattern(block, i);
    }
    return poet_sd_write(block, buffer, count);
}

/* 1 where the card answers well but with other data. */
static int read(uint32_t block, uint32_t count)
{
    for (uint32_t i = 0u; i < sizeof buffer; i++) {
        buffer[i] = (uint8_t)~pattern(block, i);
    }
    const int status = poet_sd_read(block, buffer, count);
    for (uint32_t i = 0u; i < count * POET_SD_BLOCK_BYTES; i++) {
        if (status == POET_SD_OK && buffer[i] != pattern(block, i)) {
            return 1;
        }
    }
    return status;
}

static void expect(const char *step, int status, int expected)
{
    if (status != expected) {
        poet_print("@sd failed step=");
        poet_print(step);
        poet_print(" status=");
        poet_print_signed(status);
        poet_print("\n");
        poet_hal_exit(1);
    }
}

_Noreturn void poet_run(void)
{
    expect("open", poet_sd_open(), POET_SD_OK);
    uint32_t blocks = 0u;
    expect("size", poet_sd_blocks(&blocks), POET_SD_OK);
    expect("blocks", blocks == LAST_BLOCK + 1u ? 0 : 1, 0);
    expect("write-one", write(3u, 1u), POET_SD_OK);
    expect("write-many", write(100u, BLOCKS), POET_SD_OK);
    expect("write-last", write(LAST_BLOCK, 1u), POET_SD_OK);
    expect("read-one", read(3u, 1u), POET_SD_OK);
    expect("read-many", read(100u, BLOCKS), POET_SD_OK);
    expect("read-middle", read(105u, 2u), POET_SD_OK);
    expect("read-host", read(HOST_BLOCK, BLOCKS), POET_SD_OK);
    expect("read-last", read(LAST_BLOCK, 1u), POET_SD_OK);
    expect("beyond-end", poet_sd_read(LAST_BLOCK + 1u, buffer, 1u), POET_SD_ERROR_COMMAND);
    expect("beyond-addresses", poet_sd_read(UINT32_MAX, buffer, 1u), POET_SD_ERROR_RANGE);
    expect("reopen", poet_sd_open(), POET_SD_OK);
    expect("read-after-reopen", read(100u, BLOCKS), POET_SD_OK);
    poet_print("@sd ok\n");
    poet_hal_exit(0);
}
