/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_3x3_narrow.h"

#include <stddef.h>

#include "assembly.h"
#include "conv2d_positions.h"
#include "conv2d_strip.h"

/* A row of x stays in registers for four output channels, each of which is through with the row before the next begins; so
 * there is room for all totals. Padding is left out. */

/* The rows of x and dy at which a row of the kernel meets the input. What is next counts elements. */
struct rows {
    int32_t x_next;  /* from the row of x that would be next to a sample's last one to the next sample's first */
    int32_t dy_next;
    int32_t count;
    int32_t x_first;
    int32_t dy_first;
};

/* What is summed for all weights between an input and four output channels. In this order in assembly. */
struct narrow {
    int32_t dy_other; /* to the next output channel */
    int32_t samples;
    int32_t odd;   /* whether the last column of a kernel that moves by 2 has met padding */
    int32_t x_row; /* to the next row that is met */
    struct rows rows[3];
};

/* The sums of each row, one after the other. */
typedef void sum_narrow_f32(const struct narrow *at, const float *x, const float *dy,
                            float totals[4][9]);

/* Kernels that move by 1 to planes of up to 3 columns, as conv2d_3x3.c has strips of four, and by 2 of up to 4. */
#define WIDTHS(EACH) EACH(1, 1) EACH(2, 1) EACH(3, 1) EACH(1, 2) EACH(2, 2) EACH(3, 2) EACH(4, 2)
#define DECLARE(width, step) sum_narrow_f32 poet_conv2d_narrow_##width##_by_##step##_f32;
WIDTHS(DECLARE)

/* dX of a kernel that moves by 2 from planes of two columns. What is next counts bytes. In this order in assembly. */
struct narrow_backwards {
    int32_t rows; /* of dy */
    int32_t channels;
    int32_t channel_next; /* of dy */
    int32_t weight_next;  /* to the weights of the next channel of dy */
    int32_t odd_width;    /* whether dx has three columns, and not four */
    int32_t odd_height;   /* whether its last row is that under the middle of the kernel */
};

/* The rows of dx of one channel: two for each row of dy. */
void poet_conv2d_narrow_backwards_f32(const struct narrow_backwards *at, const float *dy,
                                      const float *weight, float *dx);

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c.
 *   r0  rows    r1  x    r2, r4-r6  dy    r3, r12  totals    r7  x_row    r8, r9  x_next, dy_next
 *   r10, r12  count, rows to do    r11  samples to do    lr  odd    [sp]  x, dy, dy_other, samples, rows of the kernel to do
 * s1-s8 columns of x, s9-s12 of dy, s13-s15 a row's sums, s16-s18 products, s19-s30 totals. */
__asm__(POET_ASSEMBLY
        "   .macro poet_load to, from, first, last\n"
        "   .if     \\last > \\first\n"
        "   vldmia  \\from\\to, {s\\first-s\\last}\n"
        "   .else\n"
        "   vldmia  \\from\\to, {s\\first}\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_load_last at\n"
        "   vldreq  s\\at, [r1, #4*\\at-4]\n"
        "   .endm\n"
        "   .macro poet_last_product source, gradient, product, sum\n"
        "   itt     eq\n"
        "   vmuleq.f32 s\\product, s\\source, s\\gradient\n"
        "   vaddeq.f32 s\\sum, s\\sum, s\\product\n"
        "   .endm\n"

        /* A column but the first, of which the left tap has met nothing. The right one of the last may have met padding. */
        "   .macro poet_column at, width, step, left\n"
        "   multiply_one \\left, %\\step*\\at, %9+\\at\n"
        "   multiply_one 17, %\\step*\\at+1, %9+\\at\n"
        "   .if     \\at+1 < \\width\n"
        "   multiply_one 18, %\\step*\\at+2, %9+\\at\n"
        "   add_one 15, 18\n"
        "   .endif\n"
        "   .if     \\at > 1\n"
        "   add_one 13, 16\n"
        "   .endif\n"
        "   add_one 14, 17\n"
        "   .if     \\at+1 == \\width\n"
        "   .if     \\step == 2\n"
        "   poet_last_product %2*\\at+2, %9+\\at, 18, 15\n"
        "   .endif\n"
        "   .endif\n"
        "   .endm\n"

        /* A row of one output channel. */
        "   .macro poet_output gradients, total, width, step\n"
        "   poet_load !, \\gradients, 9, %8+\\width\n"
        "   multiply_one 14, 1, 9\n"
        "   .if     \\width > 1\n"
        "   multiply_one 15, 2, 9\n"
        "   poet_column 1, \\width, \\step, 13\n"
        "   .endif\n"
        "   .if     \\width > 2\n"
        "   poet_column 2, \\width, \\step, 16\n"
        "   .endif\n"
        "   .if     \\width > 3\n"
        "   poet_column 3, \\width, \\step, 16\n"
        "   .endif\n"
        "   .if     \\width > 1\n"
        "   add_one \\total, 13\n"
        "   add_one %\\total+2, 15\n"
        "   .elseif \\step == 2\n"
        "   poet_last_product 2, 9, 15, %\\total+2\n"
        "   .endif\n"
        "   add_one %\\total+1, 14\n"
        "   .endm\n"

        /* What is around the loops over samples and rows, whose address is in r12. */
        "   poet_function poet_conv2d_narrow\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0!, {r4-r7}\n"
        "   mov     lr, r6\n"
        "   movs    r6, #3\n"
        "   push    {r1-r2, r4-r6, r12}\n"
        "1: ldmia   r0!, {r8-r12}\n"
        "   ldrd    r1, r2, [sp]\n"
        "   add     r1, r1, r11, lsl #2\n"
        "   add     r2, r2, r12, lsl #2\n"
        "   ldrd    r12, r11, [sp, #8]\n"
        "   add     r4, r2, r12, lsl #2\n"
        "   add     r5, r4, r12, lsl #2\n"
        "   add     r6, r5, r12, lsl #2\n"
        "   movs    r12, #0\n"
        "   vmov    s19, r12\n"
        "   .irp    total, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30\n"
        "   vmov.f32 s\\total, s19\n"
        "   .endr\n"
        "   ldr     r12, [sp, #20]\n"
        "   cmp     r10, #0\n"
        "   it      ne\n"
        "   bxne    r12\n"
        "   .global poet_conv2d_narrow_end\n"
        "   .thumb_func\n"
        "poet_conv2d_narrow_end:\n"
        "   mov     r12, r3\n"
        "   vstmia  r12, {s19-s21}\n"
        "   add     r12, r12, #36\n"
        "   vstmia  r12, {s22-s24}\n"
        "   add     r12, r12, #36\n"
        "   vstmia  r12, {s25-s27}\n"
        "   add     r12, r12, #36\n"
        "   vstmia  r12, {s28-s30}\n"
        "   add     r3, r3, #12\n"
        "   ldr     r12, [sp, #16]\n"
        "   subs    r12, r12, #1\n"
        "   str     r12, [sp, #16]\n"
        "   bne.w   1b\n"
        "   add     sp, sp, #24\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end poet_conv2d_narrow\n"

        "   .macro poet_narrow name, width, step\n"
        "   poet_function \\name\n"
        "   adr     r12, 2f + 1\n"
        "   b.w     poet_conv2d_narrow\n"
        "2: mov     r12, r10\n"
        "3: .if     \\step == 2\n"
        "   poet_load , r1, 1, %2*\\width-1\n"
        "   cmp     lr, #0\n"
        "   it      eq\n"
        "   poet_load_last %2*\\width\n"
        "   .else\n"
        "   poet_load , r1, 1, \\width\n"
        "   .endif\n"
        "   add     r1, r1, r7, lsl #2\n"
        "   poet_output r2, 19, \\width, \\step\n"
        "   poet_output r4, 22, \\width, \\step\n"
        "   poet_output r5, 25, \\width, \\step\n"
        "   poet_output r6, 28, \\width, \\step\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   3b\n"
        "   add     r1, r1, r8, lsl #2\n"
        "   .irp    next, r2, r4, r5, r6\n"
        "   add     \\next, \\next, r9, lsl #2\n"
        "   .endr\n"
        "   subs    r11, r11, #1\n"
        "   bne.w   2b\n"
        "   b.w     poet_conv2d_narrow_end\n"
        "   poet_function_end \\name\n"
        "   .endm\n"
        "   poet_narrow poet_conv2d_narrow_1_by_1_f32, 1, 1\n"
        "   poet_narrow poet_conv2d_narrow_2_by_1_f32, 2, 1\n"
        "   poet_narrow poet_conv2d_narrow_3_by_1_f32, 3, 1\n"
        "   poet_narrow poet_conv2d_narrow_1_by_2_f32, 1, 2\n"
        "   poet_narrow poet_conv2d_narrow_2_by_2_f32, 2, 2\n"
        "   poet_narrow poet_conv2d_narrow_3_by_2_f32, 3, 2\n"
        "   poet_narrow poet_conv2d_narrow_4_by_2_f32, 4, 2\n"
        /* dX: r1, r4  dy    r2, r5  weights    r3  dx    r6  channels left    r7, r8  channel_next, weight_next    r9  rows left
         *   r10, r12  odd_width, odd_height    s0, s1 and s2, s3  a row of dy and the next one    s4-s12  weights    s13-s20  a channel's
         *   sums    s21-s23  products    s24-s31  totals */
        "   poet_function poet_conv2d_narrow_backwards_f32\n"
        "   push    {r4-r10, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0, {r4, r6-r8, r10, r12}\n"
        "   mov     r9, r4\n"
        "1: movs    r4, #0\n"
        "   vmov    s24, r4\n"
        "   .irp    total, 25, 26, 27, 28, 29, 30, 31\n"
        "   vmov.f32 s\\total, s24\n"
        "   .endr\n"
        "   ldr     r6, [r0, #4]\n"
        "   mov     r4, r1\n"
        "   mov     r5, r2\n"
        "2: vldmia  r5, {s4-s12}\n"
        "   cmp     r9, #1\n"
        "   beq.n   3f\n"
        "   vldmia  r4, {s0-s3}\n"
        "   multiply_one 17, 2, 5\n"
        "   multiply_one 18, 3, 4\n"
        "   multiply_one 22, 2, 6\n"
        "   multiply_one 19, 3, 5\n"
        "   multiply_one 20, 3, 6\n"
        "   add_one 18, 22\n"
        "   multiply_one 21, 0, 11\n"
        "   multiply_one 22, 1, 10\n"
        "   multiply_one 23, 0, 12\n"
        "   add_one 17, 21\n"
        "   add_one 18, 22\n"
        "   multiply_one 21, 1, 11\n"
        "   multiply_one 22, 1, 12\n"
        "   add_one 18, 23\n"
        "   add_one 19, 21\n"
        "   add_one 20, 22\n"
        "   b.n     4f\n"
        "3: vldmia  r4, {s0-s1}\n" /* the last row */
        "   multiply_one 18, 1, 10\n"
        "   multiply_one 23, 0, 12\n"
        "   multiply_one 17, 0, 11\n"
        "   multiply_one 19, 1, 11\n"
        "   multiply_one 20, 1, 12\n"
        "   add_one 18, 23\n"
        "4: multiply_one 14, 1, 7\n"
        "   multiply_one 21, 0, 9\n"
        "   multiply_one 13, 0, 8\n"
        "   multiply_one 15, 1, 8\n"
        "   multiply_one 16, 1, 9\n"
        "   add_one 14, 21\n"
        "   .irp    sum, 13, 15, 16, 14, 17, 18, 19, 20\n"
        "   add_one %11+\\sum, \\sum\n"
        "   .endr\n"
        "   add     r4, r4, r7\n"
        "   add     r5, r5, r8\n"
        "   subs    r6, r6, #1\n"
        "   bne.w   2b\n"
        "   adds    r1, r1, #8\n"
        "   cmp     r10, #0\n"
        "   ite     eq\n"
        "   vstmiaeq r3!, {s24-s27}\n"
        "   vstmiane r3!, {s24-s26}\n"
        "   subs    r9, r9, #1\n"
        "   bne.n   5f\n"
        "   cmp     r12, #0\n"
        "   bne.n   6f\n"
        "5: cmp     r10, #0\n"
        "   ite     eq\n"
        "   vstmiaeq r3!, {s28-s31}\n"
        "   vstmiane r3!, {s28-s30}\n"
        "   cmp     r9, #0\n"
        "   bne.w   1b\n"
        "6: vpop    {s16-s31}\n"
        "   pop     {r4-r10, pc}\n"
        "   poet_function_end poet_conv2d_narrow_backwards_f32\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
static inline __attribute__((always_inline)) void sum_rows(const struct narrow *at, int32_t width,
                                                           int32_t step, const float *x,
                                                           const float *dy, float totals[4][9])
{
    const int32_t columns = step == 2 ? 2 * width - at->odd : width;
    for (int32_t i = 0; i < 36; i++) {
        const struct rows *rows = &at->rows[i % 9 / 3];
        const float *s = x + rows->x_first;
        const float *g = dy + rows->dy_first + i / 9 * at->dy_other;
        float total = 0.0f;
        for (int32_t row = 0; row < at->samples * rows->count; row++) {
            float sum = 0.0f;
            for (int32_t column = 0; column < width; column++) {
                const int32_t met = step * column + i % 3 - 1;
                if (met >= 0 && met < columns) {
                    sum += s[met] * g[column];
                }
            }
            total += sum;
            const int32_t last = (row + 1) % rows->count == 0 ? 1 : 0;
            s += at->x_row + last * rows->x_next;
            g += width + last * rows->dy_next;
        }
        totals[i / 9][i % 9] = total;
    }
}

#define DEFINE(width, step) \
    void poet_conv2d_narrow_##width##_by_##step##_f32(const struct narrow *at, const float *x, \
                                                      const float *dy, float totals[4][9]) \
    { \
        sum_rows(at, width, step, x, dy, totals); \
    }
WIDTHS(DEFINE)

void poet_conv2d_narrow_backwards_f32(const struct narrow_backwards *at, const float *dy,
                                      const float *weight, float *dx)
{
    const int32_t size = sizeof *dy;
    const int32_t width = at->odd_width != 0 ? 3 : 4;
    for (int32_t row = 0; row < 2 * at->rows - at->odd_height; row++) {
        for (int32_t column = 0; column < width; column++) {
            float total = 0.0f;
            for (int32_t channel = 0; channel < at->channels; channel++) {
                float sum = 0.0f;
                for (int32_t tap = 0; tap < 9; tap++) {
                    const int32_t i = row + 1 - tap / 3;
                    const int32_t j = column + 1 - tap % 3;
                    if (i >= 0 && j >= 0 && i % 2 + j % 2 == 0 && i < 2 * at->rows && j < 4) {
                        sum += dy[channel * at->channel_next / size + i + j / 2] *
                               weight[channel * at->weight_next / size + tap];
                    }
                }
                total += sum;
            }
            *dx++ = total;
        }
    }
}

#endif

static struct narrow narrow_of(const struct poet_conv2d *op)
{
    struct narrow at = {
        .dy_other = op->out_height * op->out_width,
        .samples = op->batch,
        .odd = op->in_width % 2,
        .x_row = op->stride_height * op->in_width,
    };
    for (int32_t row = 0; row < 3; row++) {
        const struct poet_positions met = poet_positions_of_tap(
            row, op->stride_height, 1, op->in_height, op->out_height);
        at.rows[row] = (struct rows){
            .x_next = op->in_channels * op->in_height * op->in_width - met.count * at.x_row,
            .dy_next = op->out_channels * at.dy_other - met.count * op->out_width,
            .count = met.count,
            .x_first = met.source * op->in_width,
            .dy_first = met.output * op->out_width,
        };
    }
    return at;
}

/* Output channels by fours, of which a group's last may make some again. */
static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    static sum_narrow_f32 *const sums[2][4] = {
        {poet_conv2d_narrow_1_by_1_f32, poet_conv2d_narrow_2_by_1_f32,
         poet_conv2d_narrow_3_by_1_f32, NULL},
        {poet_conv2d_narrow_1_by_2_f32, poet_conv2d_narrow_2_by_2_f32,
         poet_conv2d_narrow_3_by_2_f32, poet_conv2d_narrow_4_by_2_f32},
    };
    sum_narrow_f32 *const sum = sums[op->stride_width - 1][op->out_width - 1];
    const struct narrow at = narrow_of(op);
    const int32_t plane = op->in_height * op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    for (int32_t group = 0; group < op->groups; group++) {
        for (int32_t out = 0; out < group_out; out += 4) {
            const int32_t begin = out + 4 <= group_out ? out : group_out - 4;
            const int32_t first = group * group_out + begin;
            for (int32_t c = 0; c < group_in; c++) {
                float totals[4][9];
                sum(&at, x + c * plane, dy + first * at.dy_other, totals);
                for (int32_t o = out - begin; o < 4; o++) {
                    poet_gradient_sink_put_few_f32(dw, ((first + o) * group_in + c) * 9, 9,
                                                   totals[o]);
                }
            }
        }
        x += group_in * plane;
    }
}

void poet_conv2d_3x3_narrow_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_3x3_narrow_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                       const float *dy,
                                                       const struct poet_update *update,
                                                       const float *pace, float *w, float *first,
                                                       float *second, float *sum)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_3x3_narrow_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                               const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t plane = op->out_height * op->out_width;
    const struct narrow_backwards at = {
        .rows = op->out_height,
        .channels = group_out,
        .channel_next = plane * (int32_t)sizeof *dy,
        .weight_next = group_in * 9 * (int32_t)sizeof *w,
        .odd_width = op->in_width % 2,
        .odd_height = op->in_height % 2,
    };
    for (int32_t n = 0; n < op->batch; n++) {
        const float *weight = w;
        for (int32_t group = 0; group < op->groups; group++) {
            for (int32_t channel = 0; channel < group_in; channel++) {
                poet_conv2d_narrow_backwards_f32(&at, dy, weight + channel * 9, dx);
                dx += op->in_height * op->in_width;
            }
            weight += group_in * group_out * 9;
            dy += group_out * plane;
        }
    }
}
