// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/messages.h"

#include <cstddef>
#include <utility>

#include "parallel/runtime/remote/byte_archive.h"

namespace llmtrain::remote {

// Not in an unnamed namespace, in which a call that depends on the archive would not look.
template <class Archive>
constexpr KeyValueType last_value(const Archive&, KeyValueType) {
  return KeyValueType::fp8;
}

template <class Archive>
constexpr TextPooling last_value(const Archive&, TextPooling) {
  return TextPooling::last;
}

template <class Archive>
void describe(Archive& archive, Field<Archive, ServedText>& text) {
  archive(text.prompt, text.tokens, text.temperature, text.top_k, text.top_p, text.repetition_penalty, text.seed,
          text.number, text.sample, text.log_probabilities, text.returns_experts);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, ServedToken::Likely>& likely) {
  archive(likely.id, likely.log_probability);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, ServedToken>& token) {
  archive(token.id, token.log_probability, token.likeliest, token.experts);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, TextService::Load>& load) {
  archive(load.waiting, load.growing, load.embedding, load.used_bytes, load.cache_bytes, load.drafted, load.accepted);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, InferenceRanks>& ranks) {
  archive(ranks.tensor, ranks.pipeline);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, WeightMemory>& memory) {
  archive(memory.bytes, memory.folder, memory.bytes_per_second);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, DraftRequest::Model>& model) {
  archive(model.checkpoint);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, DraftRequest>& draft) {
  archive(draft.model, draft.tokens);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, ServeRequest>& request) {
  archive(request.checkpoint, request.sequences, request.waiting, request.cache_bytes, request.is_exact,
          request.key_values, request.draft, request.pooling, request.ranks, request.memory);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, LoadModel>& order) {
  archive(order.request, order.overrides);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, AddTexts>& order) {
  archive(order.call, order.first, order.texts);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, CancelText>& order) {
  archive(order.text);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, EmbedTexts>& order) {
  archive(order.call, order.request, order.texts);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, CancelEmbedding>& order) {
  archive(order.request);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, AskLoad>& order) {
  archive(order.call);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, Ready>& report) {
  archive(report.longest, report.longest_embedded);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, RefusedTexts>& refusal) {
  archive(refusal.code, refusal.message);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, Taken>& report) {
  archive(report.call, report.is_taken, report.refusal);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, Grown>& report) {
  archive(report.text, report.token);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, Embedded>& report) {
  archive(report.request, report.embedding);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, LoadFound>& report) {
  archive(report.call, report.load);
}

template <class Archive>
void describe(Archive& archive, Field<Archive, Failed>& report) {
  archive(report.code, report.message);
}

namespace {

// The number of its kind, and then itself.
template <class Message>
std::string bytes_of(const Message& message) {
  ByteWriter writer;
  writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& one) { writer(one); }, message);
  return writer.take();
}

template <class Message, std::size_t... Kinds>
Message message_of(std::string_view bytes, std::index_sequence<Kinds...>) {
  ByteReader reader(bytes);
  std::uint8_t kind = 0;
  reader(kind);
  Message message;
  const auto read_kind = [&]<std::size_t Kind>() {
    if (kind == Kind) reader(message.template emplace<Kind>());
    return kind == Kind;
  };
  if (!(read_kind.template operator()<Kinds>() || ...)) ByteReader::refuse("is of no kind that is known");
  reader.finish();
  return message;
}

}  // namespace

Taken refused(std::int64_t call, const Error& error) {
  return {
      .call = call, .is_taken = false, .refusal = RefusedTexts{static_cast<std::int64_t>(error.code()), error.what()}};
}

std::string encoded(const Order& order) { return bytes_of(order); }

std::string encoded(const Report& report) { return bytes_of(report); }

Order decoded_order(std::string_view bytes) {
  return message_of<Order>(bytes, std::make_index_sequence<std::variant_size_v<Order>>());
}

Report decoded_report(std::string_view bytes) {
  return message_of<Report>(bytes, std::make_index_sequence<std::variant_size_v<Report>>());
}

}  // namespace llmtrain::remote
