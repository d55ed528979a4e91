/* SPDX-License-Identifier: Apache-2.0 */
/* Common divisors of the extents of a network's layers. Code for remainders that cannot occur is not compiled. 1 allows all
 * extents; a project has the divisors of its network. */
#ifndef POET_SHAPES_H
#define POET_SHAPES_H

#define POET_BATCH_NORM_PLANE 1 /* elements of a feature map */
#define POET_BATCH_NORM_ROWS 1  /* rows of a feature map */
#define POET_BATCH_NORM_WIDTH 1 /* elements of a row */
#define POET_LINEAR_FEATURES 1  /* features of x */
#define POET_LINEAR_OUTPUTS 1   /* outputs of y */
#define POET_LINEAR_SUMS 1      /* products in a sum for dx and dw */
#define POET_RELU_ELEMENTS 1    /* elements of x */

#endif
