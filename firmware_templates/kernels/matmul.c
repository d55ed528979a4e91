/* SPDX-License-Identifier: Apache-2.0 */
#include "matmul.h"

#include "dot.h"
#include "panel.h"

/* Products are summed in groups of this size, then the sums are added: this limits rounding errors. */
enum { RUN = 32 };

static struct poet_dot row_by_column(const struct poet_matmul *op)
{
    const struct poet_dot dot = {.outer = {1, 0, 0},
                                 .middle = {1, 0, 0},
                                 .inner = {op->inner, op->a_column, op->b_row}};
    return dot;
}

#if POET_HAS_VECTORS

/* A product whose rows and lanes are those of y, and whose k is the inner axis. */
struct product {
    struct poet_panel_matrix b;
    const struct poet_matmul *op;
    const float *a;
    float *y;
};

static void put_columns(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                        const float *sums, int32_t next)
{
    const struct product *product = context;
    const struct poet_matmul *op = product->op;
    const struct poet_dot dot = row_by_column(op);
    for (int32_t i = row; i < row + rows; i++) {
        for (int32_t j = lane; j < lane + lanes; j++) {
            const float sum = sums[(i - row) * next + j - lane];
            product->y[i * op->columns + j] =
                sum == sum ? sum
                           : poet_dot_f32(&dot, RUN, product->a + i * op->a_row,
                                          product->b.numbers + j * op->b_column);
        }
    }
}

static void sum_product(const struct poet_matmul *op, const float *a, const float *b, float *y)
{
    struct product product = {{b, op->inner, op->b_row, op->b_column, op->a_column}, op, a, y};
    const struct poet_panel panel = {
        .rows = op->rows,
        .lanes = op->columns,
        .units = (op->inner + RUN - 1) / RUN,
        .taps = op->inner < RUN ? op->inner : RUN,
        .factors = a,
        .row_next = op->a_row,
        .op = &product,
        .pack = poet_panel_pack_matrix,
        .put = put_columns,
    };
    poet_panel_sum_f32(&panel);
}

#endif

void poet_matmul_f32(const struct poet_matmul *op, const float *a, const float *b, float *y)
{
    for (int32_t n = 0; n < op->batch; n++) {
#if POET_HAS_VECTORS
        sum_product(op, a, b, y);
        y += op->rows * op->columns;
#else
        const struct poet_dot dot = row_by_column(op);
        for (int32_t i = 0; i < op->rows; i++) {
            for (int32_t j = 0; j < op->columns; j++) {
                *y++ = poet_dot_f32(&dot, RUN, a + i * op->a_row, b + j * op->b_column);
            }
        }
#endif
        a += op->rows * op->inner;
        b += op->inner * op->columns;
    }
}
