/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops of a training step read and wrote, recorded to storage for `poetfw run --verify`. Only
 * the copy of a project that is traced has this file; the project itself does not.
 *
 * The trace area begins with one block that says what to record:
 *     0  char magic[8] = "POETTRC1"     8  u32 first training step    12  u32 last training step
 *    16  u32 first statement           20  u32 last statement           the rest is unused
 * Behind it the records follow each other in the order in which they are made, each of whole blocks.
 * When all are made, the first block says so:
 *     0  char magic[8] = "POETTRC2"     8  u32 blocks of records
 */
#ifndef POET_TRACE_H
#define POET_TRACE_H

#include <stdint.h>

/* A run of bytes in the arena, recorded before a statement of the training step; or, of 0 bytes, the tensor in
 * storage whose number `offset` is, as it is stored: streamed tensors are numbered first. */
struct poet_trace_record {
    uint32_t statement;
    uint32_t offset;
    uint32_t bytes;
};

/* In the order of their statements. */
extern const struct poet_trace_record poet_trace_records[];
extern const uint32_t poet_trace_record_count;
extern const uint32_t poet_trace_block; /* where the area begins */

/* Called before each statement of the training step, which are numbered from 1, and at its end. */
int poet_trace(uint32_t statement);

#endif
