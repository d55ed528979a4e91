/* SPDX-License-Identifier: Apache-2.0 */
/* The console: USART1, which only sends. */
#ifndef POET_USART_H
#define POET_USART_H

#include <stdint.h>

/* Starts it. It divides its clock, `hz`. */
void poet_usart_start(uint32_t hz);

#endif
