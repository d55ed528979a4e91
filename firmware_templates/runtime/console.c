/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "console.h"

#include "crc32.h"
#include "hal.h"

static uint32_t crc;

static void send(const char *text, uint32_t bytes)
{
    crc = poet_crc32(crc, text, bytes);
    poet_hal_console_write(text, bytes);
}

void poet_print(const char *text)
{
    uint32_t bytes = 0u;
    while (text[bytes] != '\0') {
        bytes++;
    }
    send(text, bytes);
}

/* In parts of 16 bits: a 64-bit division would pull in a compiler's library function larger than all of this. */
void poet_print_decimal(uint64_t value)
{
    uint16_t parts[4] = {(uint16_t)(value >> 48), (uint16_t)(value >> 32), (uint16_t)(value >> 16),
                         (uint16_t)value};
    char digits[20]; /* 2^64 - 1 has 20 */
    uint32_t first = sizeof digits;
    uint32_t left;
    do {
        uint32_t rest = 0u;
        left = 0u;
        for (uint32_t i = 0u; i < 4u; i++) {
            rest = rest << 16 | parts[i];
            parts[i] = (uint16_t)(rest / 10u);
            rest %= 10u;
            left |= parts[i];
        }
        digits[--first] = (char)('0' + rest);
    } while (left != 0u);
    send(digits + first, (uint32_t)sizeof digits - first);
}

void poet_print_hex(uint32_t value)
{
    char digits[8];
    for (uint32_t i = sizeof digits; i-- > 0u;) {
        digits[i] = "0123456789abcdef"[value & 15u];
        value >>= 4;
    }
    send(digits, sizeof digits);
}

void poet_print_signed(int32_t value)
{
    if (value < 0) {
        poet_print("-");
    }
    poet_print_decimal((uint64_t)(value < 0 ? -(int64_t)value : value));
}

uint32_t poet_print_crc(void)
{
    const uint32_t printed = crc;
    crc = 0u;
    return printed;
}
