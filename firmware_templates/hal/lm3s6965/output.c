/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "hal.h"
#include "uart.h"

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes; i++) {
        while ((UART_FLAGS & UART_FLAGS_TX_FULL) != 0u) {
        }
        UART_DATA = (uint8_t)text[i];
    }
}
