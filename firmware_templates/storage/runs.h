/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: parts of tensors that are not contiguous. */
#ifndef POET_RUNS_H
#define POET_RUNS_H

#include <stdint.h>

/* Copies `count` runs of `bytes`, which begin `to_stride` and `from_stride` bytes apart. */
void poet_copy_runs(void *to, uint32_t to_stride, const void *from, uint32_t from_stride, uint32_t count, uint32_t bytes);

#endif
