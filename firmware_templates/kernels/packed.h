/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that take less than a float each, and layers that read them.
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

struct poet_packed {
    int32_t slices;
    int32_t rows;            /* stretches of the weights that a slice has */
    int32_t row;             /* weights of such a stretch */
    int32_t from_row;        /* weights from the beginning of a stretch to that of the next */
    int32_t from_slice;      /* weights from the first of a slice to that of the next */
    int32_t scales;          /* scales from slice to slice; 0 where each row of each slice has the same */
    int32_t samples;         /* that are calculated one by one */
    int32_t input;           /* elements of a sample's input */
    int32_t input_of_slice;  /* elements of it from slice to slice; 0 where each slice reads all */
    int32_t output;          /* elements of a sample's output */
    int32_t output_of_slice; /* elements of it from slice to slice */
    int32_t bias_of_slice;   /* elements of the bias from slice to slice */
};

/* Calculates a slice of a sample's output by the layer's own kernel; b is NULL for a layer without a bias. */
typedef void poet_packed_slice_f32(const void *op, const float *input, const float *w, const float *b, float *output);

/* w[rows][row] = the weights of each slice in turn, with which `run` calculates that slice of each sample. b and
 * scales may be NULL. Where w is NULL, the weights are floats, those of a slice one after the other, and read as
 * they are. */
void poet_run_packed_f32(const struct poet_packed *packed, poet_packed_slice_f32 *run, const void *op,
                         const float *input, const void *weights, const float *b, const float *scales,
                         float *output, float *w);

#endif
