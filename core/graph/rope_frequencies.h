// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// The angle per position of each pair of a head's elements, in radians: head_dim / 2 numbers, of pair i
// theta^(−2i/head_dim), and with a scaling what it makes of that:
// - linear: all divided by the factor (Chen et al., arXiv 2306.15595);
// - llama3: those whose wavelength is longer than original_max_sequence_length / low_frequency_factor divided by the
//   factor, those shorter than original_max_sequence_length / high_frequency_factor unchanged, and between them a mean
//   of the two whose weight is linear in original_max_sequence_length / wavelength (Llama 3.1);
// - yarn: a mean of the two whose weight is linear in i, between the pairs that turn beta_fast and beta_slow times
//   within original_max_sequence_length (Peng et al., arXiv 2309.00071, section 3.2), whole ones with `truncate`.
std::vector<double> rope_frequencies(const RopeSettings& rope);

// What cosines and sines are multiplied by: attention_factor of yarn (ibid., section 3.3, where it is √(1/t)), else 1.
double rope_amplitude(const RopeSettings& rope);

// The rotary positions of all layers of the graph, those of several layers once.
std::vector<RopeSettings> rope_settings(const Graph& graph);

}  // namespace llmtrain
