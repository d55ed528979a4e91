/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#include "poet_math.h"

/* The functions below are one number's; a pass over all elements is the same for each. Forward, NaN stays NaN. The parameter
 * is p, and a pass backward has x or y, whichever it is, as v. */

#define FORWARD(name, expression)                                                                     \
    void poet_##name##_forward_f32(const struct poet_pointwise *op, const float *x, float *y)         \
    {                                                                                                 \
        const float p = op->parameter;                                                                \
        (void)p;                                                                                      \
        for (int32_t i = 0; i < op->elements; i++) {                                                  \
            const float v = x[i];                                                                     \
            y[i] = (expression);                                                                      \
        }                                                                                             \
    }

#define BACKWARD(name, expression)                                                                    \
    void poet_##name##_backward_f32(const struct poet_pointwise *op, const float *seen,               \
                                    const float *dy, float *dx)                                       \
    {                                                                                                 \
        const float p = op->parameter;                                                                \
        (void)p;                                                                                      \
        for (int32_t i = 0; i < op->elements; i++) {                                                  \
            const float v = seen[i];                                                                  \
            const float d = dy[i];                                                                    \
            dx[i] = (expression);                                                                     \
        }                                                                                             \
    }

/* Of the power that cannot overflow: what is small stays right down to the subnormal numbers. */
static float sigmoid(float x)
{
    const float e = poet_expf(x < 0.0f ? x : -x);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* An odd polynomial below 1, where erf is not near it; from there on 1 - e^(-z^2) Q(t), with
 * t = 1 / (1 + z / 2). Both are minimax fits; the error is below 3 units of 2^-24. */
static float erf_of(float x)
{
    const float z = x < 0.0f ? -x : x;
    float y = 1.0f;
    if (z < 1.0f) {
        const float s = z * z;
        float p = -0x1.44cfaap-17f;
        p = p * s + 0x1.d8b884p-14f;
        p = p * s + -0x1.bcd7dep-11f;
        p = p * s + 0x1.562b1ap-8f;
        p = p * s + -0x1.b829d8p-6f;
        p = p * s + 0x1.ce2f0ap-4f;
        p = p * s + -0x1.812746p-2f;
        p = p * s + 0x1.20dd76p+0f;
        y = z * p;
    } else if (!(z >= 4.0f)) { /* or NaN, which stays */
        const float t = 1.0f / (1.0f + 0.5f * z);
        float q = -0x1.b5e0b4p-5f;
        q = q * t + -0x1.d7ef12p-5f;
        q = q * t + 0x1.9de0ccp-2f;
        q = q * t + 0x1.9ddfcep-4f;
        q = q * t + 0x1.52dd94p-2f;
        q = q * t + 0x1.182b28p-2f;
        q = q * t + 0x1.3e9a5ap-11f;
        y = 1.0f - poet_expf(-z * z) * q;
    }
    return x < 0.0f ? -y : y;
}

/* The normal distribution's cumulative density. */
static float cumulative(float x)
{
    return 0.5f * (1.0f + erf_of(x * 0x1.6a09e6p-1f));
}

static float gelu_slope(float x)
{
    return cumulative(x) + x * (poet_expf(-0.5f * x * x) * 0x1.988454p-2f);
}

/* GELU's approximation: sqrt(2 / pi) and the cubic's factor. */
static const float ROOT = 0x1.988454p-1f;
static const float CUBIC = 0x1.6e4e26p-5f;

static float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + poet_tanhf(ROOT * (x + CUBIC * x * x * x)));
}

static float gelu_tanh_slope(float x)
{
    const float tanh = poet_tanhf(ROOT * (x + CUBIC * x * x * x));
    const float inner = ROOT * (1.0f + 3.0f * CUBIC * x * x);
    const float bend = (1.0f - tanh * tanh) * inner;
    return 0.5f * (1.0f + tanh) + 0.5f * x * bend;
}

static float silu_slope(float x)
{
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}

/* log(1 + t) for t in [0, 1]: what the sum's rounding loses is made up for (Kahan). */
static float log_of_1_and(float t)
{
    const float sum = 1.0f + t;
    return sum == 1.0f ? t : poet_logf(sum) * (t / (sum - 1.0f));
}

static float softplus(float x)
{
    const float rest = log_of_1_and(poet_expf(x < 0.0f ? x : -x));
    return x < 0.0f ? rest : x + rest;
}

static float hard_sigmoid(float x)
{
    const float low = x + 3.0f <= 0.0f ? 0.0f : x + 3.0f;
    return (low >= 6.0f ? 6.0f : low) / 6.0f;
}

static float hard_swish(float x)
{
    const float low = x + 3.0f <= 0.0f ? 0.0f : x + 3.0f;
    return x * (low >= 6.0f ? 6.0f : low) / 6.0f;
}

static float sign(float x)
{
    return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : 0.0f);
}

FORWARD(sigmoid, sigmoid(v))
BACKWARD(sigmoid, d * v * (1.0f - v))

FORWARD(tanh, poet_tanhf(v))
BACKWARD(tanh, d * (1.0f - v * v))

FORWARD(silu, v * sigmoid(v))
BACKWARD(silu, d * silu_slope(v))

FORWARD(gelu, v * cumulative(v))
BACKWARD(gelu, d * gelu_slope(v))

FORWARD(gelu_tanh, gelu_tanh(v))
BACKWARD(gelu_tanh, d * gelu_tanh_slope(v))

FORWARD(leaky_relu, v > 0.0f ? v : p * v)
BACKWARD(leaky_relu, v > 0.0f ? d : p * d)

FORWARD(elu, v > 0.0f ? v : p * (poet_expf(v) - 1.0f))
BACKWARD(elu, v > 0.0f ? d : d * (v + p))

FORWARD(softplus, softplus(v))
BACKWARD(softplus, d * sigmoid(v))

FORWARD(hard_sigmoid, hard_sigmoid(v))
BACKWARD(hard_sigmoid, v > -3.0f && v < 3.0f ? d / 6.0f : 0.0f)

FORWARD(hard_swish, hard_swish(v))
BACKWARD(hard_swish, v <= -3.0f ? 0.0f : (v < 3.0f ? d * (v / 3.0f + 0.5f) : d))

FORWARD(at_least, v <= p ? p : v)
BACKWARD(at_least, v >= p ? d : 0.0f)

FORWARD(at_most, v >= p ? p : v)
BACKWARD(at_most, v <= p ? d : 0.0f)

FORWARD(erf, erf_of(v))
BACKWARD(erf, d * (poet_expf(-v * v) * 0x1.20dd76p+0f))

FORWARD(exp, poet_expf(v))
BACKWARD(exp, d * v)

FORWARD(log, poet_logf(v))
BACKWARD(log, d / v)

FORWARD(sqrt, poet_sqrtf(v))
BACKWARD(sqrt, d * 0.5f / v)

FORWARD(norm_root, poet_sqrtf(v))
BACKWARD(norm_root, v == 0.0f ? 0.0f : d * 0.5f / v)

FORWARD(reciprocal, 1.0f / v)
BACKWARD(reciprocal, -d * v * v)

FORWARD(square, v *v)
BACKWARD(square, 2.0f * d * v)

FORWARD(abs, v < 0.0f ? -v : v)
BACKWARD(abs, d * sign(v))

FORWARD(scale, p *v)
