/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the storage a measuring firmware may write. */
#ifndef POET_SCRATCH_H
#define POET_SCRATCH_H

#include <stdint.h>

/* Starts the storage and finds POET_SCRATCH_BLOCKS blocks that nobody needs: of a blank one those from its
 * second sector on, else those behind the partition of a storage image. *first is the first of them.
 * POET_ERROR_FOREIGN: the storage holds what is not poetfw's. POET_ERROR_PARTITION_SIZE: there are not so many. */
int poet_scratch_open(uint32_t *first);

#endif
