// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

class GraphWriter;

// The blocks of BART and T5 (core/body/families): "encoder.embedding", "encoder.layers.0" … of the first axis of rows,
// the source's; "decoder.embedding", "decoder.layers.0" … and "head" of the second, the target's. In T5 "encoder.norm"
// is between the two. Layers of the decoder read what the encoder makes beside what the one before makes. One table of
// tokens is read by both embeddings and, where model.tie_embeddings says so, by the head; of T5's two tables of
// relative positions each is read by all layers of one side.
void write_encoder_decoder(GraphWriter& writer);

}  // namespace llmtrain
