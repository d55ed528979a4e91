/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_SAMPLE_ORDER_H
#define POET_SAMPLE_ORDER_H

#include <stdint.h>

/* The sample at position `position` of epoch `epoch`: for each epoch and seed a permutation of
 * [0, samples), without a table. A four-round Feistel network over the smallest even number of bits
 * that can count the samples, walked until it lands on one. samples >= 1, position < samples. */
uint32_t poet_sample_at(uint32_t position, uint32_t samples, uint32_t seed, uint32_t epoch);

#endif
