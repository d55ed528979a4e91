/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_SOFT_FLOAT_H
#define POET_SOFT_FLOAT_H

#include <stdint.h>

/* The bits of a + b and of a * b, to the nearest float, the even one of two. The assembly (soft_float_asm.S) calls them,
 * which link-time optimisation does not see: they are kept under their names. */
__attribute__((used)) uint32_t poet_sum_bits(uint32_t a, uint32_t b);
__attribute__((used)) uint32_t poet_product_bits(uint32_t a, uint32_t b);

#endif
