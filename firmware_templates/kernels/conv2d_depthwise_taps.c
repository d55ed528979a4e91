/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_taps.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

#include "assembly.h"
#include "conv2d_positions.h"
#include "conv2d_taps.h"

/* A row of the kernel goes through all rows that it meets; rows of padding are left out. A row's sums begin with their first
 * products: -0 where 0 - 0 would be 0, which added to a total that began as 0 makes no difference.
 *   s0-s8  a row of x, 0 where it is padding    s9-s12  a row of dy    s13-s15  its sums    s16-s18  totals
 *   s19-s21  products    s22  0    s23  all totals
 *   r1, r3  dy and x    r4  samples left    r5  rows    r6-r8  what is next    r9  what loads a row    r10  what sums it
 *   r11, lr  the first of x and dy    r12  rows left */
__asm__(POET_ASSEMBLY
        "   .macro poet_load_row columns\n"
        "   vldmia  r3, {\\columns}\n"
        "   bx      r10\n"
        "   .endm\n"

        "   .macro poet_multiply_column to, source, gradient\n"
        "   multiply_one \\to, \\source, \\gradient\n"
        "   multiply_one %\\to+1, %\\source+1, \\gradient\n"
        "   multiply_one %\\to+2, %\\source+2, \\gradient\n"
        "   .endm\n"
        "   .macro poet_add_three to, what\n"
        "   add_one \\to, \\what\n"
        "   add_one %\\to+1, %\\what+1\n"
        "   add_one %\\to+2, %\\what+2\n"
        "   .endm\n"
        "   .macro poet_sum_row label, step, count, columns\n"
        "\\label:\n"
        "   vldmia  r1!, {\\columns}\n"
        "   add     r3, r3, r6, lsl #2\n"
        "   poet_multiply_column 13, 0, 9\n"
        "   .irp    at, 1, 2, 3\n"
        "   .if     \\at < \\count\n"
        "   poet_multiply_column 19, %\\at*\\step, %9+\\at\n"
        "   poet_add_three 13, 19\n"
        "   .endif\n"
        "   .endr\n"
        "   subs    r12, r12, #1\n"
        "   poet_add_three 16, 13\n"
        "   it      ne\n"
        "   bxne    r9\n"
        "   subs    r4, r4, #1\n"
        "   add     r1, r1, r8, lsl #2\n"
        "   add     r3, r3, r7, lsl #2\n"
        "   mov     r12, r5\n"
        "   it      ne\n"
        "   bxne    r9\n"
        "   .endm\n"

        "   .macro poet_begin_taps name\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s23}\n"
        "   mov     lr, r1\n"
        "   mov     r11, r3\n"
        "   ldmia   r0!, {r6, r9, r10, r12}\n"
        "   push    {r12}\n"
        "   movs    r12, #0\n"
        "   vmov    s22, r12\n"
        "   .irp    zero, 0, 1, 2, 3, 4, 5, 6, 7, 8, 23\n"
        "   vmov.f32 s\\zero, s22\n"
        "   .endr\n"
        "   adr     r12, 3f\n"
        "   add     r9, r9, r12\n"
        "   adr     r12, 2f\n"
        "   ldrh    r10, [r12, r10, lsl #1]\n"
        "   add     r10, r10, r12\n"
        "1: ldmia   r0!, {r1, r3, r4, r5, r7, r8}\n"
        "   cmp     r4, #0\n"
        "   beq.w   9f\n"
        "   .irp    total, 16, 17, 18\n"
        "   vmov.f32 s\\total, s22\n"
        "   .endr\n"
        "   add     r1, lr, r1, lsl #2\n"
        "   add     r3, r11, r3, lsl #2\n"
        "   movs    r12, r5\n"
        "   beq.w   8f\n"
        "   bx      r9\n"
        "   .p2align 2\n"
        "2: .hword  4f + 1 - 2b, 5f + 1 - 2b, 6f + 1 - 2b, 7f + 1 - 2b\n"
        "   .p2align 2\n"
        "3:\n"
        "   .endm\n"

        "   .macro poet_end_taps name, step\n"
        "   poet_sum_row 4, \\step, 1, s9\n"
        "   b.n     8f\n"
        "   poet_sum_row 5, \\step, 2, s9-s10\n"
        "   b.n     8f\n"
        "   poet_sum_row 6, \\step, 3, s9-s11\n"
        "   b.n     8f\n"
        "   poet_sum_row 7, \\step, 4, s9-s12\n"
        "8: vstmia  r2!, {s16-s18}\n"
        "   .irp    total, 16, 17, 18\n"
        "   add_one 23, \\total\n"
        "   .endr\n"
        "   b.n     1b\n"
        "9: add     lr, lr, r1, lsl #2\n"
        "   add     r11, r11, r3, lsl #2\n"
        "   ldr     r12, [sp]\n"
        "   sub     r0, r0, #96\n"
        "   subs    r12, r12, #1\n"
        "   str     r12, [sp]\n"
        "   bne.w   1b\n"
        "   pop     {r12}\n"
        "   vmov.f32 s0, s23\n"
        "   vpop    {s16-s23}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_begin_taps poet_conv2d_depthwise_few_columns_f32\n"
        "   .irp    columns, s0, s0-s1, s0-s2, s0-s3, s0-s4, s0-s5\n"
        "   poet_load_row \\columns\n"
        "   .endr\n"
        "   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s2, s2-s3, s2-s4, s2-s5\n"
        "   poet_load_row \\columns\n"
        "   .endr\n"
        "   poet_end_taps poet_conv2d_depthwise_few_columns_f32, 1\n"

        "   poet_begin_taps poet_conv2d_depthwise_few_columns_by_2_f32\n"
        "   .irp    columns, s0, s0-s1, s0-s2, s0-s3, s0-s4, s0-s5, s0-s6, s0-s7, s0-s8\n"
        "   poet_load_row \\columns\n"
        "   .endr\n"
        "   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s1-s6, s1-s7, s1-s8\n"
        "   poet_load_row \\columns\n"
        "   .endr\n"
        "   poet_end_taps poet_conv2d_depthwise_few_columns_by_2_f32, 2\n"
        "   .noaltmacro\n");

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

static void set_columns(const struct poet_conv2d *op, struct poet_few_columns *at)
{
    const int32_t stride = op->stride_width;
    const int32_t before = op->padding_left;
    const int32_t whole = POET_FEW_COLUMNS * stride + 3 - stride; /* columns that a row of dy meets, at most */
    const int32_t met = least((op->out_width - 1) * stride + 3 - before, op->in_width);
    const int32_t load = before * whole - (before > 1 ? 1 : 0) + met - 1;
    at->row_next = op->stride_height * op->in_width;
    at->load = (uint32_t)(6 * load) + 1u;
    at->others = op->out_width - 1;
}

static void set_rows(const struct poet_conv2d *op, struct poet_few_columns *at)
{
    const int32_t x_sample = op->groups * op->in_height * op->in_width;
    const int32_t dy_sample = op->groups * op->out_height * op->out_width;
    for (int32_t row = 0; row < 3; row++) {
        const struct poet_positions rows = poet_positions_of_tap(
            row, op->stride_height, op->padding_top, op->in_height, op->out_height);
        at->rows[row] = (struct poet_met_rows){
            .dy_begin = rows.output * op->out_width,
            .x_begin = rows.source * op->in_width,
            .samples = op->batch,
            .rows = rows.count,
            .x_next = x_sample - rows.count * at->row_next,
            .dy_next = dy_sample - rows.count * op->out_width,
        };
    }
    at->rows[3] = (struct poet_met_rows){
        .dy_begin = op->out_height * op->out_width,
        .x_begin = op->in_height * op->in_width,
    };
}

/* Puts a channel's, which come to `sum` and are in their place already if that is memory. Those that a zero for padding may have
 * made NaN are taken again. */
static void put_taps(const struct poet_conv2d *op, float sum, float taps[9], const float *x,
                     const float *dy, const struct poet_gradient_sink *dw, int32_t channel)
{
    for (int32_t row = 0; sum != sum && row < 3; row++) {
        const struct poet_positions rows = poet_positions_of_tap(
            row, op->stride_height, op->padding_top, op->in_height, op->out_height);
        poet_conv2d_sum_taps_again_f32(op, &rows, x, dy, taps + 3 * row);
    }
    if (dw->gradient == NULL) {
        poet_gradient_sink_put_run_f32(dw, 9 * channel, 9, taps);
    }
}

void poet_conv2d_depthwise_put_taps_f32(const struct poet_conv2d *op,
                                        poet_add_taps_f32 *add_taps, const void *runs,
                                        const float *x, const float *dy,
                                        const struct poet_gradient_sink *dw)
{
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    for (int32_t channel = 0; channel < op->groups; channel++) {
        float few[9];
        float *taps = dw->gradient != NULL ? dw->gradient + 9 * channel : few;
        for (int32_t tap = 0; tap < 9; tap++) {
            taps[tap] = 0.0f;
        }
        for (int32_t n = 0; n < op->batch; n++) {
            const int32_t other = n * op->groups;
            add_taps(runs, dy + other * dy_plane, taps, x + other * x_plane);
        }
        const float sum = taps[0] + taps[1] + taps[2] + (taps[3] + taps[4] + taps[5]) +
                          (taps[6] + taps[7] + taps[8]);
        put_taps(op, sum, taps, x, dy, dw, channel);
        x += x_plane;
        dy += dy_plane;
    }
}

void poet_conv2d_depthwise_few_taps_f32(const struct poet_conv2d *op,
                                        poet_sum_few_columns_f32 *sum_taps, const float *x,
                                        const float *dy, const struct poet_gradient_sink *dw)
{
    struct poet_few_columns at;
    set_columns(op, &at);
    set_rows(op, &at);
    at.channels = dw->gradient != NULL ? op->groups : 1;
    for (int32_t first = 0; first < op->groups; first += at.channels) {
        float few[9];
        float *taps = dw->gradient != NULL ? dw->gradient : few;
        const float sum = sum_taps(&at, dy, taps, x);
        for (int32_t channel = 0; (sum != sum || taps == few) && channel < at.channels; channel++) {
            put_taps(op, sum, taps + 9 * channel, x + channel * at.rows[3].x_begin,
                     dy + channel * at.rows[3].dy_begin, dw, first);
        }
        x += at.rows[3].x_begin;
        dy += at.rows[3].dy_begin;
    }
}

#endif
