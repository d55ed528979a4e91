/* SPDX-License-Identifier: Apache-2.0 */
/* Console lines, printed piece by piece: numbers without printf. */
#ifndef POET_CONSOLE_H
#define POET_CONSOLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void poet_print(const char *text);

/* Unsigned decimal. */
void poet_print_decimal(uint64_t value);

/* Eight lower-case hexadecimal digits. */
void poet_print_hex(uint32_t value);

/* A signed decimal. */
void poet_print_signed(int32_t value);

/* CRC-32 of everything printed since the last call. */
uint32_t poet_print_crc(void);

#ifdef __cplusplus
}
#endif

#endif
