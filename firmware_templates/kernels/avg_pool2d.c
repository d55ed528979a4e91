/* SPDX-License-Identifier: Apache-2.0 */
#include "avg_pool2d.h"

/* Range of a window without padding, and the divisor of its sum. */
struct window {
    int32_t top;
    int32_t left;
    int32_t bottom;
    int32_t right;
    float divisor;
};

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static struct window window_at(const struct poet_avg_pool2d *op, int32_t i, int32_t j)
{
    const int32_t row = i * op->stride_height - op->padding_top;
    const int32_t column = j * op->stride_width - op->padding_left;
    const int32_t top = larger(row, 0);
    const int32_t left = larger(column, 0);
    const int32_t bottom = smaller(row + op->kernel_height, op->in_height);
    const int32_t right = smaller(column + op->kernel_width, op->in_width);
    const int32_t count = op->count_include_pad != 0 ? op->kernel_height * op->kernel_width
                                                     : (bottom - top) * (right - left);
    const struct window window = {top, left, bottom, right, (float)count};
    return window;
}

void poet_avg_pool2d_forward_f32(const struct poet_avg_pool2d *op, const float *x, float *y)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    for (int32_t i = 0; i < op->out_height; i++) {
        for (int32_t j = 0; j < op->out_width; j++) {
            const struct window window = window_at(op, i, j);
            const float *source = x;
            float *result = y + i * op->out_width + j;
            for (int32_t plane = 0; plane < op->planes; plane++) {
                float total = 0.0f;
                for (int32_t row = window.top; row < window.bottom; row++) {
                    float sum = 0.0f;
                    for (int32_t column = window.left; column < window.right; column++) {
                        sum += source[row * op->in_width + column];
                    }
                    total += sum;
                }
                *result = total / window.divisor;
                source += in_plane;
                result += out_plane;
            }
        }
    }
}

void poet_avg_pool2d_backward_f32(const struct poet_avg_pool2d *op, const float *dy, float *dx)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    for (int32_t k = 0; k < op->planes * in_plane; k++) {
        dx[k] = 0.0f;
    }
    for (int32_t i = 0; i < op->out_height; i++) {
        for (int32_t j = 0; j < op->out_width; j++) {
            const struct window window = window_at(op, i, j);
            const float *gradient = dy + i * op->out_width + j;
            float *result = dx;
            for (int32_t plane = 0; plane < op->planes; plane++) {
                const float share = *gradient / window.divisor;
                for (int32_t row = window.top; row < window.bottom; row++) {
                    for (int32_t column = window.left; column < window.right; column++) {
                        result[row * op->in_width + column] += share;
                    }
                }
                gradient += out_plane;
                result += in_plane;
            }
        }
    }
}

void poet_global_avg_pool_forward_f32(const struct poet_global_avg_pool *op, const float *x,
                                      float *y)
{
    const float count = (float)(op->height * op->width);
    for (int32_t plane = 0; plane < op->planes; plane++) {
        float total = 0.0f;
        for (int32_t i = 0; i < op->height; i++) {
            float sum = 0.0f;
            for (int32_t j = 0; j < op->width; j++) {
                sum += x[j];
            }
            total += sum;
            x += op->width;
        }
        y[plane] = total / count;
    }
}

void poet_global_avg_pool_backward_f32(const struct poet_global_avg_pool *op, const float *dy,
                                       float *dx)
{
    const int32_t count = op->height * op->width;
    for (int32_t plane = 0; plane < op->planes; plane++) {
        const float share = dy[plane] / (float)count;
        for (int32_t k = 0; k < count; k++) {
            dx[k] = share;
        }
        dx += count;
    }
}
