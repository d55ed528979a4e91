/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_SAMPLE_ORDER_H
#define POET_SAMPLE_ORDER_H

#include <stdint.h>

/* Sample at position `position` of epoch `epoch`: a permutation of [0, samples) for each epoch and seed, without a
 * table. A four-round Feistel network over the smallest even number of bits that can count the samples is iterated
 * until the result is below `samples`. samples >= 1, position < samples. */
uint32_t poet_sample_at(uint32_t position, uint32_t samples, uint32_t seed, uint32_t epoch);

#endif
