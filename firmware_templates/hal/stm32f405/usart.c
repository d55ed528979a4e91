/* SPDX-License-Identifier: Apache-2.0 */
/* USART1 (RM0090, chapter 30). */
#include "usart.h"

#include "gpio.h"
#include "hal.h"
#include "hal_pins.h"
#include "plan.h"
#include "rcc.h"
#include "wait.h"

#define USART_SR 0x40011000u
#define USART_SR_ORE (1u << 3)
#define USART_SR_RXNE (1u << 5)
#define USART_SR_TXE (1u << 7)
#define USART_DR 0x40011004u
#define USART_BRR 0x40011008u
#define USART_CR1 0x4001100cu
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)
#define USART_CR1_UE (1u << 13)

void poet_usart_start(uint32_t hz)
{
    poet_gpio_give(POET_PIN_CONSOLE_TX, POET_GPIO_USART1);
    poet_gpio_give(POET_PIN_CONSOLE_RX, POET_GPIO_USART1);
    poet_clock_enable(RCC_APB2ENR, RCC_APB2_USART1);
    poet_write(USART_BRR, (hz + POET_CONSOLE_BAUD / 2u) / POET_CONSOLE_BAUD);
    poet_write(USART_CR1, USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE);
}

/* A transmitter that hangs is switched off, so that training continues. */
void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes && (poet_read(USART_CR1) & USART_CR1_UE) != 0u; i++) {
        if (poet_wait(USART_SR, USART_SR_TXE, USART_SR_TXE, POET_POLLS)) {
            poet_write(USART_DR, (uint8_t)text[i]);
        } else {
            poet_write(USART_CR1, 0u);
        }
    }
}

int poet_usart_has_input(void)
{
    return (poet_read(USART_SR) & (USART_SR_RXNE | USART_SR_ORE)) != 0u;
}

/* Reading status, then data, also clears an overrun, with or without a character. */
uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    uint32_t taken = 0u;
    while (taken < bytes && poet_usart_has_input()) {
        const int character = (poet_read(USART_SR) & USART_SR_RXNE) != 0u;
        const uint32_t data = poet_read(USART_DR);
        if (character) {
            text[taken++] = (char)data;
        }
    }
    return taken;
}
