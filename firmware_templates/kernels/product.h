/* SPDX-License-Identifier: Apache-2.0 */
/* How products are added to sums, one or a vector of them: the product is rounded, and the sum, which is what every
 * core can do. On boards whose file says `arithmetic = "fma"`, fma/product.h takes this file's place. */
#ifndef POET_PRODUCT_H
#define POET_PRODUCT_H

#define POET_FUSED false

#define poet_add_product(sum, factor, other) ((sum) + (factor) * (other))

/* Product of a factor and each number of a vector with the given number of bytes. */
#define poet_add_products_16 poet_add_product
#define poet_add_products_32 poet_add_product

#endif
