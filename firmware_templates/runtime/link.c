/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "link.h"

#include "console.h"
#include "crc32.h"
#include "poet_memory.h"

#include <stddef.h>

#define END '%'
#define CRC_CHARACTERS 9u /* a space, and eight digits */
#define GROUP_BYTES 48u   /* of data, printed at once as 64 characters */

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int poet_link_take(struct poet_link *link, char character)
{
    if (character == END) {
        return 1;
    }
    if (link->used == 0u && (character == '\r' || character == '\n')) {
        return 0;
    }
    if (link->used < POET_LINK_TEXT_BYTES) {
        link->text[link->used] = character;
    }
    if (link->used <= POET_LINK_TEXT_BYTES) {
        link->used++;
    }
    return 0;
}

/* Value of a digit in a base up to 16, or a value that no digit has. */
static uint32_t digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return (uint32_t)(digit - '0');
    }
    return digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a') + 10u : UINT32_MAX;
}

/* Parses digits up to `end` or a space, and moves *at behind it; returns whether they are a u32. */
static int take_number(const char **at, const char *end, uint32_t base, uint32_t *value)
{
    const char *const first = *at;
    uint64_t sum = 0u;
    while (*at < end && **at != ' ') {
        const uint32_t digit = digit_value(*(*at)++);
        sum = sum * base + digit;
        if (digit >= base || sum > UINT32_MAX) {
            return 0;
        }
    }
    const int some = *at != first;
    *at += *at < end;
    *value = (uint32_t)sum;
    return some;
}

static uint32_t sextet(char character)
{
    uint32_t value = 0u;
    while (value < 64u && BASE64[value] != character) {
        value++;
    }
    return value;
}

/* Decodes base64 without padding in place; returns whether it is valid. */
static int decode(char *text, uint32_t characters, uint32_t *bytes)
{
    uint8_t *out = (uint8_t *)text;
    uint32_t bits = 0u;
    uint32_t have = 0u;
    for (uint32_t i = 0u; i < characters; i++) {
        const uint32_t value = sextet(text[i]);
        if (value > 63u) {
            return 0;
        }
        bits = bits << 6 | value;
        have += 6u;
        if (have >= 8u) {
            have -= 8u;
            *out++ = (uint8_t)(bits >> have);
        }
    }
    *bytes = (uint32_t)(out - (uint8_t *)text);
    return characters % 4u != 1u;
}

static int is_whole(const char *text, uint32_t characters)
{
    const char *at = text + characters;
    uint32_t crc;
    return *at == ' ' && (at++, take_number(&at, at + 8, 16u, &crc)) &&
           crc == poet_crc32(0u, text, characters);
}

/* Parses "sequence word [number ...] [:data]", which is undamaged but may be invalid. */
static int split(char *text, uint32_t characters, struct poet_command *command)
{
    const char *at = text;
    const char *const end = text + characters;
    command->count = 0u;
    command->data = NULL;
    command->data_bytes = 0u;
    if (!take_number(&at, end, 10u, &command->sequence)) {
        return 0;
    }
    command->word = at;
    while (at < end && *at != ' ') {
        at++;
    }
    text[at - text] = '\0'; /* replaces a space, at the latest the one before the CRC */
    at += at < end;
    while (at < end && *at != ':') {
        if (command->count == POET_LINK_NUMBERS ||
            !take_number(&at, end, 10u, &command->numbers[command->count++])) {
            return 0;
        }
    }
    if (at < end) {
        char *const data = text + (at + 1 - text);
        command->data = (const uint8_t *)data;
        return decode(data, (uint32_t)(end - data), &command->data_bytes);
    }
    return 1;
}

enum poet_link_kind poet_link_parse(struct poet_link *link, struct poet_command *command)
{
    const uint32_t used = link->used;
    link->used = 0u;
    if (used == 0u) {
        return POET_LINK_NOTHING;
    }
    if (used == 4u && memcmp(link->text, "name", 4u) == 0) {
        return POET_LINK_NAME;
    }
    if (used <= CRC_CHARACTERS || used > POET_LINK_TEXT_BYTES ||
        !is_whole(link->text, used - CRC_CHARACTERS) ||
        !split(link->text, used - CRC_CHARACTERS, command)) {
        return POET_LINK_DAMAGED;
    }
    return POET_LINK_FRAME;
}

void poet_answer_begin(char kind, uint32_t sequence)
{
    const char start[] = {kind, '-', '[', '\0'};
    (void)poet_print_crc();
    poet_print(start);
    poet_print_decimal(sequence);
}

void poet_answer_number(uint32_t value)
{
    poet_print(" ");
    poet_print_decimal(value);
}

void poet_answer_status(int status)
{
    poet_print(" ");
    poet_print_signed(status);
}

void poet_answer_data(const uint8_t *data, uint32_t bytes)
{
    poet_print(" :");
    while (bytes > 0u) {
        char text[GROUP_BYTES / 3u * 4u + 1u];
        uint32_t used = 0u;
        uint32_t bits = 0u;
        uint32_t have = 0u;
        for (uint32_t i = 0u; i < GROUP_BYTES && bytes > 0u; i++, bytes--) {
            bits = bits << 8 | *data++;
            for (have += 8u; have >= 6u; have -= 6u) {
                text[used++] = BASE64[bits >> (have - 6u) & 63u];
            }
        }
        if (have > 0u) {
            text[used++] = BASE64[bits << (6u - have) & 63u];
        }
        text[used] = '\0';
        poet_print(text);
    }
}

void poet_answer_end(void)
{
    const uint32_t crc = poet_print_crc();
    poet_print(" ");
    poet_print_hex(crc);
    poet_print("]\r\n");
    poet_answer_ready();
}

void poet_answer_ready(void)
{
    poet_print("m-ready\r\n");
}
