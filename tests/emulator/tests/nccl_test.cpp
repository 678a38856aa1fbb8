// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/emulator/tests/child_program.h"
#include "tests/emulator/tests/ranks_on_threads.h"

using namespace emulated;
using namespace emulated::test;

namespace {

constexpr std::size_t elements = 100003;  // more than a piece, and no multiple of anything

void all_reduce(const Rank& rank, const Floats& x) {
  check(ncclAllReduce(x.data, x.data, x.count, ncclFloat32, ncclSum, rank.comm, rank.stream));
}

}  // namespace

TEST_CASE("Collectives and messages of two ranks give what they must") {
  must_be_right([] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(elements, static_cast<float>(rank.number + 1)), all = rank.floats(2 * elements, 0);
      all_reduce(rank, x);
      expect(rank.first_of(x) == 3, "the sum");
      add(reinterpret_cast<Stream*>(rank.stream), x, static_cast<float>(rank.number));
      check(ncclAllGather(x.data, all.data, elements, ncclFloat32, rank.comm, rank.stream));
      expect(rank.first_of(all) == 3 && rank.first_of({all.data + 2 * elements - 1, 1}) == 4, "the gathered numbers");
      check(ncclReduceScatter(all.data, x.data, elements, ncclFloat32, ncclSum, rank.comm, rank.stream));
      expect(rank.first_of(x) == static_cast<float>(6 + 2 * rank.number), "the scattered sums");
      check(ncclBroadcast(x.data, x.data, elements, ncclFloat32, 1, rank.comm, rank.stream));
      expect(rank.first_of(x) == 8, "rank 1's number");
      set(reinterpret_cast<Stream*>(rank.stream), x, static_cast<float>(10 + rank.number));
      check(ncclGroupStart());
      check(ncclSend(x.data, elements, ncclFloat32, 1 - rank.number, rank.comm, rank.stream));
      check(ncclRecv(all.data, elements, ncclFloat32, 1 - rank.number, rank.comm, rank.stream));
      check(ncclGroupEnd());
      expect(rank.first_of({all.data + elements - 1, 1}) == static_cast<float>(11 - rank.number), "the other's number");
      check(ncclCommDestroy(rank.comm));
    });
    expect(named_counts().at("communicators") == std::map<std::string, std::int64_t>{{"created", 2}, {"destroyed", 2}},
           "the communicators");
  });
}

TEST_CASE("Sums of 16-bit numbers are rounded to the nearest") {
  // Each rank's pair of numbers, and the pair of their sums.
  const auto program = [](ncclDataType_t type, std::array<std::array<std::uint16_t, 2>, 2> given,
                          std::array<std::uint16_t, 2> expected) {
    on_two_ranks([=](const Rank& rank) {
      const Floats x = rank.floats(1, 0);
      const auto own = given[static_cast<std::size_t>(rank.number)];
      cudaMemcpyAsync(x.data, own.data(), 4, cudaMemcpyHostToDevice, rank.stream);
      check(ncclAllReduce(x.data, x.data, 2, type, ncclSum, rank.comm, rank.stream));
      std::array<std::uint16_t, 2> sums{};
      cudaMemcpyAsync(sums.data(), x.data, 4, cudaMemcpyDeviceToHost, rank.stream);
      expect(sums == expected, "the sums are " + std::to_string(sums[0]) + " and " + std::to_string(sums[1]));
    });
  };
  // 256 + 1 = 256 and 258 + 1 = 260, to the even one of two neighbours.
  must_be_right([=] { program(ncclBfloat16, {{{0x4380, 0x4381}, {0x3f80, 0x3f80}}}, {0x4380, 0x4382}); });
  // 1 + 2⁻¹¹ = 1; the smallest number and its double; 65504 + 65504 is infinite; -1 + 1 = 0.
  must_be_right([=] { program(ncclFloat16, {{{0x3c00, 0x0001}, {0x1000, 0x0002}}}, {0x3c00, 0x0003}); });
  must_be_right([=] { program(ncclFloat16, {{{0x7bff, 0xbc00}, {0x7bff, 0x3c00}}}, {0x7c00, 0x0000}); });
}

TEST_CASE("Ranks that call different collectives are told so instead of hanging") {
  must_be_caught("ranks disagree: rank", [] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      all_reduce(rank, {x.data, x.count - static_cast<std::size_t>(rank.number)});
    });
  });
  must_be_caught("ranks disagree: rank", [] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1), all = rank.floats(2000, 1);
      if (rank.number == 0) all_reduce(rank, x);
      check(ncclAllGather(x.data, all.data, 1000, ncclFloat32, rank.comm, rank.stream));
      if (rank.number == 1) all_reduce(rank, x);
    });
  });
}

TEST_CASE("A collective or message that nobody joins is reported") {
  must_be_caught("another rank has not called it within 1 s (NCCL would hang)", [] {
    settings().nccl_seconds = 1;
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      if (rank.number == 0) all_reduce(rank, x);
    });
  });
  must_be_caught("another rank has not called it within 1 s (NCCL would hang)", [] {
    settings().nccl_seconds = 1;
    on_two_ranks([](const Rank& rank) {
      // Both send first, and receive what the other only sends afterwards.
      const Floats x = rank.floats(1000, 1), y = rank.floats(1 << 20, 1);
      check(ncclRecv(x.data, 1000, ncclFloat32, 1 - rank.number, rank.comm, rank.stream));
      check(ncclSend(y.data, 1000, ncclFloat32, 1 - rank.number, rank.comm, rank.stream));
    });
  });
  must_be_caught("ncclCommInitRank: another rank has not called it within 1 s", [] {
    settings().nccl_seconds = 1;
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankConfig(&comm, 2, id, 0, nullptr));
  });
}

TEST_CASE("A message has one size on both ranks") {
  must_be_caught("ncclRecv of 4000 bytes meets ncclSend of 3996", [] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      if (rank.number == 0)
        check(ncclSend(x.data, 999, ncclFloat32, 1, rank.comm, rank.stream));
      else
        check(ncclRecv(x.data, 1000, ncclFloat32, 0, rank.comm, rank.stream));
    });
  });
}

TEST_CASE("A collective is ordered after what its stream holds, and no other") {
  must_be_caught("race: set writes", [] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      all_reduce(rank, x);
      set(default_stream(rank.number), x, 2);
    });
  });
}

TEST_CASE("NCCL takes memory and streams of the communicator's device, and nothing after its end") {
  must_be_caught("NCCL is given memory that is not of device", [] {
    on_two_ranks([](const Rank& rank) {
      std::vector<float> x(1000);
      all_reduce(rank, {x.data(), x.size()});
    });
  });
  must_be_caught("NCCL's communicator is of device 0, the stream of device 1", [] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      auto* const other = reinterpret_cast<cudaStream_t>(default_stream(1 - rank.number));
      check(ncclAllReduce(x.data, x.data, 1000, ncclFloat32, ncclSum, rank.comm, other));
    });
  });
  must_be_caught("error (emulated)", [] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      check(ncclCommDestroy(rank.comm));
      all_reduce(rank, x);
    });
  });
}

TEST_CASE("Aborting ends what the rank's stream waits for, which is no error of the device") {
  must_be_right([] {
    on_two_ranks([](const Rank& rank) {
      const Floats x = rank.floats(1000, 1);
      if (rank.number == 0) all_reduce(rank, x);
      check(ncclCommAbort(rank.comm));
      synchronize(reinterpret_cast<Stream*>(rank.stream), "a test");
      set(reinterpret_cast<Stream*>(rank.stream), x, 2);
    });
    expect(named_counts().at("communicators").at("aborted") == 2, "the communicators");
  });
}

TEST_CASE("Copies by CUDA's names stage pageable memory") {
  must_be_right([] {
    cudaStream_t stream = nullptr;
    void* memory = nullptr;
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "a stream");
    expect(cudaMalloc(&memory, 40) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess, "memory");
    std::vector<float> from(10, 3), to(10, 0);
    cudaMemcpyAsync(memory, from.data(), 40, cudaMemcpyHostToDevice, stream);
    from.assign(10, 4);
    cudaMemcpyAsync(to.data(), memory, 40, cudaMemcpyDeviceToHost, stream);
    expect(to[9] == 3, "the number before");
    expect(cudaFree(memory) == cudaSuccess && cudaFree(memory) != cudaSuccess, "freed once");
    expect(cudaStreamDestroy(stream) == cudaSuccess, "destroyed");
  });
}
