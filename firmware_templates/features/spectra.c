/* SPDX-License-Identifier: Apache-2.0 */
#include "spectra.h"

#include <stddef.h>

#include "poet_math.h"

static void swap(float *values, int32_t i, int32_t j)
{
    for (int32_t part = 0; part < 2; part++) {
        const float value = values[2 * i + part];
        values[2 * i + part] = values[2 * j + part];
        values[2 * j + part] = value;
    }
}

/* Puts each complex number where its index with its bits reversed is. */
static void reverse_bits(float *values, int32_t count)
{
    for (int32_t i = 0, reversed = 0; i < count; i++) {
        if (i < reversed) {
            swap(values, i, reversed);
        }
        int32_t bit = count >> 1;
        while (bit > 0 && (reversed & bit) != 0) {
            reversed ^= bit;
            bit >>= 1;
        }
        reversed |= bit;
    }
}

/* The Fourier transform of complex numbers in place, by decimation in time (Cooley and Tukey, 1965).
 * `turns` has those of a transform twice as long. */
static void transform(float *values, int32_t count, const float *turns)
{
    reverse_bits(values, count);
    for (int32_t half = 1; half < count; half *= 2) {
        const int32_t step = count / half;
        for (int32_t first = 0; first < count; first += 2 * half) {
            for (int32_t k = 0; k < half; k++) {
                float *a = values + 2 * (first + k);
                float *b = a + 2 * half;
                const float *turn = turns + 2 * k * step;
                const float real = turn[0] * b[0] - turn[1] * b[1];
                const float imaginary = turn[0] * b[1] + turn[1] * b[0];
                b[0] = a[0] - real;
                b[1] = a[1] - imaginary;
                a[0] = a[0] + real;
                a[1] = a[1] + imaginary;
            }
        }
    }
}

/* Magnitudes of the transform of real numbers, [count], from that of their pairs as complex numbers. */
static void take_magnitudes(const float *pairs, int32_t count, const float *turns, float *magnitudes)
{
    for (int32_t k = 0; k < count; k++) {
        const float *one = pairs + 2 * k;
        const float *other = pairs + 2 * (k == 0 ? 0 : count - k);
        const float even_real = 0.5f * (one[0] + other[0]);
        const float even_imaginary = 0.5f * (one[1] - other[1]);
        const float odd_real = 0.5f * (one[1] + other[1]);
        const float odd_imaginary = 0.5f * (other[0] - one[0]);
        const float *turn = turns + 2 * k;
        const float real = even_real + (turn[0] * odd_real - turn[1] * odd_imaginary);
        const float imaginary = even_imaginary + (turn[0] * odd_imaginary + turn[1] * odd_real);
        magnitudes[k] = poet_sqrtf(real * real + imaginary * imaginary);
    }
}

void poet_spectrum(const struct poet_spectra *spectra, const int16_t *samples, float *coefficients,
                   float *work)
{
    const int32_t half = spectra->fft / 2;
    float *magnitudes = work + spectra->fft;
    for (int32_t i = 0; i < spectra->fft; i++) {
        work[i] = i < spectra->window ? (float)samples[i] * 0x1p-15f * spectra->hann[i] : 0.0f;
    }
    transform(work, half, spectra->turns);
    take_magnitudes(work, half, spectra->turns, magnitudes);

    float *logarithms = spectra->cosines == NULL ? coefficients : work;
    const float *weight = spectra->triangles;
    for (int32_t band = 0; band < spectra->bands; band++) {
        const float *magnitude = magnitudes + spectra->bins[2 * band];
        float sum = 0.0f;
        for (int32_t i = 0; i < spectra->bins[2 * band + 1]; i++) {
            sum += *weight++ * magnitude[i];
        }
        logarithms[band] = poet_logf(sum + spectra->floor);
    }
    for (int32_t c = 0; spectra->cosines != NULL && c < spectra->coefficients; c++) {
        float sum = 0.0f;
        for (int32_t band = 0; band < spectra->bands; band++) {
            sum += spectra->cosines[band * spectra->coefficients + c] * logarithms[band];
        }
        coefficients[c] = sum;
    }
}
