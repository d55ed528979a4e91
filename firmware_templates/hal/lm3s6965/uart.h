/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_UART_H
#define POET_UART_H

#include "registers.h"

#define UART_DATA REGISTER(0x4000c000u)
#define UART_FLAGS REGISTER(0x4000c018u)
#define UART_FLAGS_TX_FULL 0x20u
#define UART_FLAGS_RX_EMPTY 0x10u
#define UART_LINE REGISTER(0x4000c02cu)
#define UART_LINE_8_BITS_FIFO 0x70u
#define UART_MASK REGISTER(0x4000c038u)
#define UART_MASK_RX 0x50u

#endif
