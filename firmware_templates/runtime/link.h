/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and answers on the console, in frames with a CRC: see docs/serial-line.md. The commands themselves are
 * defined by the users of this file. */
#ifndef POET_LINK_H
#define POET_LINK_H

#include <stdint.h>

#define POET_LINK_NUMBERS 3u
#define POET_LINK_DATA_BYTES 264u
#define POET_LINK_TEXT_BYTES 400u /* of data in base64, with the rest of the frame */

/* A command being received, `used` characters so far; one above the buffer's size if it is too long. */
struct poet_link {
    uint32_t used;
    char text[POET_LINK_TEXT_BYTES];
};

enum poet_link_kind {
    POET_LINK_NOTHING,
    POET_LINK_NAME,    /* "name", which needs no frame */
    POET_LINK_DAMAGED, /* not as it was sent */
    POET_LINK_FRAME,
};

/* Content of a frame; `word` and `data` point into the link's text. */
struct poet_command {
    uint32_t sequence;
    const char *word;
    uint32_t numbers[POET_LINK_NUMBERS];
    uint32_t count; /* number of numbers */
    const uint8_t *data;
    uint32_t data_bytes;
};

/* Adds a character. Returns whether the command is complete and has to be parsed. */
int poet_link_take(struct poet_link *link, char character);

/* Parses the command; the next character begins another. *command is set only for a frame. */
enum poet_link_kind poet_link_parse(struct poet_link *link, struct poet_command *command);

/* An answer in a frame: begin, then print values by poet_print and others, each after a space, then end. */
void poet_answer_begin(char kind, uint32_t sequence);
void poet_answer_number(uint32_t value);
void poet_answer_status(int status);
void poet_answer_data(const uint8_t *data, uint32_t bytes);
void poet_answer_end(void);

/* Ends any answer: the host may send the next command. */
void poet_answer_ready(void);

#endif
