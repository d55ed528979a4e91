/* SPDX-License-Identifier: Apache-2.0 */
/* Ops from one tensor to another, to be run behind an op of which only a slice is there at a time.
 *
 * An epilogue is the constants of an op of some family, which begin with `struct poet_epilogue`, and its kernel.
 */
#ifndef POET_EPILOGUES_H
#define POET_EPILOGUES_H

#include "avg_pool2d.h"
#include "max_pool2d.h"
#include "pointwise.h"
#include "relu.h"

struct poet_epilogue;

typedef void poet_epilogue_f32(const struct poet_epilogue *epilogue, const float *x, float *y);

struct poet_epilogue {
    poet_epilogue_f32 *run; /* of the epilogue's family */
};

typedef void poet_relu_of_epilogue_f32(const struct poet_relu *op, const float *x, float *y);
typedef void poet_pointwise_of_epilogue_f32(const struct poet_pointwise *op, const float *x, float *y);
typedef void poet_max_pool2d_of_epilogue_f32(const struct poet_max_pool2d *op, const float *x, float *y);
typedef void poet_avg_pool2d_of_epilogue_f32(const struct poet_avg_pool2d *op, const float *x, float *y);

struct poet_relu_epilogue {
    struct poet_epilogue epilogue;
    struct poet_relu op;
    poet_relu_of_epilogue_f32 *kernel;
};

struct poet_pointwise_epilogue {
    struct poet_epilogue epilogue;
    struct poet_pointwise op;
    poet_pointwise_of_epilogue_f32 *kernel;
};

struct poet_max_pool2d_epilogue {
    struct poet_epilogue epilogue;
    struct poet_max_pool2d op;
    poet_max_pool2d_of_epilogue_f32 *kernel;
};

struct poet_avg_pool2d_epilogue {
    struct poet_epilogue epilogue;
    struct poet_avg_pool2d op;
    poet_avg_pool2d_of_epilogue_f32 *kernel;
};

/* y of x, by an epilogue of the family. Those of element-wise ops may write over x. */
void poet_relu_epilogue_f32(const struct poet_epilogue *epilogue, const float *x, float *y);
void poet_pointwise_epilogue_f32(const struct poet_epilogue *epilogue, const float *x, float *y);
void poet_max_pool2d_epilogue_f32(const struct poet_epilogue *epilogue, const float *x, float *y);
void poet_avg_pool2d_epilogue_f32(const struct poet_epilogue *epilogue, const float *x, float *y);

#endif
