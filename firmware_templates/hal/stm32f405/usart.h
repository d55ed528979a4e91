/* SPDX-License-Identifier: Apache-2.0 */
/* The console: USART1. */
#ifndef POET_USART_H
#define POET_USART_H

#include <stdint.h>

#define POET_USART_INTERRUPT 37u

/* Starts the console, whose baud rate is derived from the clock `hz`. A received character makes its interrupt
 * pending. */
void poet_usart_start(uint32_t hz);

/* True if a character is available, or one was lost. */
int poet_usart_has_input(void);

#endif
