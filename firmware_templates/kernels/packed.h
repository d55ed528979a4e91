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
    int32_t channels; /* from a slice to the next */
    int32_t last;     /* first channel of the last slice, which may overlap with the one before */
    struct poet_unpack unpack;
    int32_t samples; /* number of samples, computed one at a time */
    int32_t input;   /* elements of a sample's input */
    int32_t output;  /* elements of a sample's output */
    /* From a channel to the next: */
    int32_t weights_apart;
    int32_t scales_apart; /* 0 if all slices have the same scales */
    int32_t input_apart;  /* 0 if each slice reads the whole input */
    int32_t output_apart;
    int32_t bias_apart;
};

/* w[rows][row] = weights, of which the first row begins with weight `first` of the words; scales[rows] */
void poet_unpack_float16_f32(const struct poet_unpack *op, const int32_t *words, int32_t first, float *w);
void poet_unpack_int8_f32(const struct poet_unpack *op, const int32_t *words, int32_t first, const float *scales,
                          float *w);

/* Computes a slice of a sample's output by the layer's own kernel; b is NULL for a layer without bias. */
typedef void poet_packed_slice_f32(const void *op, const float *input, const float *w, const float *b, float *output);

/* Unpacks the weights of one slice after the other to w[rows][row], with which `run` computes that slice of each sample. b and
 * scales may be NULL. If w is NULL, the weights are floats, contiguous for each slice, and used without a copy. Channels that two
 * slices have in common are calculated twice. */
void poet_run_packed_f32(const struct poet_packed *packed, poet_packed_slice_f32 *run, const void *op,
                         const float *input, const void *weights, const float *b, const float *scales,
                         float *output, float *w);

#endif
