/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in formats smaller than a float, and layers that read them.
 *
 *   words   float16: the bits of two IEEE 754 halves in each; int8: four signed bytes, the lowest first
 *   scales  int8: [output channels], what a weight's byte is multiplied with; NULL for float16
 *
 * A layer runs in slices of its results' channels: the weights of a slice are made floats in the workspace,
 * and the layer's own kernel calculates the slice of each sample from them.
 */
#ifndef POET_PACKED_H
#define POET_PACKED_H

#include <stdint.h>

struct poet_unpack {
    int32_t rows;     /* contiguous stretches of weights per slice */
    int32_t row;      /* weights per stretch */
    int32_t from_row; /* distance between stretches, in weights */
};

struct poet_packed {
    int32_t slices;
    struct poet_unpack unpack;
    int32_t from_slice;      /* distance between slices, in weights */
    int32_t scales;          /* distance between slices, in scales; 0 if all slices have the same scales */
    int32_t samples;         /* number of samples, computed one at a time */
    int32_t input;           /* elements of a sample's input */
    int32_t input_of_slice;  /* distance between slices in the input; 0 if each slice reads all of it */
    int32_t output;          /* elements of a sample's output */
    int32_t output_of_slice; /* distance between slices in the output */
    int32_t bias_of_slice;   /* distance between slices in the bias */
};

/* w[rows][row] = weights, of which the first row begins with weight `first` of the words; scales[rows] */
void poet_unpack_float16_f32(const struct poet_unpack *op, const int32_t *words, int32_t first, float *w);
void poet_unpack_int8_f32(const struct poet_unpack *op, const int32_t *words, int32_t first, const float *scales,
                          float *w);

/* Computes a slice of a sample's output by the layer's own kernel; b is NULL for a layer without bias. */
typedef void poet_packed_slice_f32(const void *op, const float *input, const float *w, const float *b, float *output);

/* Unpacks the weights of one slice after the other to w[rows][row], with which `run` computes that slice of each sample. b and
 * scales may be NULL. If w is NULL, the weights are floats, contiguous for each slice, and used without a copy. */
void poet_run_packed_f32(const struct poet_packed *packed, poet_packed_slice_f32 *run, const void *op,
                         const float *input, const void *weights, const float *b, const float *scales,
                         float *output, float *w);

#endif
