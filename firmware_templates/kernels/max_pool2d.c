/* SPDX-License-Identifier: Apache-2.0 */
#include "max_pool2d.h"

#include <stdbool.h>

#include "fpu.h"
#include "poet_math.h"
#include "unroll.h"

/* Inlined, as callers pass constants for some arguments. */
#define INLINE static inline __attribute__((always_inline))
#define UNROLLED POET_UNROLL(2)
#define WORD_BITS 32

/* Range [first, end) of a window along one axis that is not padding. */
struct span {
    int32_t first;
    int32_t end;
};

static struct span span_of(int32_t position, int32_t kernel, int32_t stride, int32_t padding,
                           int32_t extent)
{
    const int32_t start = position * stride - padding;
    const int32_t end = start + kernel;
    const struct span span = {start > 0 ? start : 0, end < extent ? end : extent};
    return span;
}

/* Key by which values are compared. Without a floating-point unit it is an integer: equal for both zeros, and the largest one for
 * NaN. */
#if POET_HAS_FPU
typedef float order;

INLINE order order_of(float x)
{
    return x;
}

INLINE bool is_above(order x, order largest)
{
    return x > largest || x != x;
}
#else
typedef int32_t order;

INLINE order order_of(float x)
{
    const int32_t bits = (int32_t)poet_float_bits(x);
    const int32_t rank = bits < 0 ? INT32_MIN - bits : bits;
    return rank < -0x7f800000 ? INT32_MAX : rank;
}

INLINE bool is_above(order x, order largest)
{
    return x > largest;
}
#endif

/* First maximum within a number of rows and columns; NaN counts as the maximum. */
INLINE const float *first_of(const float *row, int32_t width, int32_t rows, int32_t columns)
{
    const float *best = row;
    order largest = order_of(*best);
    UNROLLED
    for (int32_t i = 0; i < rows; i++) {
        UNROLLED
        for (int32_t k = 0; k < columns; k++) {
            const order x = order_of(row[k]);
            if (is_above(x, largest)) {
                largest = x;
                best = row + k;
            }
        }
        row += width;
    }
    return best;
}

/* Index in the feature map of the first maximum of an output's window. */
INLINE const float *first_maximum(const struct poet_max_pool2d *op, const float *plane, int32_t i,
                                  int32_t j, bool whole)
{
    if (whole) {
        return first_of(plane + i * op->stride_height * op->in_width + j * op->stride_width,
                        op->in_width, 2, 2);
    }
    const struct span rows =
        span_of(i, op->kernel_height, op->stride_height, op->padding_top, op->in_height);
    const struct span columns =
        span_of(j, op->kernel_width, op->stride_width, op->padding_left, op->in_width);
    return first_of(plane + rows.first * op->in_width + columns.first, op->in_width,
                    rows.end - rows.first, columns.end - columns.first);
}

INLINE void forward(const struct poet_max_pool2d *op, const float *x, float *y, bool whole)
{
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t i = 0; i < op->out_height; i++) {
            for (int32_t j = 0; j < op->out_width; j++) {
                *y++ = *first_maximum(op, x, i, j, whole);
            }
        }
        x += op->in_height * op->in_width;
    }
}

void poet_max_pool2d_forward_f32(const struct poet_max_pool2d *op, const float *x, float *y)
{
    forward(op, x, y, false);
}

void poet_max_pool2d_2x2_forward_f32(const struct poet_max_pool2d *op, const float *x, float *y)
{
    forward(op, x, y, true);
}

INLINE void backward(const struct poet_max_pool2d *op, const float *x, const float *dy, float *dx,
                     bool whole)
{
    const int32_t in_plane = op->in_height * op->in_width;
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t k = 0; k < in_plane; k++) {
            dx[k] = 0.0f;
        }
        for (int32_t i = 0; i < op->out_height; i++) {
            for (int32_t j = 0; j < op->out_width; j++) {
                dx[first_maximum(op, x, i, j, whole) - x] += *dy++;
            }
        }
        x += in_plane;
        dx += in_plane;
    }
}

void poet_max_pool2d_backward_f32(const struct poet_max_pool2d *op, const float *x, const float *dy,
                                  float *dx)
{
    backward(op, x, dy, dx, false);
}

void poet_max_pool2d_2x2_backward_f32(const struct poet_max_pool2d *op, const float *x,
                                      const float *dy, float *dx)
{
    backward(op, x, dy, dx, true);
}

void poet_max_pool2d_shared_backward_f32(const struct poet_max_pool2d *op, const float *x,
                                         const float *dy, float *dx)
{
    const int32_t in_plane = op->in_height * op->in_width;
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t k = 0; k < in_plane; k++) {
            dx[k] = 0.0f;
        }
        for (int32_t i = 0; i < op->out_height; i++) {
            const struct span rows =
                span_of(i, op->kernel_height, op->stride_height, op->padding_top, op->in_height);
            for (int32_t j = 0; j < op->out_width; j++) {
                const struct span columns =
                    span_of(j, op->kernel_width, op->stride_width, op->padding_left, op->in_width);
                const float *best = first_maximum(op, x, i, j, false);
                const order largest = order_of(*best);
                int32_t count = 0;
                for (int32_t row = rows.first; row < rows.end; row++) {
                    for (int32_t column = columns.first; column < columns.end; column++) {
                        count += order_of(x[row * op->in_width + column]) == largest;
                    }
                }
                if (count <= 1) { /* 0: NaN, which is equal to nothing */
                    dx[best - x] += *dy++;
                    continue;
                }
                const float share = *dy++ / (float)count;
                for (int32_t row = rows.first; row < rows.end; row++) {
                    for (int32_t column = columns.first; column < columns.end; column++) {
                        const int32_t k = row * op->in_width + column;
                        dx[k] += order_of(x[k]) == largest ? share : 0.0f;
                    }
                }
            }
        }
        x += in_plane;
        dx += in_plane;
    }
}

/* Bits of an index: a power of two, so that none lies in two words. */
INLINE int32_t index_bits(const struct poet_max_pool2d *op)
{
    int32_t bits = 1;
    while (bits < WORD_BITS && op->kernel_height * op->kernel_width > 1 << bits) {
        bits *= 2;
    }
    return bits;
}

INLINE void indices(const struct poet_max_pool2d *op, const float *x, int32_t *words, bool whole)
{
    const int32_t bits = whole ? 2 : index_bits(op);
    uint32_t word = 0u;
    int32_t shift = 0;
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t i = 0; i < op->out_height; i++) {
            for (int32_t j = 0; j < op->out_width; j++) {
                const int32_t place = (int32_t)(first_maximum(op, x, i, j, whole) - x);
                const int32_t row = place / op->in_width - (i * op->stride_height - op->padding_top);
                const int32_t column = place % op->in_width - (j * op->stride_width - op->padding_left);
                word |= (uint32_t)(row * op->kernel_width + column) << shift;
                shift += bits;
                if (shift == WORD_BITS) {
                    *words++ = (int32_t)word;
                    word = 0u;
                    shift = 0;
                }
            }
        }
        x += op->in_height * op->in_width;
    }
    if (shift != 0) {
        *words = (int32_t)word;
    }
}

void poet_max_pool2d_indices_f32(const struct poet_max_pool2d *op, const float *x, int32_t *words)
{
    indices(op, x, words, false);
}

void poet_max_pool2d_2x2_indices_f32(const struct poet_max_pool2d *op, const float *x, int32_t *words)
{
    indices(op, x, words, true);
}

INLINE void indexed_backward(const struct poet_max_pool2d *op, const int32_t *words, const float *dy, float *dx,
                             bool whole)
{
    const int32_t bits = whole ? 2 : index_bits(op);
    const int32_t width = whole ? 2 : op->kernel_width;
    const uint32_t lowest = bits == WORD_BITS ? ~0u : (1u << bits) - 1u;
    const int32_t in_plane = op->in_height * op->in_width;
    int32_t shift = 0;
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t k = 0; k < in_plane; k++) {
            dx[k] = 0.0f;
        }
        for (int32_t i = 0; i < op->out_height; i++) {
            for (int32_t j = 0; j < op->out_width; j++) {
                const int32_t index = (int32_t)((uint32_t)*words >> shift & lowest);
                const int32_t row = i * op->stride_height - op->padding_top + index / width;
                const int32_t column = j * op->stride_width - op->padding_left + index % width;
                dx[row * op->in_width + column] += *dy++;
                shift += bits;
                if (shift == WORD_BITS) {
                    words++;
                    shift = 0;
                }
            }
        }
        dx += in_plane;
    }
}

void poet_max_pool2d_indexed_backward_f32(const struct poet_max_pool2d *op, const int32_t *words, const float *dy,
                                          float *dx)
{
    indexed_backward(op, words, dy, dx, false);
}

void poet_max_pool2d_2x2_indexed_backward_f32(const struct poet_max_pool2d *op, const int32_t *words, const float *dy,
                                              float *dx)
{
    indexed_backward(op, words, dy, dx, true);
}
