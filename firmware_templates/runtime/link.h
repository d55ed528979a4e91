/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and answers on the console, in frames that show whether they are whole: see docs/serial-line.md.
 * What commands there are is up to who uses this. */
#ifndef POET_LINK_H
#define POET_LINK_H

#include <stdint.h>

#define POET_LINK_NUMBERS 3u
#define POET_LINK_DATA_BYTES 264u
#define POET_LINK_TEXT_BYTES 400u /* so many bytes of data, in base64, with all that stands around them */

/* A command, of which so many characters have come; one more than there is room for: it is too long. */
struct poet_link {
    uint32_t used;
    char text[POET_LINK_TEXT_BYTES];
};

enum poet_link_kind {
    POET_LINK_NOTHING,
    POET_LINK_NAME,    /* "name", which needs no frame */
    POET_LINK_DAMAGED, /* not what was sent */
    POET_LINK_FRAME,
};

/* What a frame holds; `word` and `data` are in the text of the link. */
struct poet_command {
    uint32_t sequence;
    const char *word;
    uint32_t numbers[POET_LINK_NUMBERS];
    uint32_t count; /* of the numbers */
    const uint8_t *data;
    uint32_t data_bytes;
};

/* Takes a character. Whether the command is at its end: then it must be parsed. */
int poet_link_take(struct poet_link *link, char character);

/* Parses the command; the next character begins another. *command is set for a frame only. */
enum poet_link_kind poet_link_parse(struct poet_link *link, struct poet_command *command);

/* An answer in a frame is begun, printed by poet_print and the like, each value after a space, and ended. */
void poet_answer_begin(char kind, uint32_t sequence);
void poet_answer_number(uint32_t value);
void poet_answer_status(int status);
void poet_answer_data(const uint8_t *data, uint32_t bytes);
void poet_answer_end(void);

/* Ends any answer: who asked may ask again. */
void poet_answer_ready(void);

#endif
