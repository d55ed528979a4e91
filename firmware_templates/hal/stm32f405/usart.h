/* SPDX-License-Identifier: Apache-2.0 */
/* The console: USART1. */
#ifndef POET_USART_H
#define POET_USART_H

#include <stdint.h>

#define POET_USART_INTERRUPT 37u

/* Starts it. It divides its clock, `hz`. A character that comes in makes its interrupt pending. */
void poet_usart_start(uint32_t hz);

/* Whether a character waits, or one was lost. */
int poet_usart_has_input(void);

#endif
