/* SPDX-License-Identifier: Apache-2.0 */
/* How a call ended. Everything that can fail returns one of these as an int. */
#ifndef POET_STATUS_H
#define POET_STATUS_H

enum poet_status {
    POET_OK = 0,
    POET_ERROR_IMAGE = -1,    /* the storage holds no image, or a damaged one */
    POET_ERROR_PLAN = -2,     /* the image was made for another plan */
    POET_ERROR_STORAGE = -3,  /* the storage did not do what it was told */
    POET_ERROR_ARGUMENT = -4, /* no such slot, or not of that size */
    POET_ERROR_SLOT = -5,     /* a slot has no valid trailer: nothing was written there */
    POET_ERROR_CRC = -6,      /* a slot's payload is not what its trailer says was written */
};

/* Returns the negative status from the enclosing function. */
#define POET_TRY(call)                  \
    do {                                \
        const int poet_try_ = (call);   \
        if (poet_try_ < POET_OK) {      \
            return poet_try_;           \
        }                               \
    } while (0)

#endif
