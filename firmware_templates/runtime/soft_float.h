/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_SOFT_FLOAT_H
#define POET_SOFT_FLOAT_H

#include <stdint.h>

/* Bits of a + b and of a * b, rounded to nearest, ties to even. Called from assembly (soft_float_asm.S), which
 * link-time optimization does not see: hence the fixed names. */
__attribute__((used)) uint32_t poet_sum_bits(uint32_t a, uint32_t b);
__attribute__((used)) uint32_t poet_product_bits(uint32_t a, uint32_t b);

#endif
