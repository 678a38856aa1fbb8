// SPDX-License-Identifier: Apache-2.0
// Runs a named body for tests in Python: body_tool SETTINGS.json TENSORS.safetensors RESULTS.safetensors.
//
// The tensors are the body's inputs, fields and parameters by their names, "gradient_0" of each output, and int64
// "documents.<axis>" [documents, 2] of the places where documents begin and of their lengths. The results are
// "output_0" and "gradient.<name>" of inputs and parameters. Prints {"forward_flops", "backward_flops", "kept"}: the
// last of the bytes that the body says it keeps by name; fails where a run keeps others, or makes gradients that are
// others to the bit where it keeps less.
#include <ATen/ATen.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/body/run/body_run.h"
#include "core/checkpoint/safetensors.h"
#include "core/graph/operators/body_operators.h"
#include "tests/core/body/named_bodies.h"

namespace llmtrain::body::test {
namespace {

using NamedTensors = std::map<std::string, at::Tensor>;
using Role = BodyTensor::Role;

struct StoredType {
  const char* name;
  at::ScalarType type;
};
constexpr StoredType stored_types[] = {{"F32", at::kFloat}, {"F64", at::kDouble}, {"I64", at::kLong}};

NamedTensors read_tensors(const std::string& path) {
  const SafetensorsFile file(path);
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : file.entries())
    for (const StoredType& stored : stored_types)
      if (entry.dtype == stored.name) {
        at::Tensor tensor = at::empty(entry.shape, stored.type);
        std::ranges::copy(file.bytes(entry), static_cast<std::byte*>(tensor.mutable_data_ptr()));
        tensors[entry.name] = tensor;
      }
  return tensors;
}

void write_tensors(const std::string& path, NamedTensors& tensors) {
  std::vector<SafetensorsTensor> written;
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.contiguous();
    for (const StoredType& stored : stored_types)
      if (tensor.scalar_type() == stored.type)
        written.push_back({name, stored.name, tensor.sizes().vec(), tensor.const_data_ptr()});
  }
  write_safetensors(path, written);
}

class Parameters : public BodyParameters {
 public:
  Parameters(const Body& body, const NamedTensors& tensors) : body_(body), tensors_(tensors) {}

  at::Tensor weight(TensorId parameter) const override { return tensors_.at(body_.tensors[parameter].name); }
  void add_gradient(TensorId parameter, const at::Tensor& gradient) override {
    at::Tensor& sum = gradients["gradient." + body_.tensors[parameter].name];
    sum = sum.defined() ? sum + gradient : gradient.clone();
  }

  NamedTensors gradients;

 private:
  const Body& body_;
  const NamedTensors& tensors_;
};

std::vector<at::Tensor> tensors_of(const Body& body, Role role, const NamedTensors& tensors) {
  std::vector<at::Tensor> found;
  for (const TensorId id : body.tensors_of(role)) found.push_back(tensors.at(body.tensors[id].name));
  return found;
}

// The documents along each axis of tokens that has some.
class DocumentRuns {
 public:
  DocumentRuns(const Body& body, const NamedTensors& tensors) {
    for (AxisId axis = 0; axis < body.axes.size(); ++axis) {
      const auto found = tensors.find("documents." + body.axes[axis].name);
      if (found == tensors.end()) continue;
      for (std::int64_t i = 0; i < found->second.size(0); ++i)
        runs_[axis].push_back({found->second[i][0].item<std::int64_t>(), found->second[i][1].item<std::int64_t>()});
    }
  }
  BodyPass pass() const {
    BodyPass pass;
    for (const auto& [axis, runs] : runs_) pass.documents.push_back({axis, {.runs = runs}});
    return pass;
  }

 private:
  std::map<AxisId, std::vector<kernels::PositionRun>> runs_;
};

// By name the bytes that a body of this element type says it keeps.
std::map<std::string, double> stated_bytes(const Body& body, Keeping keeping, at::ScalarType type) {
  const auto element = static_cast<double>(at::elementSize(type));
  std::map<std::string, double> bytes;
  for (const KeptTensor& item : kept_tensors(body)) {
    if (item.through < keeping) continue;
    const bool is_index = item.type == Statistic::Type::index;
    bytes[item.name] = item.elements * (is_index ? sizeof(std::int64_t) : element);
  }
  return bytes;
}

// Scores that are stored are those within documents alone, which are fewer than are stated.
void check_kept(const BodyRun& run, const BodyTensors& kept, std::map<std::string, double> stated, bool has_documents) {
  run.visit(kept, [&](const std::string& name, const at::Tensor& tensor) {
    const double bytes = static_cast<double>(tensor.storage().nbytes()), of_name = stated.at(name);
    const bool is_as_stated = has_documents && name.ends_with(".probabilities") ? bytes <= of_name : bytes == of_name;
    if (!is_as_stated) throw std::runtime_error(name + " keeps other bytes than are stated");
    stated.erase(name);
  });
  if (!stated.empty()) throw std::runtime_error(stated.begin()->first + " is not kept");
}

NamedTensors passes_of(const Body& body, Keeping keeping, const NamedTensors& tensors, at::ScalarType type) {
  const BodyRun run(body, keeping, [](const std::string& name) { return std::hash<std::string>()(name); });
  const DocumentRuns documents(body, tensors);
  const BodyPass pass = documents.pass();
  const std::vector<at::Tensor> fields = tensors_of(body, Role::field, tensors);
  Parameters parameters(body, tensors);
  BodyRun::Output output = run.forward(tensors_of(body, Role::input, tensors), fields, parameters, pass);
  check_kept(run, output.kept, stated_bytes(body, keeping, type), !pass.documents.empty());
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < output.values.size(); ++i)
    gradients.push_back(tensors.at("gradient_" + std::to_string(i)));
  const std::vector<at::Tensor> of_inputs = run.backward(gradients, std::move(output.kept), fields, parameters, pass);
  NamedTensors results = parameters.gradients;
  const std::vector<TensorId> inputs = body.tensors_of(Role::input);
  for (std::size_t i = 0; i < inputs.size(); ++i) results["gradient." + body.tensors[inputs[i]].name] = of_inputs[i];
  for (std::size_t i = 0; i < output.values.size(); ++i) results["output_" + std::to_string(i)] = output.values[i];
  return results;
}

void run_body(const std::string& settings, const std::string& given, const std::string& made) {
  std::ifstream file(settings);
  const Body body = named_body(nlohmann::json::parse(file));
  const NamedTensors tensors = read_tensors(given);
  const at::ScalarType type = tensors.at("gradient_0").scalar_type();
  NamedTensors results = passes_of(body, Keeping::all, tensors, type);
  for (const Keeping keeping : {Keeping::costly, Keeping::inputs})
    for (const auto& [name, tensor] : passes_of(body, keeping, tensors, type))
      if (!at::equal(tensor, results.at(name))) throw std::runtime_error(name + " is another where less is kept");
  write_tensors(made, results);
  const OperatorList operators = priced(body, static_cast<double>(at::elementSize(type)));
  const nlohmann::json report{{"forward_flops", forward_flops(operators)},
                              {"backward_flops", backward_flops(operators)},
                              {"kept", stated_bytes(body, Keeping::all, type)}};
  std::cout << report << "\n";
}

}  // namespace
}  // namespace llmtrain::body::test

int main(int words, char** arguments) {
  if (words != 4) return 2;
  try {
    llmtrain::body::test::run_body(arguments[1], arguments[2], arguments[3]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
