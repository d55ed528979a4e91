/* SPDX-License-Identifier: Apache-2.0 */
/* Log-mel energies and mel-frequency cepstral coefficients of sound, with the bits that poetfw calculates on the
 * host: each operation is rounded on its own, in the same order.
 */
#ifndef POET_SPECTRA_H
#define POET_SPECTRA_H

#include <stdint.h>

/* Which features. Frames are of `fft` samples, a power of two: `window` of sound, and zeros. */
struct poet_spectra {
    int32_t coefficients;
    int32_t bands;
    int32_t window;
    int32_t fft;
    float floor;            /* what is added before the logarithm */
    const float *hann;      /* [window] */
    const float *turns;     /* [fft / 2][2]: cos(a) and -sin(a) of a = 2 pi k / fft */
    const int16_t *bins;    /* [bands][2]: the first frequency in a triangle, and how many there are */
    const float *triangles; /* how much each of those counts, one triangle after the other */
    const float *cosines;   /* [bands][coefficients]; NULL for the logarithms themselves */
};

/* The coefficients of one frame of `window` samples. Work has fft + fft / 2 floats. */
void poet_spectrum(const struct poet_spectra *spectra, const int16_t *samples, float *coefficients,
                   float *work);

#endif
