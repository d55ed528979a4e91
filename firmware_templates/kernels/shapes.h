/* SPDX-License-Identifier: Apache-2.0 */
/* Common divisors of the extents of a network's layers. Code for remainders that cannot occur is not compiled. 1 allows all
 * extents; a project has the divisors of its network. */
#ifndef POET_SHAPES_H
#define POET_SHAPES_H

#define POET_BATCH_NORM_PLANE 1 /* elements of a feature map */
#define POET_BATCH_NORM_ROWS 1  /* rows of a feature map */
#define POET_BATCH_NORM_WIDTH 1 /* elements of a row */
#define POET_RELU_ELEMENTS 1    /* elements of x */

/* 0 where generated tiles compute all ops of a kind: then its plain loops are not compiled. */
#define POET_PLAIN_CONV2D 1 /* convolutions may run without tiles */
#define POET_PLAIN_MATMUL 1 /* products of matrices may */

#endif
