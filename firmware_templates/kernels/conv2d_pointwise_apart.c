/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise_apart.h"

#include <stdbool.h>
#include <stddef.h>

#include "assembly.h"
#include "conv2d_pointwise.h"
#include "conv2d_strip.h"

/* Positions of a plane that follow each other on one side, and lie along rows, apart, on the other. In this order in assembly. What is
 * next counts bytes. */
struct poet_apart {
    int32_t width;       /* positions in a row */
    int32_t step;        /* to the next position that is apart */
    int32_t turn;        /* what is more from a row's last to the next row's first */
    int32_t positions;   /* of a plane, as many as are summed at a time at least */
    int32_t samples;
    int32_t source_sample; /* to the plane of the next sample */
    int32_t result_sample;
    int32_t source_next; /* to the next channel */
    int32_t weight_next; /* dX: to the weights of the source's next channel */
    int32_t channels;    /* of the source */
    int32_t result_next;
    int32_t results;    /* channels of those */
    const float *shift; /* forward: what is added to them, or NULL */
};

typedef void poet_sum_apart_f32(const struct poet_apart *at, const float *source,
                                const float *weight, float *result);

/* Forward: four positions of a source of so many channels, which stay in registers for all results; eight of a single one. */
poet_sum_apart_f32 poet_conv2d_apart_1_f32;
poet_sum_apart_f32 poet_conv2d_apart_2_f32;
poet_sum_apart_f32 poet_conv2d_apart_3_f32;
poet_sum_apart_f32 poet_conv2d_apart_4_f32;
poet_sum_apart_f32 poet_conv2d_apart_eights_f32;

/* dX: four positions in four channels of results, and in a last one to three; sixteen in a single one. What lies between stays as it
 * is. */
poet_sum_apart_f32 poet_conv2d_apart_backwards_f32;
poet_sum_apart_f32 poet_conv2d_apart_sixteens_f32;

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_bursts.c. What is apart goes through registers of integers, whose loads and stores take an offset.
 *   r1, r12  where the next positions' source and results begin    r11  positions left in the plane behind them
 *   r8-r10  to a four's other three    r3  to the next four    lr  column
 *   [sp]  source, weights and result of a sample, samples left */
__asm__(POET_ASSEMBLY
        /* Where the next four are: each row that ends among them, or behind them, turns those of the next. */
        "   .macro poet_places\n"
        "   ldrd    r4, r8, [r0]\n"
        "   add     lr, lr, #4\n"
        "   lsl     r3, r8, #2\n"
        "   add     r9, r8, r8\n"
        "   cmp     lr, r4\n"
        "   add     r10, r9, r8\n"
        "   blt.n   32f\n"
        "   ldr     r7, [r0, #8]\n"
        "31: subs   lr, lr, r4\n"
        "   add     r3, r3, r7\n"
        "   beq.n   32f\n"
        "   cmp     lr, #2\n"
        "   it      gt\n"
        "   addgt   r8, r8, r7\n"
        "   it      ge\n"
        "   addge   r9, r9, r7\n"
        "   cmp     lr, #0\n"
        "   it      gt\n"
        "   addgt   r10, r10, r7\n"
        "   cmp     lr, r4\n"
        "   bge.n   31b\n"
        "32:\n"
        "   .endm\n"

        /* From the first positions of the first sample to the last of the last, which may be made again. */
        "   .macro poet_begin name, last, block\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   .ifgt   \\last-15\n"
        "   vpush   {s16-s\\last}\n"
        "   .endif\n"
        "   ldr     r4, [r0, #16]\n"
        "   mov     r12, r3\n"
        "   push    {r1-r6}\n"
        "   ldr     r11, [r0, #12]\n"
        "   movs    lr, #0\n"
        "   sub     r11, r11, #\\block\n"
        "   .endm\n"
        "   .macro poet_end name, last, block, apart, near\n"
        "   subs    r11, r11, #\\block\n"
        "   add     \\near, \\near, #4*\\block\n"
        "   bge.w   1b\n"
        "   cmn     r11, #\\block\n"
        "   ble.n   8f\n"
        "   add     \\near, \\near, r11, lsl #2\n" /* back by what is missing */
        "   ldrd    r4, r5, [r0]\n"
        "   ldr     r6, [r0, #8]\n"
        "   mla     \\apart, r11, r5, \\apart\n"
        "   adds    lr, lr, r11\n"
        "   mov     r11, #0\n"
        "   bpl.w   1b\n"
        "7: sub     \\apart, \\apart, r6\n"
        "   adds    lr, lr, r4\n"
        "   bmi.n   7b\n"
        "   b.w     1b\n"
        "8: ldr     r4, [sp, #12]\n"
        "   ldr     r1, [sp]\n"
        "   ldr     r12, [sp, #8]\n"
        "   ldrd    r5, r6, [r0, #20]\n"
        "   subs    r4, r4, #1\n"
        "   add     r1, r1, r5\n"
        "   add     r12, r12, r6\n"
        "   str     r4, [sp, #12]\n"
        "   str     r1, [sp]\n"
        "   str     r12, [sp, #8]\n"
        "   ldr     r11, [r0, #12]\n"
        "   mov     lr, #0\n"
        "   sub     r11, r11, #\\block\n"
        "   bne.w   1b\n"
        "   add     sp, sp, #24\n"
        "   .ifgt   \\last-15\n"
        "   vpop    {s16-s\\last}\n"
        "   .endif\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        /* Forward: r2  weights    r3  result    r4  result_next    r5  results left    r6  shift, or 0 */
        "   .macro poet_move_two first, second, from, other\n"
        "   vmov    s\\first, s\\second, \\from, \\other\n"
        "   .endm\n"
        "   .macro poet_take_four from, to\n"
        "   ldr     r4, [\\from]\n"
        "   ldr     r5, [\\from, r8]\n"
        "   ldr     r6, [\\from, r9]\n"
        "   ldr     r7, [\\from, r10]\n"
        "   poet_move_two \\to, %1+\\to, r4, r5\n"
        "   poet_move_two %2+\\to, %3+\\to, r6, r7\n"
        "   .endm\n"
        "   .macro poet_begin_results\n"
        "   add     r3, r0, #40\n"
        "   ldmia   r3, {r4-r6}\n"
        "   ldr     r2, [sp, #4]\n"
        "   mov     r3, r12\n"
        "   .endm\n"
        "   .macro poet_clear_two first, second\n"
        "   vmov    s\\first, s\\second, lr, lr\n"
        "   .endm\n"
        "   .macro poet_load_weights first, last\n"
        "   .if     \\last-\\first\n"
        "   vldmia  r2!, {s\\first-s\\last}\n"
        "   .else\n"
        "   vldmia  r2!, {s\\first}\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_load_shift to, zero\n"
        "   vldmia  r6!, {s\\to}\n"
        "   add_one \\to, \\zero\n"
        "   .endm\n"
        "   .macro poet_multiply to, from, weight\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\to+\\at, %\\from+\\at, \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add to, from\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\to+\\at, %\\from+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_shift to, shift\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\to+\\at, \\shift\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_store to, first, last\n"
        "   vstmia  \\to, {s\\first-s\\last}\n"
        "   .endm\n"

        /* s0 on: the source, then four sums, four products, the weights, shift and 0 */
        "   .macro poet_apart name, channels, last\n"
        "   poet_begin \\name, \\last, 4\n"
        "   poet_clear_two %8+5*\\channels, %9+5*\\channels\n"
        "1: poet_places\n"
        "   mov     r2, r1\n"
        "   add     r1, r1, r3\n"
        "   .irp    channel, 0, 1, 2, 3\n"
        "   .ifgt   \\channels-\\channel\n"
        "   .if     \\channel\n"
        "   ldr     r4, [r0, #28]\n"
        "   add     r2, r2, r4\n"
        "   .endif\n"
        "   poet_take_four r2, %4*\\channel\n"
        "   .endif\n"
        "   .endr\n"
        "   poet_begin_results\n"
        "2: poet_load_weights %8+4*\\channels, %7+5*\\channels\n"
        "   cbz     r6, 3f\n"
        "   poet_load_shift %8+5*\\channels, %9+5*\\channels\n"
        "3: poet_multiply %4*\\channels, 0, %8+4*\\channels\n"
        "   .irp    channel, 1, 2, 3\n"
        "   .ifgt   \\channels-\\channel\n"
        "   poet_multiply %4+4*\\channels, %4*\\channel, %8+4*\\channels+\\channel\n"
        "   poet_add %4*\\channels, %4+4*\\channels\n"
        "   .endif\n"
        "   .endr\n"
        "   poet_shift %4*\\channels, %8+5*\\channels\n"
        "   poet_store r3, %4*\\channels, %3+4*\\channels\n"
        "   add     r3, r3, r4\n"
        "   subs    r5, r5, #1\n"
        "   bne.n   2b\n"
        "   poet_end \\name, \\last, 4, r1, r12\n"
        "   .endm\n"
        "   poet_apart poet_conv2d_apart_1_f32, 1, 15\n"
        "   poet_apart poet_conv2d_apart_2_f32, 2, 19\n"
        "   poet_apart poet_conv2d_apart_3_f32, 3, 25\n"
        "   poet_apart poet_conv2d_apart_4_f32, 4, 29\n"

        /* s0-s7  the source    s8, s9  weights    s10, s11  shifts    s12  0    s16-s31  sums of two channels of results */
        "   .macro poet_eight to, shift, weight\n"
        "   poet_multiply \\to, 0, \\weight\n"
        "   poet_multiply %4+\\to, 4, \\weight\n"
        "   poet_shift \\to, \\shift\n"
        "   poet_shift %4+\\to, \\shift\n"
        "   poet_store r3, \\to, %7+\\to\n"
        "   .endm\n"
        "   poet_begin poet_conv2d_apart_eights_f32, 31, 8\n"
        "   poet_clear_two 10, 11\n"
        "   vmov    s12, lr\n"
        "1: poet_places\n"
        "   poet_take_four r1, 0\n"
        "   add     r1, r1, r3\n"
        "   poet_places\n"
        "   poet_take_four r1, 4\n"
        "   add     r1, r1, r3\n"
        "   poet_begin_results\n"
        "   subs    r5, r5, #2\n"
        "   blt.w   4f\n"
        "2: vldmia  r2!, {s8-s9}\n"
        "   cbz     r6, 3f\n"
        "   vldmia  r6!, {s10-s11}\n"
        "   add_one 10, 12\n"
        "   add_one 11, 12\n"
        "3: poet_eight 16, 10, 8\n"
        "   add     r3, r3, r4\n"
        "   poet_eight 24, 11, 9\n"
        "   add     r3, r3, r4\n"
        "   subs    r5, r5, #2\n"
        "   bge.n   2b\n"
        "4: adds    r5, r5, #1\n"
        "   bne.n   5f\n"
        "   vldmia  r2, {s8}\n"
        "   cbz     r6, 3f\n"
        "   poet_load_shift 10, 12\n"
        "3: poet_eight 16, 10, 8\n"
        "5: poet_end poet_conv2d_apart_eights_f32, 31, 8, r1, r12\n"

        /* dX: r2, r7  weights    r3  source    r4, r5  source_next, weight_next    r6  channels left
         *   [sp, #16], [sp, #20]  where the next four are, results left
         *   s0-s3  the source    s4-s7  weights    s8-s15  products    s16-s31  sums */
        "   .macro poet_put_four sums, next\n"
        "   poet_take_two r3, r4, \\sums, %1+\\sums\n"
        "   poet_take_two r5, r6, %2+\\sums, %3+\\sums\n"
        "   str     r3, [r12]\n"
        "   str     r4, [r12, r8]\n"
        "   str     r5, [r12, r9]\n"
        "   str     r6, [r12, r10]\n"
        "   add     r12, r12, \\next\n"
        "   .endm\n"
        "   .macro poet_take_two to, other, first, second\n"
        "   vmov    \\to, \\other, s\\first, s\\second\n"
        "   .endm\n"
        "   .macro poet_zero first, others:vararg\n"
        "   movs    r3, #0\n"
        "   vmov    s\\first, r3\n"
        "   .irp    other, \\others\n"
        "   vmov.f32 s\\other, s\\first\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_weights count, last\n"
        "   .if     \\count-1\n"
        "   vldmia  r7, {s4-s\\last}\n"
        "   .else\n"
        "   vldmia  r7, {s4}\n"
        "   .endif\n"
        "   add     r7, r7, r5\n"
        "   .endm\n"
        "   .macro poet_sum_fours count, zeros:vararg\n"
        "   poet_zero 16, 17, 18, 19, \\zeros\n"
        "   add     r3, r0, #28\n"
        "   ldmia   r3, {r4-r6}\n"
        "   mov     r7, r2\n"
        "   mov     r3, r1\n"
        "33: vldmia r3, {s0-s3}\n"
        "   add     r3, r3, r4\n"
        "   poet_weights \\count, %3+\\count\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   .ifgt   \\count-\\at\n"
        "   poet_multiply 8, 0, %4+\\at\n"
        "   poet_add %16+4*\\at, 8\n"
        "   .endif\n"
        "   .endr\n"
        "   subs    r6, r6, #1\n"
        "   bne.n   33b\n"
        "   ldr     r7, [r0, #40]\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   .ifgt   \\count-\\at\n"
        "   poet_put_four %16+4*\\at, r7\n"
        "   .endif\n"
        "   .endr\n"
        "   .endm\n"
        "   poet_begin poet_conv2d_apart_backwards_f32, 31, 4\n"
        "1: poet_places\n"
        "   add     r3, r12, r3\n"
        "   ldr     r4, [r0, #44]\n"
        "   ldr     r2, [sp, #4]\n"
        "   str     r3, [sp, #16]\n"
        "   subs    r4, r4, #4\n"
        "   blt.w   3f\n"
        "2: str     r4, [sp, #20]\n"
        "   poet_sum_fours 4, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
        "   ldr     r4, [sp, #20]\n"
        "   adds    r2, r2, #16\n"
        "   subs    r4, r4, #4\n"
        "   bge.w   2b\n"
        "3: adds    r4, r4, #3\n"
        "   blt.w   9f\n"
        "   beq.w   6f\n"
        "   cmp     r4, #2\n"
        "   blt.w   5f\n"
        "   poet_sum_fours 3, 20, 21, 22, 23, 24, 25, 26, 27\n"
        "   b.n     9f\n"
        "5: poet_sum_fours 2, 20, 21, 22, 23\n"
        "   b.n     9f\n"
        "6: poet_sum_fours 1\n"
        "9: ldr     r12, [sp, #16]\n"
        "   poet_end poet_conv2d_apart_backwards_f32, 31, 4, r12, r1\n"

        /* s0-s7  half of the source    s8  weight    s9  0    s12-s15  products    s16-s31  sums */
        "   .macro poet_begin_eight to\n"
        "   poet_multiply \\to, 0, 8\n"
        "   poet_multiply %4+\\to, 4, 8\n"
        "   poet_shift \\to, 9\n"
        "   poet_shift %4+\\to, 9\n"
        "   .endm\n"
        "   .macro poet_add_eight to\n"
        "   poet_multiply 12, 0, 8\n"
        "   poet_add \\to, 12\n"
        "   poet_multiply 12, 4, 8\n"
        "   poet_add %4+\\to, 12\n"
        "   .endm\n"
        "   .macro poet_sixteen way\n"
        "   add     r3, r2, #32\n"
        "   vldmia  r2, {s0-s7}\n"
        "   vldr    s8, [r7]\n"
        "   poet_\\way\\()_eight 16\n"
        "   vldmia  r3, {s0-s7}\n"
        "   add     r2, r2, r4\n"
        "   add     r7, r7, r5\n"
        "   poet_\\way\\()_eight 24\n"
        "   .endm\n"
        "   poet_begin poet_conv2d_apart_sixteens_f32, 31, 16\n"
        "   vmov    s9, lr\n" /* 0 */
        "1: add     r3, r0, #28\n"
        "   ldmia   r3, {r4-r6}\n"
        "   ldr     r7, [sp, #4]\n"
        "   mov     r2, r1\n"
        "   poet_sixteen begin\n"
        "   subs    r6, r6, #3\n"
        "   blt.w   4f\n"
        "2: poet_sixteen add\n"
        "   subs    r6, r6, #2\n"
        "   poet_sixteen add\n"
        "   bge.w   2b\n"
        "4: adds    r6, r6, #1\n"
        "   bne.w   3f\n"
        "   poet_sixteen add\n"
        "3:\n"
        "   .irp    sums, 16, 20, 24, 28\n"
        "   poet_places\n"
        "   mov     r7, r3\n"
        "   poet_put_four \\sums, r7\n"
        "   .endr\n"
        "   poet_end poet_conv2d_apart_sixteens_f32, 31, 16, r12, r1\n"

        /* Zeros, 32 at a time. */
        "   poet_function poet_conv2d_clear_f32\n"
        "   movs    r2, #0\n"
        "   vmov    s0, r2\n"
        "   .irp    zero, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "   vmov.f32 s\\zero, s0\n"
        "   .endr\n"
        "   subs    r1, r1, #32\n"
        "   blt.n   2f\n"
        "1: vstmia  r0!, {s0-s15}\n"
        "   vstmia  r0!, {s0-s15}\n"
        "   subs    r1, r1, #32\n"
        "   bge.n   1b\n"
        "2: lsls    r1, r1, #28\n"
        "   it      cs\n"
        "   vstmiacs r0!, {s0-s15}\n"
        "   it      mi\n"
        "   vstmiami r0!, {s0-s7}\n"
        "   lsls    r1, r1, #2\n"
        "   it      cs\n"
        "   vstmiacs r0!, {s0-s3}\n"
        "   it      mi\n"
        "   vstmiami r0!, {s0-s1}\n"
        "   lsls    r1, r1, #2\n"
        "   it      cs\n"
        "   vstmiacs r0!, {s0}\n"
        "   bx      lr\n"
        "   poet_function_end poet_conv2d_clear_f32\n"
        "   .noaltmacro\n");

#else

/* The same sums in C, one after the other. */
static inline __attribute__((always_inline)) void
sum_apart(const struct poet_apart *at, const float *source, const float *weight, float *result,
          bool backwards)
{
    const int32_t size = sizeof *source;
    const int32_t row = (at->width * at->step + at->turn) / size;
    const int32_t weight_channel = backwards ? at->weight_next / size : 1;
    const int32_t weight_result = backwards ? 1 : at->channels;
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t i = 0; i < at->positions; i++) {
            const int32_t apart = i / at->width * row + i % at->width * at->step / size;
            for (int32_t r = 0; r < at->results; r++) {
                const float *from = source + (backwards ? i : apart);
                float sum = 0.0f;
                for (int32_t c = 0; c < at->channels; c++) {
                    sum += *from * weight[c * weight_channel + r * weight_result];
                    from += at->source_next / size;
                }
                sum += at->shift != NULL ? at->shift[r] : 0.0f;
                result[r * at->result_next / size + (backwards ? apart : i)] = sum;
            }
        }
        source += at->source_sample / size;
        result += at->result_sample / size;
    }
}

#define SUMS(name, backwards)                                                                  \
    void poet_conv2d_apart_##name##_f32(const struct poet_apart *at, const float *source,      \
                                        const float *weight, float *result)                    \
    {                                                                                          \
        sum_apart(at, source, weight, result, backwards);                                      \
    }

void poet_conv2d_clear_f32(float *to, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        to[i] = 0.0f;
    }
}

SUMS(1, false)
SUMS(2, false)
SUMS(3, false)
SUMS(4, false)
SUMS(eights, false)
SUMS(backwards, true)
SUMS(sixteens, true)

#endif

enum { SIZE = sizeof(float), FOUR = 4, EIGHT = 8, SIXTEEN = 16, MOST = 4 /* channels */ };

void poet_conv2d_pointwise_apart_forward_f32(const struct poet_conv2d *op, const float *x,
                                             const float *w, const float *b, float *y)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_pointwise_forward_f32(op, x, w, b, y);
        return;
    }
    static poet_sum_apart_f32 *const sums[1 + MOST] = {
        poet_conv2d_apart_eights_f32, poet_conv2d_apart_1_f32, poet_conv2d_apart_2_f32,
        poet_conv2d_apart_3_f32, poet_conv2d_apart_4_f32};
    const int32_t channels = poet_channels_of_group(op, op->in_channels);
    const int32_t results = poet_channels_of_group(op, op->out_channels);
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t positions = op->out_height * op->out_width;
    const bool eights = channels == 1 && positions >= EIGHT;
    const int32_t step = op->stride_width * SIZE;
    struct poet_apart at = {
        .width = op->out_width,
        .step = step,
        .turn = op->stride_height * op->in_width * SIZE - op->out_width * step,
        .positions = positions,
        .samples = op->batch,
        .source_sample = op->in_channels * in_plane * SIZE,
        .result_sample = op->out_channels * positions * SIZE,
        .source_next = in_plane * SIZE,
        .weight_next = SIZE,
        .channels = channels,
        .result_next = positions * SIZE,
        .results = results,
        .shift = b,
    };
    poet_sum_apart_f32 *const sum = sums[eights ? 0 : channels];
    for (int32_t group = op->groups; group > 0; group--) {
        sum(&at, x, w, y);
        x += channels * in_plane;
        w += channels * results;
        y += results * positions;
        at.shift += b != NULL ? results : 0;
    }
}

void poet_conv2d_pointwise_apart_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                    const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_pointwise_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t channels = poet_channels_of_group(op, op->out_channels);
    const int32_t results = poet_channels_of_group(op, op->in_channels);
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t positions = op->out_height * op->out_width;
    const bool sixteens = results == 1 && positions >= SIXTEEN;
    const int32_t step = op->stride_width * SIZE;
    const struct poet_apart at = {
        .width = op->out_width,
        .step = step,
        .turn = op->stride_height * op->in_width * SIZE - op->out_width * step,
        .positions = positions,
        .samples = op->batch,
        .source_sample = op->out_channels * positions * SIZE,
        .result_sample = op->in_channels * in_plane * SIZE,
        .source_next = positions * SIZE,
        .weight_next = results * SIZE,
        .channels = channels,
        .result_next = in_plane * SIZE,
        .results = results,
        .shift = NULL,
    };
    poet_conv2d_clear_f32(dx, op->batch * op->in_channels * in_plane);
    poet_sum_apart_f32 *const sum =
        sixteens ? poet_conv2d_apart_sixteens_f32 : poet_conv2d_apart_backwards_f32;
    for (int32_t group = op->groups; group > 0; group--) {
        sum(&at, dy, w, dx);
        w += channels * results;
        dy += channels * positions;
        dx += results * in_plane;
    }
}
