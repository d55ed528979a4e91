/* SPDX-License-Identifier: Apache-2.0 */
/* How a call ended. Everything that can fail returns one of these as an int. */
#ifndef POET_STATUS_H
#define POET_STATUS_H

enum poet_status {
    POET_AGAIN = 1, /* a slice of a step is done, and not yet the step */
    POET_OK = 0,
    POET_ERROR_IMAGE = -1,           /* the storage holds no image, or a damaged one */
    POET_ERROR_PLAN = -2,            /* the image was made for another plan */
    POET_ERROR_STORAGE = -3,         /* the storage did not do what it was told */
    POET_ERROR_ARGUMENT = -4,        /* no such slot or batch, or not of that size */
    POET_ERROR_SLOT = -5,            /* a slot has no valid trailer: nothing was written there */
    POET_ERROR_CRC = -6,             /* a slot's payload is not what its trailer says was written */
    POET_ERROR_NO_PARTITION = -7,    /* the storage has no partition table, or an empty one */
    POET_ERROR_FOREIGN = -8,         /* the partition table is another's: not one partition alone, of type 0xda */
    POET_ERROR_PARTITION_START = -9, /* the partition begins beyond the storage's end, or at block 0 */
    POET_ERROR_PARTITION_END = -10,  /* the partition ends beyond the storage's end */
    POET_ERROR_PARTITION_SIZE = -11, /* the partition is smaller than the image in it */
    POET_ERROR_VERSION = -12,        /* the image is laid out as another version of poetfw does it */
    POET_ERROR_LOST = -13,           /* the storage did not keep what was written to it */
    POET_ERROR_DATA = -14,           /* a sample is not what was put into the storage */
    POET_ERROR_COMMIT = -15,         /* no set of slots holds a whole commit */
    POET_ERROR_MIXED = -29,          /* the storage holds parts of two images: write one image whole */
    POET_ERROR_ORDER = -128,         /* a call that has to come before this one did not, or failed */
    POET_ERROR_SAMPLE = -129,        /* samples, targets or outputs have not the size of the plan's */
    POET_ERROR_LABEL = -130,         /* a label is none of the classes */
    POET_ERROR_WEIGHTS = -131,       /* the program holds no initial weights */
    POET_ERROR_NO_STORAGE = -132,    /* the application gave the library no storage */
    POET_ERROR_RING = -133,          /* training since the last commit draws from the sample whose turn it is to go */
    POET_ERROR_ID = -134,            /* the ring has no such sample, or it has its label */
    POET_ERROR_BUSY = -135,          /* another call of the library has not returned yet */
    POET_ERROR_IN_STEP = -136,       /* a training step is begun: end it, or open the storage to give it up */
    POET_ERROR_NOT_FINITE = -137,    /* a feature or a target is infinite or not a number */
    POET_ERROR_DIVERGED = -138,      /* the loss or a weight is infinite or not a number: load the last commit, or reset */
    POET_ERROR_NO_SAMPLES = -139,    /* the storage has no samples to train on, and the ring has none with a label */
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
