/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring firmware: ops and transfers, one case each, that a host has run, as docs/serial-line.md says. */
#ifndef POET_PROFILE_H
#define POET_PROFILE_H

#include <stdint.h>

#define POET_CASE_KEY_CHARACTERS 16u

enum poet_transfer {
    POET_NO_TRANSFER,
    POET_TRANSFER_IN,
    POET_TRANSFER_OUT,
};

enum poet_fill_kind {
    POET_FILL_ZERO,
    POET_FILL_SIGNED,   /* f32 from [-1, 1) */
    POET_FILL_POSITIVE, /* f32 from [0.5, 1.5) */
    POET_FILL_LIKE,     /* f32 like those of a network's tensor */
};

/* What an operand holds before its case runs. */
struct poet_fill {
    uint32_t offset; /* in the arena */
    uint32_t words;
    uint32_t kind;
    uint32_t first_value; /* of an operand that is like a tensor, each in place of those around it */
    uint32_t values; /* in a set */
};

/* One op, or one transfer. */
struct poet_case {
    char key[POET_CASE_KEY_CHARACTERS + 1u]; /* names it among all there are */
    int (*run)(void);
    int (*prepare)(void); /* what must be in the storage; NULL for nothing */
    int (*without)(void); /* what is timed likewise, and subtracted; NULL for nothing */
    uint32_t first_fill;
    uint32_t fills;
    uint32_t transfer; /* enum poet_transfer */
    uint32_t bytes;    /* of a transfer */
    uint32_t sets;     /* of values, which operands are fed in turn, before each run; 0: they are filled once */
};

/* Generated. */
extern const struct poet_fill poet_fills[];
extern const float poet_values[];
extern const struct poet_case poet_cases[];
extern const uint32_t poet_case_count;

/* Puts a sample into the storage that every sample of a batch is read from. */
int poet_prepare_sample(void);

/* Sees how long a transfer takes that is waited for. */
int poet_prepare_kernel(int (*transfer)(void));

/* Computes for so many halves of that time, as a kernel does beside a transfer. */
void poet_kernel(uint32_t halves);

/* Gives a tensor other content than it had the last time: flash with the same content is not erased. */
void poet_change(uint8_t *tensor, uint32_t bytes);

/* The next load is of the next batch: how long it takes to find where a sample is differs from one to the other. */
void poet_select_next(void);

#endif
