/* SPDX-License-Identifier: Apache-2.0 */
/* status_text.c: what statuses mean.
 * Written by poetfw 0.0.0 (plan 5a3b1e00). Do not edit: change the plan and build again.
 */
#include "poetfw.h"

const char *poetfw_status_text(int status)
{
    switch (status) {
    case POETFW_OK:
        return "ok";
    case POETFW_ERROR_IMAGE:
        return "the storage holds no image, or a damaged one";
    case POETFW_ERROR_PLAN:
        return "the image was made for another plan";
    case POETFW_ERROR_STORAGE:
        return "the storage did not do what it was told";
    case POETFW_ERROR_ARGUMENT:
        return "no such slot or batch, or not of that size";
    case POETFW_ERROR_SLOT:
        return "a slot has no valid trailer: nothing was written there";
    case POETFW_ERROR_CRC:
        return "a slot's payload is not what its trailer says was written";
    case POETFW_ERROR_NO_PARTITION:
        return "the storage has no partition table, or an empty one";
    case POETFW_ERROR_FOREIGN:
        return "the partition table is another's: not one partition alone, of type 0xda";
    case POETFW_ERROR_PARTITION_START:
        return "the partition begins beyond the storage's end, or at block 0";
    case POETFW_ERROR_PARTITION_END:
        return "the partition ends beyond the storage's end";
    case POETFW_ERROR_PARTITION_SIZE:
        return "the partition is smaller than the image in it";
    case POETFW_ERROR_VERSION:
        return "the image is laid out as another version of poetfw does it";
    case POETFW_ERROR_LOST:
        return "the storage did not keep what was written to it";
    case POETFW_ERROR_DATA:
        return "a sample is not what was put into the storage";
    case POETFW_ERROR_COMMIT:
        return "no set of slots holds a whole commit";
    case POETFW_ERROR_MIXED:
        return "the storage holds parts of two images: write one image whole";
    case POETFW_ERROR_ORDER:
        return "a call that has to come before this one did not, or failed";
    case POETFW_ERROR_SAMPLE:
        return "samples, targets or outputs have not the size of the plan's";
    case POETFW_ERROR_LABEL:
        return "a label is none of the classes";
    case POETFW_ERROR_WEIGHTS:
        return "the program holds no initial weights";
    case POETFW_ERROR_NO_STORAGE:
        return "the application gave the library no storage";
    case POETFW_ERROR_RING:
        return "training since the last commit draws from the sample whose turn it is to go";
    case POETFW_ERROR_ID:
        return "the ring has no such sample, or it has its label";
    case POETFW_ERROR_BUSY:
        return "another call of the library has not returned yet";
    case POETFW_ERROR_IN_STEP:
        return "a training step is begun: end it, or open the storage to give it up";
    case POETFW_ERROR_NOT_FINITE:
        return "a feature or a target is infinite or not a number";
    case POETFW_ERROR_DIVERGED:
        return "the loss or a weight is infinite or not a number: load the last commit, or reset";
    case POETFW_ERROR_NO_SAMPLES:
        return "the storage has no samples to train on, and the ring has none with a label";
    default:
        return "a status of the storage or of a board's driver";
    }
}
