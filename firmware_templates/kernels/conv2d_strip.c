/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_strip.h"

#include <stdbool.h>

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers join no loads of floats, and here all registers hold some. In strips:
 *   s0-s5    a row of the source, 0 where it is padding    s8-s10, s11-s13  a row of weights of either channel
 *   s16-s23  a channel's sums                              s24-s31          totals
 *   s6, s7, s14, s15  products
 * poet_begin says which registers are what in the other functions. */
__asm__(POET_ASSEMBLY POET_STRIP_ASSEMBLY
        "   .macro set_two to, too, from\n"
        "   vmov    s\\to, s\\too, \\from, \\from\n"
        "   .endm\n"

        "   .macro poet_multiply to, source, weight\n"
        "   multiply_one %\\to, %\\source, \\weight\n"
        "   multiply_one %\\to+1, %\\source+1, \\weight\n"
        "   multiply_one %\\to+2, %\\source+2, \\weight\n"
        "   multiply_one %\\to+3, %\\source+3, \\weight\n"
        "   .endm\n"

        "   .macro poet_add to, source, weight\n"
        "   multiply_one 6, %\\source, \\weight\n"
        "   multiply_one 7, %\\source+1, \\weight\n"
        "   multiply_one 14, %\\source+2, \\weight\n"
        "   multiply_one 15, %\\source+3, \\weight\n"
        "   add_one %\\to, 6\n"
        "   add_one %\\to+1, 7\n"
        "   add_one %\\to+2, 14\n"
        "   add_one %\\to+3, 15\n"
        "   .endm\n"

        /* The products of one row of the kernel, whose taps meet the source from these columns on. */
        "   .macro poet_row begin, first, second, third\n"
        "   vldmia  r1, {s1-s4}\n"
        "   it      pl\n"
        "   vldrpl  s0, [r1, #-4]\n"
        "   it      cc\n"
        "   vldrcc  s5, [r1, #16]\n"
        "   vldmia  r2!, {s8-s10}\n"
        "   vldmia  r7!, {s11-s13}\n"
        "   poet_\\begin 16, \\first, 8\n"
        "   poet_\\begin 20, \\first, 11\n"
        "   poet_add 16, \\second, 9\n"
        "   poet_add 20, \\second, 12\n"
        "   poet_add 16, \\third, 10\n"
        "   poet_add 20, \\third, 13\n"
        "   .endm\n"

        /* Rows of strips, and each one's beginning and end, around what sums one: r12 on entry.
         *   r1  source      r2, r7  weights of either channel    r3   result           r4-r6, r12  what struct poet_strips
         *   r8  channels    r9      columns to the last strip    r10  rows             begins with, edges
         *   r11 source, where the strip begins                   lr   what sums it
         *   [sp]  weights, where the strip begins    [sp, #68]  source, weights and result on entry */
        "   poet_function poet_conv2d_strips\n"
        "   push    {r1-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   push    {r2}\n"
        "   mov     lr, r12\n"
        "4: ldmia   r0, {r4-r6}\n"
        "   add     r3, sp, #68\n"
        "   ldmia   r3, {r1-r3}\n"
        "   add     r12, r0, #56\n"
        "   ldmia   r12, {r7-r9}\n"
        "   add     r11, r1, r7, lsl #2\n"
        "   add     r2, r2, r8, lsl #2\n"
        "   add     r3, r3, r9, lsl #2\n"
        "   str     r2, [sp]\n"
        "   ldr     r10, [r0, #36]\n"
        "1: ldr     r9, [r0, #40]\n"
        "   ldr     r12, [r0, #20]\n"
        "   orr     r12, r12, #0x80000000\n"
        "2: cmp     r9, #0\n"
        "   it      ne\n"
        "   bicne   r12, r12, #0x20000000\n"
        "   mov     r1, r11\n"
        "   ldr     r2, [sp]\n"
        "   movs    r7, #0\n"
        "   vmov    s0, r7\n"
        "   .irp    total, 24, 26, 28, 30\n"
        "   set_two %\\total, %1+\\total, r7\n"
        "   .endr\n"
        "   ldr     r7, [r0, #12]\n"
        "   ldr     r8, [r0, #16]\n"
        "   add     r7, r2, r7, lsl #2\n"
        "   bx      lr\n"
        "   .global poet_conv2d_strips_end\n"
        "   .type   poet_conv2d_strips_end, %function\n"
        "   .thumb_func\n"
        "poet_conv2d_strips_end:\n"
        "   add     r8, r0, #24\n"
        "   vldmia  r8, {s0-s1}\n"
        "   ldr     r8, [r0, #32]\n"
        "   .irp    total, 24, 25, 26, 27\n"
        "   add_one \\total, 0\n"
        "   add_one %4+\\total, 1\n"
        "   .endr\n"
        "   add     r8, r3, r8, lsl #2\n"
        "   vstmia  r3, {s24-s27}\n"
        "   vstmia  r8, {s28-s31}\n"
        "   cmp     r9, #0\n"
        "   beq.n   3f\n"
        "   ldr     r12, [r0, #20]\n"
        "   ldr     r7, [r0, #44]\n"
        "   cmp     r9, #4\n"
        "   ite     lt\n"
        "   movlt   r8, r9\n"
        "   movge   r8, #4\n"
        "   sub     r9, r9, r8\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   mla     r11, r8, r7, r11\n"
        "   b.n     2b\n"
        "3: ldr     r8, [r0, #48]\n"
        "   ldr     r7, [r0, #52]\n"
        "   add     r11, r11, r8, lsl #2\n"
        "   add     r3, r3, r7, lsl #2\n"
        "   subs    r10, r10, #1\n"
        "   bne.n   1b\n"
        "   ldr     r8, [r0, #68]\n"
        "   adds    r0, r0, #72\n"
        "   cmp     r8, #0\n"
        "   bne.n   4b\n"
        "   add     sp, sp, #4\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r1-r11, pc}\n"
        "   poet_function_end poet_conv2d_strips\n"

        "   .macro poet_strip name, first, second, third\n"
        "   poet_begin_strip \\name, 5\n"
        "   poet_row multiply, \\first, \\second, \\third\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_row add, \\first, \\second, \\third\n"
        "   beq.w   3f\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_row add, \\first, \\second, \\third\n"
        "3:\n"
        "   poet_end_strip\n"
        "   poet_function_end \\name\n"
        "   .endm\n"
        "   poet_strip poet_conv2d_strips_f32, 0, 1, 2\n"
        "   poet_strip poet_conv2d_strips_backwards_f32, 2, 1, 0\n"

        /* Two rows of one channel: s0-s5 a row of the source, s7-s9 and s10-s12 rows of weights, s6, s13-s15 products. */
        "   .macro poet_tall_load\n"
        "   vldmia  r1, {s1-s4}\n"
        "   it      pl\n"
        "   vldrpl  s0, [r1, #-4]\n"
        "   it      cc\n"
        "   vldrcc  s5, [r1, #16]\n"
        "   .endm\n"
        "   .macro poet_tall_add to, source, weight\n"
        "   multiply_one 6, %\\source, \\weight\n"
        "   multiply_one 13, %\\source+1, \\weight\n"
        "   multiply_one 14, %\\source+2, \\weight\n"
        "   multiply_one 15, %\\source+3, \\weight\n"
        "   add_one %\\to, 6\n"
        "   add_one %\\to+1, 13\n"
        "   add_one %\\to+2, 14\n"
        "   add_one %\\to+3, 15\n"
        "   .endm\n"
        "   .macro poet_tall_row begin, to, weight, first, second, third\n"
        "   poet_\\begin \\to, \\first, \\weight\n"
        "   poet_tall_add \\to, \\second, %1+\\weight\n"
        "   poet_tall_add \\to, \\third, %2+\\weight\n"
        "   .endm\n"
        "   .macro poet_tall_strip name, taps:vararg\n"
        "   poet_begin_strip \\name, 5\n"
        "   vldmia  r2!, {s7-s12}\n"
        "   beq.w   5f\n"
        "   poet_tall_load\n"
        "   poet_tall_row multiply, 16, 7, \\taps\n"
        "   add     r1, r1, r4, lsl #2\n"
        "3: poet_tall_load\n"
        "   poet_tall_row tall_add, 16, 10, \\taps\n"
        "   poet_tall_row multiply, 20, 7, \\taps\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_tall_load\n"
        "   vldmia  r2!, {s7-s9}\n"
        "   poet_tall_row tall_add, 16, 7, \\taps\n"
        "   poet_tall_row tall_add, 20, 10, \\taps\n"
        "   bvs.n   4f\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_tall_load\n"
        "   poet_tall_row tall_add, 20, 7, \\taps\n"
        "4:\n"
        "   poet_end_strip\n"
        "5: mov.w   r7, #0\n"
        "   set_two 16, 17, r7\n"
        "   set_two 18, 19, r7\n"
        "   b.w     3b\n"
        "   poet_function_end \\name\n"
        "   .endm\n"
        "   poet_tall_strip poet_conv2d_tall_strips_f32, 0, 1, 2\n"
        "   poet_tall_strip poet_conv2d_tall_strips_backwards_f32, 2, 1, 0\n"

        /* Products of columns of x, from s0 on, and one output channel's gradients. */
        "   .macro poet_taps gradients, loaded, first, second, third, columns:vararg\n"
        "   vldmia  \\gradients!, {\\loaded}\n"
        "   .irp    at, \\columns\n"
        "   multiply_one 12, \\at, %8+\\at\n"
        "   multiply_one 13, %1+\\at, %8+\\at\n"
        "   multiply_one 14, %2+\\at, %8+\\at\n"
        "   add_one \\first, 12\n"
        "   add_one \\second, 13\n"
        "   add_one \\third, 14\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_all_taps loaded, columns:vararg\n"
        "   poet_taps r2, \\loaded, 16, 17, 18, \\columns\n"
        "   poet_taps r0, \\loaded, 19, 20, 21, \\columns\n"
        "   poet_taps r9, \\loaded, 22, 23, 24, \\columns\n"
        "   poet_taps r8, \\loaded, 25, 26, 27, \\columns\n"
        "   .endm\n"
        "   .macro poet_begin_taps\n"
        "   .irp    sum, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"
        "   vmov.f32 s\\sum, s15\n"
        "   .endr\n"
        "   vldmia  r1!, {s1}\n"
        "   .endm\n"
        "   .macro poet_end_taps\n"
        "   vldmia  r3, {s0-s11}\n"
        "   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n"
        "   add_one \\total, %16+\\total\n"
        "   .endr\n"
        "   vstmia  r3, {s0-s11}\n"
        "   .endm\n"

        /* r1      x                r4, r12  samples, rows left    r5, r6    rows, strips
         * r2, r0, r9, r8  dy       lr       strips left           r10, r11  what is next
         * s8-s11  gradients    s12-s14  products    s15  0    s16-s27  a row's sums */
        "   .macro poet_begin name, odd\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0, {r4-r6, r8, r10, r11}\n"
        "   .ifnb   \\odd\n"
        "   ldr     r7, [r0, #24]\n"
        "   .endif\n"
        "   add     r0, r2, r8, lsl #2\n"
        "   add     r9, r0, r8, lsl #2\n"
        "   add     r8, r9, r8, lsl #2\n"
        "   movs    r12, #0\n"
        "   vmov    s15, r12\n"
        "1: mov     r12, r5\n"
        "2: mov     lr, r6\n"
        "   .endm\n"

        /* On to the next row, and the next sample. */
        "   .macro poet_end name\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        "   add     r1, r1, r10, lsl #2\n"
        "   .irp    next, r2, r0, r9, r8\n"
        "   add     \\next, \\next, r11, lsl #2\n"
        "   .endr\n"
        "   subs    r4, r4, #1\n"
        "   bne.w   1b\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_begin poet_conv2d_tap_rows_f32\n"
        "   poet_begin_taps\n"
        "3: subs    lr, lr, #1\n"
        "   ite     ne\n"
        "   vldmiane r1!, {s2-s5}\n"
        "   vldmiaeq r1!, {s2-s4}\n"
        "   it      eq\n"
        "   vmoveq.f32 s5, s15\n"
        "   poet_all_taps s8-s11, 0, 1, 2, 3\n"
        "   vmov.f32 s0, s4\n"
        "   vmov.f32 s1, s5\n"
        "   bne.w   3b\n"
        "   poet_end_taps\n"
        "   poet_end poet_conv2d_tap_rows_f32\n"

        /* Here r7 is the columns that are left. */
        "   poet_begin poet_conv2d_tap_odd_rows_f32, odd\n"
        "   poet_begin_taps\n"
        "3: vldmia  r1!, {s2-s5}\n"
        "   poet_all_taps s8-s11, 0, 1, 2, 3\n"
        "   vmov.f32 s0, s4\n"
        "   vmov.f32 s1, s5\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   3b\n"
        "   mov     lr, r7\n"
        "4: subs    lr, lr, #1\n"
        "   ite     ne\n"
        "   vldmiane r1!, {s2}\n"
        "   vmoveq.f32 s2, s15\n"
        "   poet_all_taps s8, 0\n"
        "   vmov.f32 s0, s1\n"
        "   vmov.f32 s1, s2\n"
        "   bne.w   4b\n"
        "   poet_end_taps\n"
        "   poet_end poet_conv2d_tap_odd_rows_f32\n"

        /* A channel of the source, s0-s7, and its weights to two channels of results, s16-s23 and s24-s31. */
        "   .macro poet_products source, weight, sum\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %12+\\at, %\\source+\\at, \\weight\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\sum+\\at, %12+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_channel weight, other\n"
        "   vldmia  r12, {s0-s7}\n"
        "   add     r12, r12, r6, lsl #2\n"
        "   poet_products 0, \\weight, 16\n"
        "   poet_products 4, \\weight, 20\n"
        "   poet_products 0, \\other, 24\n"
        "   poet_products 4, \\other, 28\n"
        "   .endm\n"

        /* r1, r12  source    r2, lr  weights    r3  result    r4, r0  channels, left    r5  pairs left
         * r6  source_next    r7  weight_next    r8  result_next    r9, r10  shifts, shift_next */
        "   .macro poet_begin_bursts name\n"
        "   poet_function \\name\n"
        "   push    {r4-r10, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0, {r4-r10}\n"
        "1: mov     r12, r1\n"
        "   movs    r0, #0\n"
        "   .irp    sum, 16, 18, 20, 22, 24, 26, 28, 30\n"
        "   set_two %\\sum, %1+\\sum, r0\n"
        "   .endr\n"
        "   .endm\n"

        "   .macro poet_end_bursts name\n"
        "   vldmia  r9, {s0-s1}\n"
        "   add     r9, r9, r10, lsl #2\n"
        "   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   add_one \\sum, 0\n"
        "   add_one %8+\\sum, 1\n"
        "   .endr\n"
        "   vstmia  r3, {s16-s23}\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   vstmia  r3, {s24-s31}\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   subs    r5, r5, #1\n"
        "   bne.w   1b\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r10, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_begin_bursts poet_conv2d_bursts_f32\n"
        "   add     lr, r2, r7, lsl #2\n"
        "   lsrs    r0, r4, #1\n"
        "   bcc.n   2f\n"
        "   vldmia  r2!, {s8}\n"
        "   vldmia  lr!, {s10}\n"
        "   poet_channel 8, 10\n"
        "2: cbnz    r0, 3f\n"
        "   b.w     4f\n"
        "3: vldmia  r2!, {s8-s9}\n"
        "   vldmia  lr!, {s10-s11}\n"
        "   poet_channel 8, 10\n"
        "   poet_channel 9, 11\n"
        "   subs    r0, r0, #1\n"
        "   bne.w   3b\n"
        "4: mov     r2, lr\n"
        "   poet_end_bursts poet_conv2d_bursts_f32\n"

        "   poet_begin_bursts poet_conv2d_bursts_backwards_f32\n"
        "   mov     lr, r2\n"
        "   mov     r0, r4\n"
        "3: vldmia  lr, {s8-s9}\n"
        "   add     lr, lr, r7, lsl #2\n"
        "   poet_channel 8, 9\n"
        "   subs    r0, r0, #1\n"
        "   bne.w   3b\n"
        "   add     r2, r2, #8\n"
        "   poet_end_bursts poet_conv2d_bursts_backwards_f32\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define UNROLLED _Pragma("GCC unroll 4")

/* Four columns, and those beside them. */
static inline __attribute__((always_inline)) void
load_row(const float *source, uint32_t edges, float columns[POET_STRIP + 2])
{
    columns[0] = (edges & POET_LEFT_EDGE) != 0u ? 0.0f : source[-1];
    UNROLLED
    for (int32_t i = 0; i < POET_STRIP; i++) {
        columns[1 + i] = source[i];
    }
    columns[POET_STRIP + 1] = (edges & POET_RIGHT_EDGE) != 0u ? 0.0f : source[POET_STRIP];
}

static inline __attribute__((always_inline)) void
add_row(const float columns[POET_STRIP + 2], const float *weight, bool backwards,
        float sums[POET_STRIP])
{
    UNROLLED
    for (int32_t tap = 0; tap < 3; tap++) {
        UNROLLED
        for (int32_t i = 0; i < POET_STRIP; i++) {
            sums[i] += columns[i + (backwards ? 2 - tap : tap)] * weight[tap];
        }
    }
}

static inline __attribute__((always_inline)) void
sum_strip(const struct poet_strips *strips, uint32_t edges, const float *source,
          const float *weight, float *result, bool backwards)
{
    const int32_t rows = (edges & POET_TWO_ROWS) != 0u ? 2 : 3;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strips->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = 0; row < rows; row++) {
            float columns[POET_STRIP + 2];
            load_row(source, edges, columns);
            add_row(columns, weight, backwards, sums[0]);
            add_row(columns, weight + strips->weight_other, backwards, sums[1]);
            weight += 3;
            source += row + 1 < rows ? strips->row_next : strips->channel_next;
        }
        poet_add_strips(sums, totals);
        weight += strips->weight_next;
    }
    poet_put_strips(strips, totals, result);
}

static inline __attribute__((always_inline)) void
sum_tall_strip(const struct poet_strips *strips, uint32_t edges, const float *source,
               const float *weight, float *result, bool backwards)
{
    const int32_t first = (edges & POET_FIRST_CUT) != 0u ? 1 : 0;
    const int32_t last = (edges & POET_LAST_CUT) != 0u ? 2 : 3;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strips->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = first; row <= last; row++) {
            float columns[POET_STRIP + 2];
            load_row(source, edges, columns);
            if (row < 3) {
                add_row(columns, weight + 3 * row, backwards, sums[0]);
            }
            if (row > 0) {
                add_row(columns, weight + 3 * (row - 1), backwards, sums[1]);
            }
            source += row < last ? strips->row_next : strips->channel_next;
        }
        poet_add_strips(sums, totals);
        weight += 9 + strips->weight_next;
    }
    poet_put_strips(strips, totals, result);
}

/* Each of these sums has a function for one strip, and one for rows of them. */
#define STRIPS(name, sum, backwards)                                                           \
    static void one_of_##name(const struct poet_strips *strips, uint32_t edges,                \
                              const float *source, const float *weight, float *result)         \
    {                                                                                          \
        sum(strips, edges, source, weight, result, backwards);                                 \
    }                                                                                          \
    void poet_conv2d_##name##_f32(const struct poet_strips *strips, const float *source,       \
                                  const float *weight, float *result)                          \
    {                                                                                          \
        poet_each_strip(strips, one_of_##name, source, weight, result);                        \
    }

STRIPS(strips, sum_strip, false)
STRIPS(strips_backwards, sum_strip, true)
STRIPS(tall_strips, sum_tall_strip, false)
STRIPS(tall_strips_backwards, sum_tall_strip, true)

static void sum_tap_rows(const struct poet_rows *at, int32_t width, const float *x, const float *dy,
                         float totals[4][3])
{
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[4][3] = {{0.0f}};
            for (int32_t column = 0; column < width; column++) {
                const float met[] = {column > 0 ? x[column - 1] : 0.0f, x[column],
                                     column < width - 1 ? x[column + 1] : 0.0f};
                UNROLLED
                for (int32_t o = 0; o < 4; o++) {
                    UNROLLED
                    for (int32_t tap = 0; tap < 3; tap++) {
                        sums[o][tap] += met[tap] * dy[o * at->dy_other + column];
                    }
                }
            }
            UNROLLED
            for (int32_t o = 0; o < 4; o++) {
                UNROLLED
                for (int32_t tap = 0; tap < 3; tap++) {
                    totals[o][tap] += sums[o][tap];
                }
            }
            x += width;
            dy += width;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

void poet_conv2d_tap_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                              float totals[4][3])
{
    sum_tap_rows(at, POET_STRIP * at->strips, x, dy, totals);
}

void poet_conv2d_tap_odd_rows_f32(const struct poet_rows *at, const float *x, const float *dy,
                                  float totals[4][3])
{
    sum_tap_rows(at, POET_STRIP * at->strips + at->left, x, dy, totals);
}

static inline __attribute__((always_inline)) void
sum_bursts(const struct poet_bursts *bursts, const float *source, const float *weight,
           int32_t weight_channel, int32_t weight_other, int32_t weight_pair, float *result)
{
    const float *shift = bursts->shift;
    for (int32_t pair = 0; pair < bursts->pairs; pair++) {
        struct poet_burst sums[2] = {{{0.0f}}, {{0.0f}}};
        const float *at = source;
        const float *w = weight;
        for (int32_t channel = 0; channel < bursts->channels; channel++) {
            POET_EACH_OF_BURST
            for (int i = 0; i < POET_BURST; i++) {
                sums[0].of[i] += at[i] * w[0];
                sums[1].of[i] += at[i] * w[weight_other];
            }
            at += bursts->source_next;
            w += weight_channel;
        }
        for (int other = 0; other < 2; other++) {
            POET_EACH_OF_BURST
            for (int i = 0; i < POET_BURST; i++) {
                result[i] = sums[other].of[i] + shift[other];
            }
            result += bursts->result_next;
        }
        weight += weight_pair;
        shift += bursts->shift_next;
    }
}

void poet_conv2d_bursts_f32(const struct poet_bursts *bursts, const float *source,
                            const float *weight, float *result)
{
    const int32_t next = bursts->weight_next;
    sum_bursts(bursts, source, weight, 1, next, 2 * next, result);
}

void poet_conv2d_bursts_backwards_f32(const struct poet_bursts *bursts, const float *source,
                                      const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, bursts->weight_next, 1, 2, result);
}

#endif
