/* SPDX-License-Identifier: Apache-2.0 */
#include "max_pool2d.h"

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 2")

/* The part of a window along one axis that is not padding: [first, end). */
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

/* The first maximum of so many rows and columns. */
INLINE const float *first_of(const float *row, int32_t width, int32_t rows, int32_t columns)
{
    const float *best = row;
    float largest = *best;
    UNROLLED
    for (int32_t i = 0; i < rows; i++) {
        UNROLLED
        for (int32_t k = 0; k < columns; k++) {
            if (row[k] > largest) {
                largest = row[k];
                best = row + k;
            }
        }
        row += width;
    }
    return best;
}

/* Where in the plane the first maximum of a window is. */
INLINE const float *first_maximum(const float *plane, int32_t width, struct span rows,
                                  struct span columns)
{
    const float *first = plane + rows.first * width + columns.first;
    const int32_t height = rows.end - rows.first;
    const int32_t length = columns.end - columns.first;
    return height == 2 && length == 2 ? first_of(first, width, 2, 2)
                                      : first_of(first, width, height, length);
}

void poet_max_pool2d_forward_f32(const struct poet_max_pool2d *op, const float *x, float *y)
{
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t i = 0; i < op->out_height; i++) {
            const struct span rows = span_of(i, op->kernel_height, op->stride_height,
                                             op->padding_top, op->in_height);
            for (int32_t j = 0; j < op->out_width; j++) {
                const struct span columns = span_of(j, op->kernel_width, op->stride_width,
                                                    op->padding_left, op->in_width);
                *y++ = *first_maximum(x, op->in_width, rows, columns);
            }
        }
        x += op->in_height * op->in_width;
    }
}

void poet_max_pool2d_backward_f32(const struct poet_max_pool2d *op, const float *x, const float *dy,
                                  float *dx)
{
    const int32_t in_plane = op->in_height * op->in_width;
    for (int32_t plane = 0; plane < op->planes; plane++) {
        for (int32_t k = 0; k < in_plane; k++) {
            dx[k] = 0.0f;
        }
        for (int32_t i = 0; i < op->out_height; i++) {
            const struct span rows = span_of(i, op->kernel_height, op->stride_height,
                                             op->padding_top, op->in_height);
            for (int32_t j = 0; j < op->out_width; j++) {
                const struct span columns = span_of(j, op->kernel_width, op->stride_width,
                                                    op->padding_left, op->in_width);
                dx[first_maximum(x, op->in_width, rows, columns) - x] += *dy++;
            }
        }
        x += in_plane;
        dx += in_plane;
    }
}
