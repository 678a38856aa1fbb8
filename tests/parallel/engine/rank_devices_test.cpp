// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/rank_devices.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/local/local_world.h"

namespace llmtrain::test {
namespace {

constexpr auto automatic = CommunicationBackend::automatic;
constexpr auto mpi = CommunicationBackend::mpi;
constexpr auto nccl = CommunicationBackend::nccl;

RankDevice cpu(std::uint64_t node) { return {node, {}, 0}; }

RankDevice gpu(std::uint64_t node, unsigned char number) {
  return {node, {static_cast<unsigned char>(node), number}, 1};
}

std::string refusal(CommunicationBackend asked, const std::vector<RankDevice>& ranks, bool has_nccl) {
  try {
    choose_backend(asked, ranks, has_nccl);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("CPU ranks communicate over MPI") {
  for (const CommunicationBackend asked : {automatic, mpi}) {
    CHECK(choose_backend(asked, {cpu(1), cpu(1)}, true) == mpi);
    CHECK(choose_backend(asked, {cpu(1), cpu(2)}, false) == mpi);
  }
  CHECK_THAT(refusal(nccl, {cpu(1), cpu(1)}, true),
             Catch::StartsWith("/launch/backend: ") && Catch::Contains("compute on CPUs"));
}

TEST_CASE("Ranks with one GPU each communicate over NCCL") {
  const std::vector<RankDevice> one_node{gpu(1, 0), gpu(1, 1)}, two_nodes{gpu(1, 0), gpu(2, 0)},
      four{gpu(1, 0), gpu(1, 1), gpu(2, 0), gpu(2, 1)};
  for (const auto& ranks : {one_node, two_nodes, four}) {
    CHECK(choose_backend(automatic, ranks, true) == nccl);
    CHECK(choose_backend(nccl, ranks, true) == nccl);
    CHECK(choose_backend(mpi, ranks, true) == mpi);
  }
}

TEST_CASE("Without the NCCL part GPU ranks communicate over MPI, unless NCCL is requested") {
  const std::vector<RankDevice> ranks{gpu(1, 0), gpu(1, 1)};
  CHECK(choose_backend(automatic, ranks, false) == mpi);
  CHECK_THAT(refusal(nccl, ranks, false), Catch::StartsWith("/launch/backend: ") && Catch::Contains("no NCCL part"));
}

TEST_CASE("Ranks may share a GPU over MPI, not over NCCL") {
  const std::vector<RankDevice> ranks{gpu(1, 0), gpu(2, 0), gpu(2, 1), gpu(2, 0)};
  CHECK(choose_backend(automatic, ranks, true) == mpi);
  CHECK(choose_backend(mpi, ranks, true) == mpi);
  CHECK_THAT(refusal(nccl, ranks, true),
             Catch::StartsWith("/launch/backend: ") && Catch::Contains("a node has 3 ranks and 2 GPUs"));
}

TEST_CASE("Ranks on GPUs and ranks on CPUs do not train together") {
  for (const CommunicationBackend asked : {automatic, mpi, nccl}) {
    const std::string said = refusal(asked, {gpu(1, 0), gpu(1, 1), cpu(2)}, true);
    CHECK_THAT(said, Catch::StartsWith("/cluster/device: ") && Catch::Contains("rank 0 and rank 2"));
  }
}

TEST_CASE("On CPUs ranks select MPI and train with the host communicator itself") {
  LocalWorld(2).run([](Communicator& communicator) {
    if (agree_on_backend(communicator, automatic, c10::kCPU) != mpi)
      throw Error(ExitCode::internal_error, "another backend");
    const std::shared_ptr<Communicator> host(&communicator, [](Communicator*) {});
    if (connect_devices(host, mpi, c10::kCPU, 60) != host)
      throw Error(ExitCode::internal_error, "another communicator");
  });
}

}  // namespace llmtrain::test
