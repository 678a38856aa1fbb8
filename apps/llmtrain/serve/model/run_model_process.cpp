// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/model/run_model_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/serve/model/model_process.h"
#include "core/base/error.h"
#include "core/machine/host_memory.h"
#include "parallel/runtime/remote/message_channel.h"
#include "parallel/runtime/remote/messages.h"
#include "parallel/runtime/remote/service_host.h"

namespace llmtrain::app {
namespace {

int socket_in(const std::vector<std::string>& arguments) {
  int socket = -1;
  struct stat status {};
  if (arguments.size() == 2) {
    const std::string& number = arguments.back();
    const auto read = std::from_chars(number.data(), number.data() + number.size(), socket);
    if (read.ptr != number.data() + number.size()) socket = -1;
  }
  if (socket < 0 || ::fstat(socket, &status) != 0 || !S_ISSOCK(status.st_mode))
    throw Error(ExitCode::bad_recipe,
                std::string(model_word) + ": is a word of llmtrain serve's own, which starts itself with it");
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  return socket;
}

// With the recipes of its checkpoints, read as the server has read them.
ServeRequest request_of(remote::LoadModel order) {
  order.request.recipe = open_source(order.request.checkpoint, order.overrides, true).recipe;
  if (order.request.draft && order.request.draft->model)
    order.request.draft->model->recipe = open_source(order.request.draft->model->checkpoint, {}).recipe;
  return std::move(order.request);
}

void load_and_serve(remote::MessageChannel& channel) {
  const std::optional<std::string> message = channel.receive();
  if (!message) return;
  remote::Order order = remote::decoded_order(*message);
  auto* load = std::get_if<remote::LoadModel>(&order);
  if (load == nullptr) throw Error(ExitCode::internal_error, "the model's process was not told what to load");
  const ServeRequest request = request_of(std::move(*load));
  remote::ServiceHost host(channel);
  load_runtime().serve(request, [&](TextService& service) { host.serve(service); });
}

// As main() has it.
remote::Failed failure_of(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown))
    return {static_cast<std::int64_t>(error->code()), error->what()};
  const auto text = out_of_memory(thrown);
  return {static_cast<std::int64_t>(ExitCode::internal_error),
          text ? *text : std::string("internal error: ") + thrown.what()};
}

}  // namespace

int run_model_process(const std::vector<std::string>& arguments) {
  // It is called "exe" otherwise, as the link by which it was started.
  ::prctl(PR_SET_NAME, "llmtrain-model");
  remote::MessageChannel channel(socket_in(arguments));
  try {
    load_and_serve(channel);
    return 0;
  } catch (const std::exception& thrown) {
    const remote::Failed failed = failure_of(thrown);
    channel.send(remote::encoded(remote::Report(failed)));
    return static_cast<int>(failed.code);
  }
}

}  // namespace llmtrain::app
