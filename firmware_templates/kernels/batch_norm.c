/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm.h"

#include <stdbool.h>

#include "burst.h"
#include "poet_math.h"
#include "shapes.h"
#include "unroll.h"

/* Sums run over each row first, then over the rows, which limits rounding errors. */

/* Inlined, as callers pass constants for some arguments. */
#define INLINE static inline __attribute__((always_inline))

/* Feature maps of a multiple of this size are wide. Loops for them are compiled if all are wide, or if that is unknown. */
enum {
    WIDE = 16,
    ALL_ARE_WIDE = POET_HAS_FPU && POET_BATCH_NORM_PLANE % (2 * WIDE) == 0,
    SOME_ARE_WIDE = POET_HAS_FPU && (ALL_ARE_WIDE || POET_BATCH_NORM_PLANE == 1),
};

/* Rows of a feature map (of all samples if maps have a single row), and the distance between rows. */
struct rows {
    int32_t count;
    int32_t width;
    int32_t next;
};

#if POET_HAS_VFP

/* Elements of the rows p and q. No instruction uses the result of the one before. */
#define ADD(P, Q) "vadd.f32 %[a], %[a], " P "\n vadd.f32 %[b], %[b], " Q "\n"
#define ADD_SQUARES(P, Q)                                                                      \
    "vsub.f32 " P ", " P ", %[mean]\n vsub.f32 " Q ", " Q ", %[mean]\n"                        \
    "vmul.f32 " P ", " P ", " P "\n vmul.f32 " Q ", " Q ", " Q "\n" ADD(P, Q)
#define TWO(DO) "vldmia %[p]!, {s0-s1}\n vldmia %[q]!, {s16-s17}\n" DO("s0", "s16") DO("s1", "s17")
#define FOUR(DO)                                                                               \
    "vldmia %[p]!, {s0-s3}\n vldmia %[q]!, {s16-s19}\n" DO("s0", "s16") DO("s1", "s17")        \
        DO("s2", "s18") DO("s3", "s19")
#define EIGHT(DO)                                                                              \
    "vldmia %[p]!, {s0-s7}\n vldmia %[q]!, {s16-s23}\n" DO("s0", "s16") DO("s1", "s17")        \
        DO("s2", "s18") DO("s3", "s19") DO("s4", "s20") DO("s5", "s21") DO("s6", "s22")        \
        DO("s7", "s23")

#define EIGHTS(DO)                                                                             \
    "   lsrs %[n], %[width], #3\n"                                                             \
    "   beq 5f\n"                                                                              \
    "2:\n" EIGHT(DO)                                                                           \
    "   subs %[n], %[n], #1\n"                                                                 \
    "   bne 2b\n"

/* Elements left over by groups of eight, if the shapes allow any: four, two and one. Rows without a group go to label 5. */
#if POET_BATCH_NORM_WIDTH % 8 == 0
#define REST(DO) "5:\n"
#elif POET_BATCH_NORM_WIDTH % 4 == 0
#define REST(DO)                                                                               \
    "   lsls %[n], %[width], #29\n"                                                            \
    "   beq 8f\n"                                                                              \
    "5:\n" FOUR(DO)
#else
#define REST(DO)                                                                               \
    "   lsls %[n], %[width], #29\n"                                                            \
    "   beq 8f\n"                                                                              \
    "5: lsls %[n], %[width], #30\n"                                                            \
    "   bcc 6f\n" FOUR(DO)                                                                     \
    "   beq 8f\n"                                                                              \
    "6: bpl 7f\n" TWO(DO)                                                                      \
    "7: lsls %[n], %[n], #1\n"                                                                 \
    "   bpl 8f\n"                                                                              \
    "   vldmia %[p]!, {s0}\n"                                                                  \
    "   vldmia %[q]!, {s16}\n" DO("s0", "s16")
#endif

/* A row left over by pairs, if the shapes allow one, is both rows of a pair of which one is added. */
#if POET_BATCH_NORM_ROWS % 2 == 0
#define FIRST_IS_LAST ""
#define LAST(LOOP, DO) ""
#else
#define FIRST_IS_LAST "   beq 4f\n"
#define LAST(LOOP, DO)                                                                         \
    "4: lsls %[n], %[count], #31\n"                                                            \
    "   beq 9f\n"                                                                              \
    "   mov %[q], %[p]\n" SUM(LOOP, DO)                                                        \
    "   add %[p], %[q], %[gap]\n"                                                              \
    "9:\n"
#endif

/* Adds the first row of a pair to the total. */
#define SUM(LOOP, DO)                                                                          \
    "   vmov.f32 %[a], %[zero]\n"                                                              \
    "   vmov.f32 %[b], %[zero]\n"                                                              \
    LOOP                                                                                       \
    REST(DO)                                                                                   \
    "8: vadd.f32 %[total], %[total], %[a]\n"

/* All rows of all samples, in pairs. LOOP has the groups of eight. */
#define ADD_ROWS(LOOP, DO)                                                                     \
    __asm__("   lsrs %[pairs], %[count], #1\n"                                                 \
            FIRST_IS_LAST                                                                      \
            "1: add %[q], %[p], %[next]\n"                                                     \
            SUM(LOOP, DO)                                                                      \
            "   subs %[pairs], %[pairs], #1\n"                                                 \
            "   add %[p], %[q], %[gap]\n"                                                      \
            "   vadd.f32 %[total], %[total], %[b]\n"                                           \
            "   bne 1b\n"                                                                      \
            LAST(LOOP, DO)                                                                     \
            "   subs %[samples], %[samples], #1\n"                                             \
            "   add %[p], %[p], %[others]\n"                                                   \
            "   lsr %[pairs], %[count], #1\n"                                                  \
            "   bne 1b\n"                                                                      \
            : [p] "+&r"(x), [q] "=&r"(q), [pairs] "=&l"(pairs), [n] "=&l"(n),                  \
              [samples] "+&r"(samples), [total] "+&t"(total), [a] "=&t"(a), [b] "=&t"(b)       \
            : [width] "l"(rows.width), [next] "r"(rows.next * 4),                              \
              [gap] "r"((rows.next - rows.width) * 4), [others] "r"(others * 4),               \
              [count] "l"(rows.count), [mean] "t"(mean), [zero] "t"(0.0f)                      \
            : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s16", "s17", "s18", "s19",      \
              "s20", "s21", "s22", "s23", "cc", "memory")

/* The sums of the C code below. If maps may be wide, an iteration of the first sum has two groups of eight, and begins with the
 * second if their number is odd. */
INLINE float sum_of(int32_t samples, int32_t others, struct rows rows, const float *x,
                    bool distances, float mean)
{
    float total = 0.0f;
    int32_t pairs;
    const float *q;
    int32_t n;
    float a;
    float b;
    if (distances) {
        ADD_ROWS(EIGHTS(ADD_SQUARES), ADD_SQUARES);
    } else if (!SOME_ARE_WIDE) {
        ADD_ROWS(EIGHTS(ADD), ADD);
    } else {
        ADD_ROWS("   lsrs %[n], %[width], #4\n"
                  "   bcs 3f\n"
                  "   beq 5f\n"
                  "   subs %[n], %[n], #1\n"
                  "2:\n" EIGHT(ADD)
                  "3:\n" EIGHT(ADD)
                  "   subs %[n], %[n], #1\n"
                  "   bpl 2b\n", ADD);
    }
    return total;
}

#else

/* Element, or its squared deviation from the mean. */
INLINE float term(float value, bool distances, float mean)
{
    const float distance = value - mean;
    return distances ? distance * distance : value;
}

/* Sum of a channel's elements, or of their squared deviations from the mean. Two rows at a time, so that additions do not wait
 * for each other. */
INLINE float sum_of(int32_t samples, int32_t others, struct rows rows, const float *x,
                    bool distances, float mean)
{
    float total = 0.0f;
    for (; samples > 0; samples--) {
        int32_t left = rows.count;
        for (; POET_HAS_FPU && left >= 2; left -= 2) {
            const float *q = x + rows.next;
            float a = 0.0f;
            float b = 0.0f;
            for (int32_t i = 0; i < rows.width; i++) {
                a += term(x[i], distances, mean);
                b += term(q[i], distances, mean);
            }
            x = q + rows.next;
            total += a;
            total += b;
        }
        for (; (!POET_HAS_FPU || POET_BATCH_NORM_ROWS % 2 != 0) && left > 0; left--) {
            float a = 0.0f;
            for (int32_t i = 0; i < rows.width; i++) {
                a += term(x[i], distances, mean);
            }
            total += a;
            x += rows.next;
        }
        x += others; /* distance to the channel in the next sample */
    }
    return total;
}

#endif

void poet_batch_norm_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
                                    float *statistics)
{
    const int32_t channels = op->channels;
    const int32_t plane = op->height * op->width;
    const float count = (float)(op->batch * plane);
    struct rows rows = {op->height, op->width, op->width};
    int32_t samples = op->batch;
    if (POET_BATCH_NORM_ROWS % 2 != 0 && op->height == 1) {
        rows.count = samples;
        rows.next = channels * plane;
        samples = 1;
    }
    const int32_t others = channels * plane - rows.count * rows.next;
    for (int32_t c = 0; c < channels; c++) {
        const float mean = sum_of(samples, others, rows, x, false, 0.0f) / count;
        statistics[c] = mean;
        statistics[channels + c] = sum_of(samples, others, rows, x, true, mean) / count;
        x += plane;
    }
}

__attribute__((cold)) void
poet_batch_norm_update_running_f32(const struct poet_batch_norm_running *op,
                                        const float *statistics, float *running)
{
    const float kept = 1.0f - op->momentum;
    const float unbiased = (float)op->count / (float)(op->count - 1);
    for (int32_t c = 0; c < op->channels; c++) {
        const int32_t v = op->channels + c;
        running[c] = kept * running[c] + op->momentum * statistics[c];
        running[v] = kept * running[v] + op->momentum * (statistics[v] * unbiased);
    }
}

INLINE void normalize_burst(const float **from, float **to, float mean, float scale, float shift)
{
    struct poet_burst at = poet_load_burst(from);
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        at.of[i] = (at.of[i] - mean) * scale + shift;
    }
    poet_store_burst(to, &at);
}

#if POET_HAS_VFP

#define EACH_16(INSTRUCTION)                                                                   \
    INSTRUCTION("s0") INSTRUCTION("s1") INSTRUCTION("s2") INSTRUCTION("s3") INSTRUCTION("s4")  \
    INSTRUCTION("s5") INSTRUCTION("s6") INSTRUCTION("s7") INSTRUCTION("s8") INSTRUCTION("s9")  \
    INSTRUCTION("s10") INSTRUCTION("s11") INSTRUCTION("s12") INSTRUCTION("s13")                \
    INSTRUCTION("s14") INSTRUCTION("s15")
#define CENTRE(R) "vsub.f32 " R ", " R ", %[mean]\n"
#define SCALE(R) "vmul.f32 " R ", " R ", %[scale]\n"
#define SHIFT(R) "vadd.f32 " R ", " R ", %[shift]\n"

/* Sixteen elements in the registers of a single load. */
INLINE void normalize_16(const float **from, float **to, float mean, float scale, float shift)
{
    __asm__ volatile("vldmia %[from]!, {s0-s15}\n" EACH_16(CENTRE) EACH_16(SCALE) EACH_16(SHIFT)
            "vstmia %[to]!, {s0-s15}\n"
            : [from] "+r"(*from), [to] "+r"(*to)
            : [mean] "t"(mean), [scale] "t"(scale), [shift] "t"(shift)
            : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12",
              "s13", "s14", "s15", "memory");
}

#else

INLINE void normalize_16(const float **from, float **to, float mean, float scale, float shift)
{
    for (int i = 0; i < 16; i += POET_BURST) {
        normalize_burst(from, to, mean, scale, shift);
    }
}

#endif

INLINE void normalize(const struct poet_batch_norm *op, const float *x, const float *statistics,
                      const float *affine, float *y, int wide)
{
    const int32_t plane = op->height * op->width;
    const int32_t blocks = (int32_t)((uint32_t)plane / (wide ? 2 * WIDE : POET_BURST));
    const int32_t others = (op->channels - 1) * plane; /* distance to the channel in the next sample */
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        const float scale = affine[c] / poet_sqrtf(statistics[op->channels + c] + op->eps);
        const float shift = affine[op->channels + c];
        const float *from = x + c * plane;
        float *to = y + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t left = plane;
            for (; !wide && POET_BATCH_NORM_PLANE % POET_BURST != 0 && left % POET_BURST != 0;
                 left--) {
                *to++ = (*from++ - mean) * scale + shift;
            }
            if (wide && plane % (2 * WIDE) != 0) {
                normalize_16(&from, &to, mean, scale, shift);
            }
            for (left = blocks; wide && left != 0; left--) {
                normalize_16(&from, &to, mean, scale, shift);
                normalize_16(&from, &to, mean, scale, shift);
            }
            for (left = blocks; !wide && left != 0; left--) {
                normalize_burst(&from, &to, mean, scale, shift);
            }
            from += others;
            to += others;
        } while (--samples != 0);
    }
}

void poet_batch_norm_normalize_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *statistics, const float *affine, float *y)
{
    if (ALL_ARE_WIDE || (SOME_ARE_WIDE && op->height * op->width % WIDE == 0)) {
        normalize(op, x, statistics, affine, y, 1);
    } else {
        normalize(op, x, statistics, affine, y, 0);
    }
}

void poet_batch_norm_inference_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *affine, const float *running, float *y)
{
    poet_batch_norm_normalize_f32(op, x, running, affine, y);
}

INLINE struct poet_burst distances(const float **next, float mean)
{
    struct poet_burst at = poet_load_burst(next);
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        at.of[i] -= mean;
    }
    return at;
}

struct sums {
    float dgamma;
    float dbeta;
};

INLINE void add_gradient(struct sums *sum, float centred, float dy)
{
    sum->dgamma += dy * centred;
    sum->dbeta += dy;
}

void poet_batch_norm_backward_affine_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *statistics, const float *dy, float *daffine)
{
    const uint32_t width = (uint32_t)op->width;
    const uint32_t singles = POET_HAS_FPU && POET_BATCH_NORM_WIDTH % 4 != 0 ? width & 3u : 0u;
    const int32_t plane = op->height * op->width;
    const int32_t others = (op->channels - 1) * plane; /* distance to the channel in the next sample */
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        float dgamma = 0.0f;
        float dbeta = 0.0f;
        const float *s = x + c * plane;
        const float *g = dy + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t rows = op->height;
            do {
                struct sums row = {0.0f, 0.0f};
                if (POET_HAS_FPU && POET_BATCH_NORM_WIDTH % 8 != 0 && (width & 4u) != 0u) {
                    POET_UNROLL(4)
                    for (int i = 0; i < 4; i++) {
                        add_gradient(&row, s[i] - mean, g[i]);
                    }
                    s += 4;
                    g += 4;
                }
                for (uint32_t left = singles; left != 0u; left--) {
                    add_gradient(&row, *s++ - mean, *g++);
                }
                for (uint32_t left = width / POET_BURST; left != 0u; left--) {
                    const struct poet_burst x_at = distances(&s, mean);
                    const struct poet_burst g_at = poet_load_burst_too(&g);
                    POET_EACH_OF_BURST
                    for (int i = 0; i < POET_BURST; i++) {
                        add_gradient(&row, x_at.of[i], g_at.of[i]);
                    }
                }
                dgamma += row.dgamma;
                dbeta += row.dbeta;
            } while (--rows != 0);
            s += others;
            g += others;
        } while (--samples != 0);
        daffine[c] = dgamma / poet_sqrtf(statistics[op->channels + c] + op->eps);
        daffine[op->channels + c] = dbeta;
    }
}

void poet_batch_norm_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *daffine, const float *dy, float *dx)
{
    const int32_t plane = op->height * op->width;
    const int32_t bursts = (int32_t)((uint32_t)plane / POET_BURST);
    const int32_t others = (op->channels - 1) * plane; /* distance to the channel in the next sample */
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        const float deviation = poet_sqrtf(statistics[op->channels + c] + op->eps);
        const float scale = affine[c] / deviation;
        const float slope = daffine[c] / deviation / count;
        const float offset = daffine[op->channels + c] / count;
        const float *s = x + c * plane;
        const float *g = dy + c * plane;
        float *to = dx + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t left = plane;
            for (; POET_BATCH_NORM_PLANE % POET_BURST != 0 && left % POET_BURST != 0; left--) {
                *to++ = scale * ((*g++ - offset) - (*s++ - mean) * slope);
            }
            for (left = bursts; left != 0; left--) {
                struct poet_burst x_at = distances(&s, mean);
                struct poet_burst g_at = poet_load_burst_too(&g);
                POET_EACH_OF_BURST
                for (int i = 0; i < POET_BURST; i++) {
                    g_at.of[i] = scale * ((g_at.of[i] - offset) - x_at.of[i] * slope);
                }
                poet_store_burst(&to, &g_at);
            }
            s += others;
            g += others;
            to += others;
        } while (--samples != 0);
    }
}
