/* SPDX-License-Identifier: Apache-2.0 */
#include "matmul.h"

#include <stdbool.h>
#include <stddef.h>

#include "dot.h"
#include "panel.h"
#include "product.h"
#include "shapes.h"

/* A pair of matrices whose products go to a sink. */
struct product {
    struct poet_panel_matrix lanes; /* columns of b, or rows of a */
    const struct poet_matmul *op;
    const float *a;
    const float *b;
    const float *bias;
    const struct poet_gradient_sink *y;
    int32_t first;  /* element of y */
    bool by_rows;   /* lanes are rows of a */
    bool continued; /* sums begin with what is in y */
};

static struct poet_dot walk_of(const struct poet_matmul *op)
{
    return (struct poet_dot){.outer = {1, 0, 0},
                             .middle = {1, 0, 0},
                             .inner = {op->inner, op->a_column, op->b_row}};
}

/* The sum of a row of a and a column of b, run by run from element `at` of y on. Apart, as few networks need it. */
static __attribute__((noinline)) float sum_continued(const struct product *of, const float *a, const float *b, int32_t at)
{
    const struct poet_matmul *const op = of->op;
    struct poet_dot dot = walk_of(op);
    float total = of->y->gradient[at];
    for (int32_t left = op->inner; left > 0; left -= op->run) {
        dot.inner.count = left < op->run ? left : op->run;
        total += poet_dot_f32(&dot, op->run, a, b);
        a += op->run * op->a_column;
        b += op->run * op->b_row;
    }
    return total;
}

#if POET_HAS_VECTORS

/* The element of y of a row and a lane of the panel. */
static int32_t element(const struct product *of, int32_t row, int32_t lane)
{
    return of->first + (of->by_rows ? lane : row) * of->op->y_row + (of->by_rows ? row : lane) * of->op->y_column;
}

static void begin_lanes(const void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes, float *sums,
                        int32_t next)
{
    const struct product *const of = context;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t j = 0; j < lanes; j++) {
            sums[i * next + j] = of->y->gradient[element(of, row + i, lane + j)];
        }
    }
}

/* Takes sums of some lanes. One that is NaN is summed again if numbers that complete a run took part in it. */
static void put_lanes(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes, const float *sums,
                      int32_t next)
{
    const struct product *const of = context;
    const struct poet_matmul *const op = of->op;
    const struct poet_dot dot = walk_of(op);
    const bool are_whole = op->inner <= op->run || op->inner % op->run == 0;
    for (int32_t i = 0; i < rows; i++) {
        const float *const of_row = sums + i * next;
        if (are_whole && !of->by_rows && of->bias == NULL && op->y_column == 1) {
            poet_gradient_sink_put_run_f32(of->y, element(of, row + i, lane), lanes, of_row);
            continue;
        }
        for (int32_t j = 0; j < lanes; j++) {
            const int32_t r = of->by_rows ? lane + j : row + i;
            const int32_t c = of->by_rows ? row + i : lane + j;
            const int32_t at = element(of, row + i, lane + j);
            const bool again = !are_whole && of_row[j] != of_row[j];
            const float *const a = of->a + r * op->a_row;
            const float *const b = of->b + c * op->b_column;
            const float sum = !again          ? of_row[j]
                              : of->continued ? sum_continued(of, a, b, at)
                                              : poet_dot_f32(&dot, op->run, a, b);
            poet_gradient_sink_put_f32(of->y, at, of->bias != NULL ? sum + of->bias[c] : sum);
        }
    }
}

static void sum_all(struct product *of)
{
    const struct poet_matmul *const op = of->op;
    of->by_rows = op->b_row == 1 && op->b_column != 1 && op->rows >= 4; /* with less, most lanes would be idle */
    of->lanes = of->by_rows
                    ? (struct poet_panel_matrix){of->a, op->inner, op->a_column, op->a_row, op->b_row}
                    : (struct poet_panel_matrix){of->b, op->inner, op->b_row, op->b_column, op->a_column};
    const struct poet_panel panel = {
        .rows = of->by_rows ? op->columns : op->rows,
        .lanes = of->by_rows ? op->rows : op->columns,
        .units = (op->inner + op->run - 1) / op->run,
        .taps = op->inner < op->run ? op->inner : op->run,
        .factors = of->by_rows ? of->b : of->a,
        .row_next = of->by_rows ? op->b_column : op->a_row,
        .op = of,
        .pack = poet_panel_pack_matrix,
        .begin = of->continued ? begin_lanes : NULL,
        .put = put_lanes,
    };
    poet_panel_sum_f32(&panel);
}

#else

/* The plain form: one result after the other. Inlined, so that loops do not ask whether sums are continued. */
static inline __attribute__((always_inline)) void sum_plain(const struct product *of, bool continued)
{
    const struct poet_matmul *const op = of->op;
    const struct poet_dot dot = walk_of(op);
    const float *a = of->a;
    int32_t first = of->first;
    for (int32_t i = op->rows; i > 0; i--) {
        const float *b = of->b;
        const float *bias = of->bias;
        int32_t at = first;
        for (int32_t j = op->columns; j > 0; j--) {
            float sum = continued        ? sum_continued(of, a, b, at)
                        : op->inner == 1 ? poet_add_product(0.0f, *a, *b)
                                         : poet_dot_f32(&dot, op->run, a, b);
            sum = bias != NULL ? sum + *bias++ : sum;
            poet_gradient_sink_put_f32(of->y, at, sum);
            b += op->b_column;
            at += op->y_column;
        }
        a += op->a_row;
        first += op->y_row;
    }
}

static void sum_all(const struct product *of)
{
    if (of->continued) {
        sum_plain(of, true);
    } else {
        sum_plain(of, false);
    }
}

#endif

static void sum_pairs(const struct poet_matmul *op, const float *a, const float *b, const float *bias,
                      const struct poet_gradient_sink *y, bool continued)
{
    struct product of = {.op = op, .a = a, .b = b, .bias = bias, .y = y, .continued = continued};
    for (int32_t n = 0; n < op->batch; n++) {
        sum_all(&of);
        of.a += op->rows * op->inner;
        of.b += op->inner * op->columns;
        of.first += op->rows * op->columns;
    }
}

/* Whether generated tiles compute a product. */
static inline bool by_tiles(const struct poet_matmul *op)
{
    return !POET_PLAIN_MATMUL || op->tiles != NULL;
}

static void multiply(const struct poet_matmul *op, const float *a, const float *b, const float *bias, float *y,
                     bool continued)
{
    const struct poet_gradient_sink sink = {.gradient = y};
    if (POET_HAS_VFP && by_tiles(op)) {
        poet_tiles_sum_f32(op->tiles, b, a, bias, y);
        return;
    }
    sum_pairs(op, a, b, bias, &sink, continued);
}

void poet_matmul_biased_f32(const struct poet_matmul *op, const float *a, const float *b, const float *bias,
                            float *y)
{
    multiply(op, a, b, bias, y, false);
}

void poet_matmul_f32(const struct poet_matmul *op, const float *a, const float *b, float *y)
{
    multiply(op, a, b, NULL, y, false);
}

void poet_matmul_biased_continued_f32(const struct poet_matmul *op, const float *a, const float *b,
                                      const float *bias, float *y)
{
    multiply(op, a, b, bias, y, true);
}

void poet_matmul_continued_f32(const struct poet_matmul *op, const float *a, const float *b, float *y)
{
    multiply(op, a, b, NULL, y, true);
}

void poet_matmul_update_f32(const struct poet_matmul *op, const float *a, const float *b,
                            const struct poet_update *update, const float *pace, float *w, float *first,
                            float *second, float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    if (POET_HAS_VFP && by_tiles(op)) {
        poet_tiles_apply_f32(op->tiles, b, a, &sink);
        return;
    }
    sum_pairs(op, a, b, NULL, &sink, false);
}
