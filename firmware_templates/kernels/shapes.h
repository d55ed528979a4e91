/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that divide what the shapes of a network's layers have of a kind. Code for what is left over, where nothing
 * can be, is not compiled. 1 says nothing: in a project stands what its network has. */
#ifndef POET_SHAPES_H
#define POET_SHAPES_H

#define POET_BATCH_NORM_PLANE 1 /* elements of a channel of a sample */
#define POET_BATCH_NORM_ROWS 1  /* of such a plane */
#define POET_BATCH_NORM_WIDTH 1 /* elements of such a row */
#define POET_CONV2D_SUMS 1      /* channels of a group of y or dx */
#define POET_CONV2D_OUTPUTS 1   /* channels of a group of dy, for dw */
#define POET_CONV2D_COLUMNS 1   /* of x, for dw of 3x3 kernels that move by 1 */
#define POET_LINEAR_FEATURES 1  /* of x */
#define POET_LINEAR_OUTPUTS 1   /* of y */
#define POET_LINEAR_SUMS 1      /* products in a sum for dx and dw */
#define POET_RELU_ELEMENTS 1    /* of x */

#endif
