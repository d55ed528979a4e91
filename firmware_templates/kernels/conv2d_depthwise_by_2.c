/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_by_2.h"

#include <stdbool.h>
#include <stddef.h>

#include "assembly.h"
#include "conv2d_column.h"
#include "conv2d_depthwise_each.h"
#include "conv2d_depthwise_taps.h"

/* As conv2d_depthwise.c, for 3x3 kernels that move by 2, with 0 or 1 rows and columns of padding on each side. Other cores
 * take what conv2d.c has for all shapes. */

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Columns of results that go down a plane together: forward, and of dX. */
enum { STRIP = 4, WIDE = 2 * STRIP };

/* A strip in all planes, or in two samples at a time. In this order in assembly. What is next counts elements. */
struct strips {
    int32_t source_next; /* to the next row */
    int32_t result_next;
    int32_t source_other; /* to the second sample */
    int32_t result_other;
    int32_t columns; /* of results that are stored */
    uint32_t load;   /* where in a table the instruction is that loads a row */
    int32_t before;  /* rows of padding */
    int32_t rows;    /* of the source, without one that no result meets */
    int32_t source_plane; /* from behind a plane's last row to the next plane's first */
    int32_t result_plane;
    int32_t bias_next;
    int32_t channels;
    int32_t turns; /* samples, or pairs of them */
    const float *bias;
};

/* `source` is the first column of the first row that the strip meets and that is no padding. */
typedef void sum_strips_f32(const struct strips *strips, const float *source, const float *weight,
                            float *result);

sum_strips_f32 poet_conv2d_depthwise_by_2_strips_f32;
sum_strips_f32 poet_conv2d_depthwise_by_2_pair_strips_f32; /* two columns of two samples */

/* For dX, a strip in all planes. In this order in assembly. What is next counts elements. */
struct wide_strips {
    int32_t source_next; /* to the next row */
    int32_t result_next;
    int32_t columns; /* of results that are stored */
    uint32_t load;   /* where in a table the instruction is that loads a row */
    int32_t before;  /* rows of padding */
    int32_t sources; /* rows */
    int32_t results;
    int32_t source_plane; /* from the last row but for one of padding to the next plane's first */
    int32_t channels;
    int32_t samples;
};

/* `source` is the first column that the strip meets and that is no padding. */
typedef void sum_wide_strips_f32(const struct wide_strips *strips, const float *source,
                                 const float *weight, float *result);

sum_wide_strips_f32 poet_conv2d_depthwise_by_2_wide_strips_f32;     /* without padding before the first column */
sum_wide_strips_f32 poet_conv2d_depthwise_by_2_wide_odd_strips_f32; /* with a column of padding */
sum_wide_strips_f32 poet_conv2d_depthwise_by_2_narrow_strips_f32;   /* the same, from two columns to three or four */

/* Rows of dy that meet the same rows of the kernel, three rows of x each. In this order in assembly. */
struct run {
    int32_t x[3]; /* elements of x before the first one's */
    int32_t count;
    int32_t pairs; /* of columns of dy whose taps are no padding, but for the first of all */
    uint32_t edges;
    int32_t next; /* from behind a row of x to the next one of the same row of the kernel */
};

/* The first and the last row, what is between, and a run of none. */
enum { RUNS = 4 };

/* Bits 0 to 2 for each row of x that is no padding; another lies in its place, to no effect. */
#define EDGE_SINGLE 0x08u /* a column of dy behind the pairs */
#define EDGE_AFTER 0x10u  /* one whose last tap is padding */
#define EDGE_BEFORE 0x20u /* a column of padding */

poet_add_taps_f32 poet_conv2d_depthwise_by_2_taps_f32;

/* Registers that a load leaves alone stay 0: padding.
 *   forward: s0-s8  a row of the source, or two: s0-s4 and s5-s9    s10-s18  weights    s19-s22  sums
 *       s23-s26  products    s27  shift    s28  0
 *   dX: s0-s4  a row of dy    s5-s9  the one before    s10-s18  weights    s19-s26  sums    s27-s30  products    s31  0
 *   dW: s0-s14  five columns of three rows of x    s15-s23  a row's sums    s24-s25  gradients    s26-s28  products
 *       s29  0 */
__asm__(POET_ASSEMBLY
        "   .macro move_one to, from\n"
        "   vmov.f32 s\\to, s\\from\n"
        "   .endm\n"
        "   .macro load_row columns\n"
        "   vldmia  r1, {\\columns}\n"
        "   bx      r9\n"
        "   .endm\n"

        /* Four sums, `apart`, and four columns, `step` apart. */
        "   .macro poet_multiply to, apart, source, step, weight\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\to+\\apart*\\at, %\\source+\\step*\\at, \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add_all to, apart, what, step\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\to+\\apart*\\at, %\\what+\\step*\\at\n"
        "   .endr\n"
        "   .endm\n"

        /* Forward: a tap's products; the columns of a second sample come behind a gap of 1. */
        "   .macro poet_meet to, source, weight, gap\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\to+\\at, %\\source+2*\\at+\\gap*(\\at/2), \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add source, weight, gap\n"
        "   poet_meet 23, \\source, \\weight, \\gap\n"
        "   poet_add_all 19, 1, 23, 1\n"
        "   .endm\n"
        "   .macro load_rows columns, second\n"
        "   vldmia  r1, {\\columns}\n"
        "   add     lr, r1, r10, lsl #2\n"
        "   vldmia  lr, {\\second}\n"
        "   bx      r9\n"
        "   .endm\n"

        /* all columns, and fewer */
        "   .macro poet_put gap, few, back\n"
        "   poet_add_all 19, 1, 27, 0\n"
        "   .if     \\gap\n"
        "   vstmia  r3, {s19-s20}\n"
        "   add     lr, r3, r11, lsl #2\n"
        "   vstmia  lr, {s21-s22}\n"
        "   .else\n"
        "   cmp     r8, #4\n"
        "   bne.w   \\few\n"
        "   vstmia  r3, {s19-s22}\n"
        "   .endif\n"
        "\\back: add r3, r3, r5, lsl #2\n"
        "   .endm\n"
        "   .macro poet_put_few few, back\n"
        "\\few: vstr s19, [r3]\n"
        "   cmp     r8, #2\n"
        "   blt.w   \\back\n"
        "   vstr    s20, [r3, #4]\n"
        "   beq.w   \\back\n"
        "   vstr    s21, [r3, #8]\n"
        "   b.w     \\back\n"
        "   .endm\n"

        /* r4, r5  what is next    r6  rows left    r7  where a row of the kernel's middle is added    r8  columns
         * r9  where the next row is added    r10, r11  to the second sample    r12  what loads a row
         * on the stack: channels and turns left, weights, bias, where a plane's first row is added */
        "   .macro poet_begin_strips name\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s28}\n"
        "   sub     sp, sp, #20\n"
        "   ldmia   r0!, {r4, r5, r10, r11}\n"
        "   ldmia   r0!, {r8, r12, lr}\n"
        "   movs    r6, #0\n"
        "   vmov    s28, r6\n"
        "   .irp    zero, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9\n"
        "   vmov.f32 s\\zero, s28\n"
        "   .endr\n"
        "   adr     r6, 4f\n"
        "   add     r12, r12, r6\n"
        "   adr     r7, 5f + 1\n"
        "   adr     r9, 7f + 1\n"
        "   cmp     lr, #0\n"
        "   it      ne\n"
        "   movne   r9, r7\n"
        "   str     r2, [sp, #8]\n"
        "   str     r9, [sp, #16]\n"
        "   ldr     r6, [r0, #20]\n"
        "1: str     r6, [sp, #4]\n"
        "   ldr     r2, [sp, #8]\n"
        "   ldr     r6, [r0, #24]\n"
        "   str     r6, [sp, #12]\n"
        "   ldr     r6, [r0, #16]\n"
        "2: str     r6, [sp]\n"
        "   vldmia  r2!, {s10-s18}\n"
        "   ldr     lr, [sp, #12]\n"
        "   ldr     r6, [r0, #12]\n"
        "   vldmia  lr, {s27}\n"
        "   add     lr, lr, r6, lsl #2\n"
        "   str     lr, [sp, #12]\n"
        "   add_one 27, 28\n" /* no -0 */
        "   .irp    sum, 19, 20, 21, 22\n"
        "   move_one \\sum, 28\n"
        "   .endr\n"
        "   ldr     r9, [sp, #16]\n"
        "   ldr     r6, [r0]\n"
        "   bx      r12\n"
        "   .p2align 2\n"
        "4:\n"
        "   .endm\n"

        "   .macro poet_end_strips name, gap\n"
        /* the kernel's middle row */
        "   .p2align 2\n"
        "5: poet_add 0, 13, \\gap\n"
        "   poet_add 1, 14, \\gap\n"
        "   poet_add 2, 15, \\gap\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   adr     r9, 6f + 1\n"
        "   subs    r6, r6, #1\n"
        "   beq.w   8f\n"
        "   bx      r12\n"
        /* its last row, and its first */
        "   .p2align 2\n"
        "6: poet_add 0, 16, \\gap\n"
        "   poet_add 1, 17, \\gap\n"
        "   poet_add 2, 18, \\gap\n"
        "   poet_put \\gap, 10f, 11\n"
        "   .p2align 2\n"
        "7: add     r1, r1, r4, lsl #2\n"
        "   mov     r9, r7\n"
        "   subs    r6, r6, #1\n"
        "   beq.w   9f\n"
        "   poet_meet 19, 0, 10, \\gap\n"
        "   poet_add 1, 11, \\gap\n"
        "   poet_add 2, 12, \\gap\n"
        "   bx      r12\n"
        "8: poet_put \\gap, 12f, 13\n"
        "9: ldrd    r6, lr, [r0, #4]\n"
        "   add     r1, r1, r6, lsl #2\n"
        "   add     r3, r3, lr, lsl #2\n"
        "   ldr     r6, [sp]\n"
        "   subs    r6, r6, #1\n"
        "   bne.w   2b\n"
        "   add     r1, r1, r10, lsl #2\n"
        "   add     r3, r3, r11, lsl #2\n"
        "   ldr     r6, [sp, #4]\n"
        "   subs    r6, r6, #1\n"
        "   bne.w   1b\n"
        "   add     sp, sp, #20\n"
        "   vpop    {s16-s28}\n"
        "   pop     {r4-r11, pc}\n"
        "   .if     !\\gap\n"
        "   poet_put_few 10, 11b\n"
        "   poet_put_few 12, 13b\n"
        "   .endif\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_begin_strips poet_conv2d_depthwise_by_2_strips_f32\n"
        "   .irp    columns, s0-s1, s0-s2, s0-s3, s0-s4, s0-s5, s0-s6, s0-s7, s0-s8\n"
        "   load_row \\columns\n"
        "   .endr\n"
        "   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s1-s6, s1-s7, s1-s8\n"
        "   load_row \\columns\n"
        "   .endr\n"
        "   poet_end_strips poet_conv2d_depthwise_by_2_strips_f32, 0\n"

        "   poet_begin_strips poet_conv2d_depthwise_by_2_pair_strips_f32\n"
        "   load_rows s0-s3, s5-s8\n"
        "   load_rows s0-s4, s5-s9\n"
        "   load_rows s1-s3, s6-s8\n"
        "   load_rows s1-s4, s6-s9\n"
        "   poet_end_strips poet_conv2d_depthwise_by_2_pair_strips_f32, 1\n"

        /* dX: every other column has met the kernel's even columns (sums from `even` on), those between its odd one (from
         * `odd` on, and from the same column of dy or the next); and so have rows. */
        "   .macro poet_add_columns to, source, weight\n"
        "   poet_multiply 27, 1, \\source, 1, \\weight\n"
        "   poet_add_all \\to, 2, 27, 1\n"
        "   .endm\n"
        "   .macro poet_put_wide many, one\n"
        "   poet_add_all 19, 1, 31, 0\n"
        "   poet_add_all 23, 1, 31, 0\n"
        "   cmp     r8, #8\n"
        "   bne.w   \\many\n"
        "   vstmia  r3, {s19-s26}\n"
        "\\one:\n"
        "   add     r3, r3, r5, lsl #2\n"
        "   subs    r7, r7, #1\n"
        "   beq.w   9f\n"
        "   .endm\n"
        "   .macro poet_put_some columns\n"
        "   vstmia  r3, {\\columns}\n"
        "   bx      lr\n"
        "   .endm\n"

        /* r2  the next plane's weights    r4, r5  what is next    r6, r7  rows of dy and dx left    r8  columns
         * r9  where the next row goes    r10  what stores some columns    r11  samples left    r12  what loads a row
         * on the stack: channels left, weights, where a plane's first row goes */
        "   .macro poet_wide_strips name, even, odd, from, loads:vararg\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   sub     sp, sp, #12\n"
        "   ldmia   r0!, {r4, r5, r8, r9, r10}\n"
        "   adr     r12, 1f\n"
        "   add     r12, r12, r9\n"
        "   adr     r9, 3f + 1\n"
        "   cmp     r10, #0\n"
        "   it      ne\n"
        "   adrne   r9, 4f + 1\n"
        "   strd    r2, r9, [sp, #4]\n"
        "   adr     r10, 2f + 1\n"
        "   sub     r6, r8, #1\n"
        "   add     r6, r6, r6, lsl #1\n"
        "   add     r10, r10, r6, lsl #1\n"
        "   movs    r6, #0\n"
        "   vmov    s31, r6\n"
        "   .irp    zero, 0, 1, 2, 3, 4\n"
        "   move_one \\zero, 31\n"
        "   .endr\n"
        "   ldr     r11, [r0, #16]\n"
        "10: ldr    r2, [sp, #4]\n"
        "   ldr     r6, [r0, #12]\n"
        "11: str    r6, [sp]\n"
        "   vldmia  r2!, {s10-s18}\n"
        "   .irp    zero, 5, 6, 7, 8, 9\n"
        "   move_one \\zero, 31\n"
        "   .endr\n"
        "   ldrd    r6, r7, [r0]\n"
        "   ldr     r9, [sp, #8]\n"
        "   bx      r12\n"
        "   .p2align 2\n"
        "1:\n"
        "   .irp    columns, \\loads\n"
        "   load_row \\columns\n"
        "   .endr\n"
        "   .p2align 2\n"
        "2:\n"
        "   .irp    columns, s19, s19-s20, s19-s21, s19-s22, s19-s23, s19-s24, s19-s25\n"
        "   poet_put_some \\columns\n"
        "   .endr\n"
        /* the kernel's first and last row */
        "   .p2align 2\n"
        "3: poet_multiply \\even, 2, 1, 1, 10\n"
        "   poet_add_columns \\even, 0, 12\n"
        "   poet_add_columns \\even, 6, 16\n"
        "   poet_add_columns \\even, 5, 18\n"
        "   poet_multiply \\odd, 2, \\from, 1, 11\n"
        "   poet_add_columns \\odd, %5+\\from, 17\n"
        "   poet_put_wide 5f, 6\n"
        /* its middle row */
        "   .p2align 2\n"
        "4: poet_multiply \\even, 2, 1, 1, 13\n"
        "   poet_add_columns \\even, 0, 15\n"
        "   poet_multiply \\odd, 2, \\from, 1, 14\n"
        "   poet_put_wide 7f, 8\n"
        "   .irp    at, 0, 1, 2, 3, 4\n"
        "   move_one %5+\\at, \\at\n"
        "   .endr\n"
        "   adr     r9, 3b + 1\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   subs    r6, r6, #1\n"
        "   it      ne\n"
        "   bxne    r12\n"
        "   .irp    at, 0, 1, 2, 3, 4\n"
        "   move_one \\at, 31\n"
        "   .endr\n"
        "   bx      r9\n"
        "   .p2align 2\n"
        "5: adr     lr, 6b + 1\n"
        "   bx      r10\n"
        "   .p2align 2\n"
        "7: adr     lr, 8b + 1\n"
        "   bx      r10\n"
        "9: ldr     lr, [r0, #8]\n"
        "   ldr     r6, [sp]\n"
        "   add     r1, r1, lr, lsl #2\n"
        "   subs    r6, r6, #1\n"
        "   bne.w   11b\n"
        "   subs    r11, r11, #1\n"
        "   bne.w   10b\n"
        "   add     sp, sp, #12\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_wide_strips poet_conv2d_depthwise_by_2_wide_strips_f32, 19, 20, 1, s0-s3, s0-s4, s1, s1-s2, s1-s3, s1-s4\n"
        "   poet_wide_strips poet_conv2d_depthwise_by_2_wide_odd_strips_f32, 20, 19, 0, s0, s0-s1, s0-s2, s0-s3, s0-s4\n"

        /* From two columns with one of padding before x, no products are of padding. A row of dy: s0-s1, the one before: s2-s3,
         * weights: s4-s12, sums: s13-s16.
         * r4  to the next plane    r9  where a plane's first row goes    r10, r11  channels and samples left    r12  weights */
        "   .macro poet_put_narrow few, back\n"
        "   add_one 13, 22\n"
        "   add_one 14, 22\n"
        "   add_one 15, 22\n"
        "   cmp     r8, #4\n"
        "   bne.w   \\few\n"
        "   add_one 16, 22\n"
        "   vstmia  r3!, {s13-s16}\n"
        "\\back: subs r7, r7, #1\n"
        "   beq.w   9f\n"
        "   .endm\n"
        "   poet_function poet_conv2d_depthwise_by_2_narrow_strips_f32\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s22}\n"
        "   mov     r12, r2\n"
        "   ldr     r8, [r0, #8]\n"
        "   ldr     r10, [r0, #16]\n"
        "   add     r0, r0, #20\n"
        "   ldrd    r4, r5, [r0, #8]\n"
        "   ldr     r11, [r0, #16]\n"
        "   adr     r9, 3f + 1\n"
        "   cmp     r10, #0\n"
        "   it      ne\n"
        "   adrne   r9, 4f + 1\n"
        "   movs    r6, #0\n"
        "   vmov    s22, r6\n"
        "1: mov     r2, r12\n"
        "   mov     r10, r5\n"
        "2: vldmia  r2!, {s4-s12}\n"
        "   ldrd    r6, r7, [r0]\n"
        "   move_one 2, 22\n"
        "   move_one 3, 22\n"
        "   vldmia  r1, {s0-s1}\n"
        "   bx      r9\n"
        /* the kernel's first and last row */
        "   .p2align 2\n"
        "3: multiply_one 13, 0, 5\n"
        "   multiply_one 14, 1, 4\n"
        "   multiply_one 15, 1, 5\n"
        "   multiply_one 16, 1, 6\n"
        "   multiply_one 17, 0, 6\n"
        "   multiply_one 18, 2, 11\n"
        "   multiply_one 19, 3, 11\n"
        "   multiply_one 20, 3, 12\n"
        "   multiply_one 21, 3, 10\n"
        "   add_one 14, 17\n"
        "   multiply_one 17, 2, 12\n"
        "   add_one 13, 18\n"
        "   add_one 14, 21\n"
        "   add_one 15, 19\n"
        "   add_one 16, 20\n"
        "   add_one 14, 17\n"
        "   poet_put_narrow 5f, 6\n"
        /* its middle row */
        "   .p2align 2\n"
        "4: multiply_one 14, 1, 7\n"
        "   multiply_one 17, 0, 9\n"
        "   multiply_one 13, 0, 8\n"
        "   multiply_one 15, 1, 8\n"
        "   add_one 14, 17\n"
        "   multiply_one 16, 1, 9\n"
        "   poet_put_narrow 7f, 8\n"
        "   move_one 2, 0\n"
        "   move_one 3, 1\n"
        "   add     r1, r1, #8\n"
        "   subs    r6, r6, #1\n"
        "   itt     ne\n"
        "   vldmiane r1, {s0-s1}\n"
        "   bne.w   3b\n"
        "   move_one 0, 22\n"
        "   move_one 1, 22\n"
        "   b.w     3b\n"
        "5: vstmia  r3!, {s13-s15}\n"
        "   b.w     6b\n"
        "7: vstmia  r3!, {s13-s15}\n"
        "   b.w     8b\n"
        "9: add     r1, r1, r4, lsl #2\n"
        "   subs    r10, r10, #1\n"
        "   bne.w   2b\n"
        "   subs    r11, r11, #1\n"
        "   bne.w   1b\n"
        "   vpop    {s16-s22}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end poet_conv2d_depthwise_by_2_narrow_strips_f32\n"

        /* dW: a column of dy and the three of each row of x from `at` on. */
        "   .macro add_taps to, source, gradient\n"
        "   multiply_one 26, \\source, \\gradient\n"
        "   multiply_one 27, %\\source+1, \\gradient\n"
        "   multiply_one 28, %\\source+2, \\gradient\n"
        "   add_one \\to, 26\n"
        "   add_one %\\to+1, 27\n"
        "   add_one %\\to+2, 28\n"
        "   .endm\n"
        "   .macro poet_add_position at, gradient\n"
        "   add_taps 15, \\at, \\gradient\n"
        "   add_taps 18, %5+\\at, \\gradient\n"
        "   add_taps 21, %10+\\at, \\gradient\n"
        "   .endm\n"
        "   .macro add_one_met to, what\n"
        "   vaddne.f32 s\\to, s\\to, s\\what\n"
        "   .endm\n"

        /* r3-r5  x    r6  rows left    r7  pairs    r8  edges    r9  next    r12  pairs left    lr  x */
        "   poet_function poet_conv2d_depthwise_by_2_taps_f32\n"
        "   push    {r4-r9, lr}\n"
        "   vpush   {s16-s29}\n"
        "   mov     lr, r3\n"
        "   movs    r3, #0\n"
        "   vmov    s29, r3\n"
        "1: ldmia   r0!, {r3-r9}\n"
        "   cmp     r6, #0\n"
        "   beq.w   9f\n"
        "   .irp    row, r3, r4, r5\n"
        "   add     \\row, lr, \\row, lsl #2\n"
        "   .endr\n"
        "2:\n"
        "   .irp    zero, 0, 5, 10, 15, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   vmov.f32 s\\zero, s29\n"
        "   .endr\n"
        "   tst     r8, #0x20\n"
        "   bne.n   3f\n"
        "   vldmia  r3!, {s0}\n"
        "   vldmia  r4!, {s5}\n"
        "   vldmia  r5!, {s10}\n"
        "3: movs    r12, r7\n"
        "   beq.w   5f\n"
        "4: vldmia  r3!, {s1-s4}\n"
        "   vldmia  r4!, {s6-s9}\n"
        "   vldmia  r5!, {s11-s14}\n"
        "   vldmia  r1!, {s24-s25}\n"
        "   poet_add_position 0, 24\n"
        "   poet_add_position 2, 25\n"
        "   vmov.f32 s0, s4\n"
        "   vmov.f32 s5, s9\n"
        "   vmov.f32 s10, s14\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   4b\n"
        "5: tst     r8, #0x08\n"
        "   beq.n   6f\n"
        "   vldmia  r3!, {s1-s2}\n"
        "   vldmia  r4!, {s6-s7}\n"
        "   vldmia  r5!, {s11-s12}\n"
        "   vldmia  r1!, {s24}\n"
        "   poet_add_position 0, 24\n"
        "   vmov.f32 s0, s2\n"
        "   vmov.f32 s5, s7\n"
        "   vmov.f32 s10, s12\n"
        "6: tst     r8, #0x10\n"
        "   beq.n   7f\n"
        "   vldmia  r3!, {s1}\n"
        "   vldmia  r4!, {s6}\n"
        "   vldmia  r5!, {s11}\n"
        "   vldmia  r1!, {s24}\n"
        "   .irp    zero, 2, 7, 12\n"
        "   vmov.f32 s\\zero, s29\n"
        "   .endr\n"
        "   poet_add_position 0, 24\n"
        "7: vldmia  r2, {s0-s8}\n"
        "   .irp    row, 0, 1, 2\n"
        "   tst     r8, #(1 << \\row)\n"
        "   ittt    ne\n"
        "   add_one_met %3*\\row, %15+3*\\row\n"
        "   add_one_met %3*\\row+1, %16+3*\\row\n"
        "   add_one_met %3*\\row+2, %17+3*\\row\n"
        "   .endr\n"
        "   vstmia  r2, {s0-s8}\n"
        "   .irp    row, r3, r4, r5\n"
        "   add     \\row, \\row, r9, lsl #2\n"
        "   .endr\n"
        "   subs    r6, r6, #1\n"
        "   bne.w   2b\n"
        "   b.w     1b\n"
        "9: vpop    {s16-s29}\n"
        "   pop     {r4-r9, pc}\n"
        "   poet_function_end poet_conv2d_depthwise_by_2_taps_f32\n"
        "   .noaltmacro\n");

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

/* Which instruction of a table loads columns from `first` on, of which those before 0 and behind the last are padding: it has those
 * that load columns 0 to `whole` and more, then columns 1 to `padded` and more. No row that comes here has fewer. */
static int32_t load_of(int32_t first, int32_t columns, int32_t sources, int32_t whole, int32_t padded)
{
    const int32_t last = least(columns, sources - first) - 1;
    return first < 0 ? columns - whole + last - padded : last - whole;
}

/* Where it is in a table of such. */
static uint32_t place(int32_t load, int32_t bytes)
{
    return (uint32_t)(bytes * load) + 1u;
}

/* Strips of which the last may make results again. */
static void sum_strips(const struct poet_conv2d *op, struct strips *strips, const float *x,
                       const float *w, float *y)
{
    strips->columns = least(STRIP, op->out_width);
    for (int32_t at = 0; at < op->out_width; at += STRIP) {
        at = least(at, op->out_width - strips->columns);
        const int32_t first = 2 * at - op->padding_left;
        strips->load = place(load_of(first, 2 * STRIP + 1, op->in_width, 1, 1), 6);
        poet_conv2d_depthwise_by_2_strips_f32(strips, first < 0 ? x : x + first, w, y + at);
    }
}

/* Two samples at a time; results are half a strip wide. */
static void sum_pairs(const struct poet_conv2d *op, struct strips *strips, const float *x,
                      const float *w, float *y)
{
    strips->turns = op->batch / 2;
    strips->source_other = op->groups * op->in_height * op->in_width;
    strips->result_other = op->groups * op->out_height * op->out_width;
    strips->load = place(load_of(-op->padding_left, STRIP + 1, op->in_width, 3, 3), 14);
    poet_conv2d_depthwise_by_2_pair_strips_f32(strips, x, w, y);
}

void poet_conv2d_depthwise_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y)
{
    static const float no_bias = 0.0f;
    if (!poet_kernels_are_finite(w, op->groups)) {
        poet_conv2d_depthwise_each_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t rows = least(op->in_height, 2 * op->out_height + 1 - op->padding_top);
    struct strips strips = {
        .source_next = op->in_width,
        .result_next = op->out_width,
        .before = op->padding_top,
        .rows = rows,
        .source_plane = (op->in_height - rows) * op->in_width,
        .bias_next = b != NULL ? 1 : 0,
        .channels = op->groups,
        .turns = op->batch,
        .bias = b != NULL ? b : &no_bias,
    };
    if (op->out_width == STRIP / 2 && op->batch > 1) {
        sum_pairs(op, &strips, x, w, y);
        const int32_t last = op->batch & ~1;
        x += last * op->groups * op->in_height * op->in_width;
        y += last * op->groups * op->out_height * op->out_width;
        strips.turns = op->batch & 1;
    }
    if (strips.turns > 0) {
        sum_strips(op, &strips, x, w, y);
    }
}

/* The same; strips begin with an even column. */
static void sum_wide_strips(const struct poet_conv2d *op, struct wide_strips *strips,
                            const float *dy, const float *w, float *dx)
{
    const int32_t width = op->in_width;
    const bool odd = op->padding_left != 0;
    for (int32_t at = 0; at < width; at += WIDE) {
        if (at > width - WIDE && width >= WIDE) {
            at = width - WIDE + width % 2;
        }
        const int32_t first = odd ? at / 2 : at / 2 - 1;
        strips->columns = least(WIDE, width - at);
        strips->load = place(load_of(first, STRIP + 1, op->out_width, odd ? 0 : 3, 1), 6);
        (odd ? poet_conv2d_depthwise_by_2_wide_odd_strips_f32
             : poet_conv2d_depthwise_by_2_wide_strips_f32)(strips, first < 0 ? dy : dy + first, w,
                                                           dx + at);
    }
}

void poet_conv2d_depthwise_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx)
{
    if (!poet_kernels_are_finite(w, op->groups)) {
        poet_conv2d_depthwise_each_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t passed = (op->in_height - 1 + op->padding_top) / 2; /* rows of dy */
    struct wide_strips strips = {
        .source_next = op->out_width,
        .result_next = op->in_width,
        .columns = op->in_width,
        .before = op->padding_top,
        .sources = op->out_height,
        .results = op->in_height,
        .source_plane = (op->out_height - passed) * op->out_width,
        .channels = op->groups,
        .samples = op->batch,
    };
    if (op->out_width == 2 && op->in_width <= 4 && op->padding_left != 0) {
        poet_conv2d_depthwise_by_2_narrow_strips_f32(&strips, dy, w, dx);
    } else {
        sum_wide_strips(op, &strips, dy, w, dx);
    }
}

static void set_runs(const struct poet_conv2d *op, struct run *run)
{
    const bool after = 2 * op->out_width - op->padding_left == op->in_width;
    const int32_t whole = after ? op->out_width - 1 : op->out_width;
    const int32_t met = least(op->in_width, 2 * op->out_width + 1 - op->padding_left);
    int32_t next = 0;
    for (int32_t row = 0; row < op->out_height; row = next) {
        const int32_t first = 2 * row - op->padding_top;
        const int32_t inner = (op->in_height - 1 + op->padding_top) / 2; /* rows whose last tap is in x */
        next = first < 0 || row >= inner ? row + 1 : least(inner, op->out_height);
        *run = (struct run){
            .count = next - row,
            .pairs = whole / 2,
            .edges = (whole % 2 != 0 ? EDGE_SINGLE : 0u) | (after ? EDGE_AFTER : 0u) |
                     (op->padding_left != 0 ? EDGE_BEFORE : 0u),
            .next = 2 * op->in_width - met,
        };
        for (int32_t tap = 0; tap < 3; tap++) {
            const bool inside = first + tap >= 0 && first + tap < op->in_height;
            run->x[tap] = inside ? (first + tap) * op->in_width : 0;
            run->edges |= inside ? 1u << tap : 0u;
        }
        run++;
    }
    run->count = 0;
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    if (op->out_width <= POET_FEW_COLUMNS) {
        poet_conv2d_depthwise_few_taps_f32(op, poet_conv2d_depthwise_few_columns_by_2_f32, x, dy,
                                           dw);
        return;
    }
    struct run runs[RUNS];
    set_runs(op, runs);
    poet_conv2d_depthwise_put_taps_f32(op, poet_conv2d_depthwise_by_2_taps_f32, runs, x, dy, dw);
}

void poet_conv2d_depthwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_depthwise_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_taps(op, x, dy, &sink);
}

#else

void poet_conv2d_depthwise_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y)
{
    poet_conv2d_forward_f32(op, x, w, b, y);
}

void poet_conv2d_depthwise_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx)
{
    poet_conv2d_backward_input_f32(op, w, dy, dx);
}

void poet_conv2d_depthwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    poet_conv2d_backward_weight_f32(op, x, dy, dw);
}

void poet_conv2d_depthwise_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
}

#endif
