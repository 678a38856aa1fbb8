// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/simulator.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "parallel/plan/simulator/clocks.h"
#include "parallel/plan/simulator/data_stream.h"
#include "parallel/plan/simulator/timeline_recorder.h"

namespace llmtrain {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// A discrete-event simulation: each rank is a process that runs until its next pass ends or it waits for a tensor; the
// queue resumes the rank with the earliest time.
class Simulator {
 public:
  Simulator(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory, Timeline timeline)
      : schedule_(schedule), shape_(schedule.shape), costs_(costs), memory_(memory), timeline_(timeline) {
    for (std::int32_t rank = 0; rank < shape_.pipeline; ++rank) ranks_.emplace_back(shape_, memory, rank, timeline);
    stages_.resize(static_cast<std::size_t>(shape_.stages()));
    // One arrival per tensor, activation and gradient of each stage and micro-batch, instead of a search per message.
    const std::size_t tensors = stages_.size() * static_cast<std::size_t>(shape_.micro_batches);
    if (shape_.pipeline > 1) arrivals_.resize(2 * tensors);
  }

  // Ranks act in order of simulated time, so that links serve transfers in the order in which they are requested.
  Simulation run() {
    for (RankClock& rank : ranks_) {
      if (carries_updates()) gather_updates(rank);
      wake(rank, 0);
    }
    while (!queue_.empty()) {
      const auto [now, rank] = queue_.top();
      queue_.pop();
      rank_of(rank).ledger.advance(now);
      advance(rank_of(rank), now);
    }
    return finish();
  }

 private:
  RankClock& rank_of(std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  StageClock& stage_of(const Instruction& instruction) { return stages_[static_cast<std::size_t>(instruction.stage)]; }
  const StageCost& cost_of(const Instruction& instruction) const {
    return costs_.stages[static_cast<std::size_t>(instruction.stage)];
  }
  void wake(const RankClock& rank, double seconds) { queue_.emplace(seconds, rank.rank); }

  Arrival& arrival(Operation operation, std::int32_t stage, std::int32_t micro) {
    const bool activation = operation == Operation::send_activation || operation == Operation::receive_activation;
    const auto tensor = static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
                        static_cast<std::size_t>(micro);
    return arrivals_[2 * tensor + (activation ? 0 : 1)];
  }

  // With overlap the weights that a step updates at ZeRO-1 and -2 arrive during the next one, as all steps are alike.
  bool carries_updates() const { return costs_.overlap && (shape_.sharding() == 1 || shape_.sharding() == 2); }

  void gather_updates(RankClock& here) {
    const auto& instructions = schedule_.ranks[static_cast<std::size_t>(here.rank)].instructions;
    for (std::size_t index = 0; index < instructions.size(); ++index) {
      if (instructions[index].operation != Operation::gather_weights) continue;
      const StageCost& cost = cost_of(instructions[index]);
      stage_of(instructions[index]).gather = here.data.issue(0, gather_of(cost, index));
    }
  }

  // Executes instructions up to and including the next one that occupies the compute stream.
  void advance(RankClock& here, double now) {
    const auto& instructions = schedule_.ranks[static_cast<std::size_t>(here.rank)].instructions;
    while (here.next < instructions.size()) {
      const Instruction& instruction = instructions[here.next];
      switch (instruction.operation) {
        case Operation::forward:
        case Operation::backward:
          run_pass(here, instruction);
          ++here.next;
          return wake(here, here.clock);
        case Operation::send_activation:
        case Operation::send_gradient:
          send(here, instruction, now);
          break;
        case Operation::receive_activation:
        case Operation::receive_gradient:
          if (!receive(here, instruction)) return;
          break;
        case Operation::gather_weights:
          if (!carries_updates()) gather(here, instruction);
          break;
        case Operation::reduce_gradients:
          reduce(here, instruction);
          break;
        case Operation::free_weights:
          change_memory(here, here.clock, MemoryChange::weights_are_freed, instruction.stage);
          break;
        case Operation::optimizer_step:
          run_optimizer(here);
          break;
      }
      ++here.next;
      // The compute stream has advanced: other ranks may have to act before this one continues.
      if (here.clock > now) return wake(here, here.clock);
    }
  }

  void change_memory(RankClock& here, double seconds, MemoryChange change, std::int32_t stage) {
    here.ledger.record(seconds, change, stage, static_cast<std::int32_t>(here.next));
  }

  // When the rank has a stage's weights, or of those that the step before updated the first bucket.
  double weights_ready(const RankClock& here, const Instruction& instruction) {
    const Interval gather = here.data.interval(stage_of(instruction).gather);
    if (!carries_updates()) return gather.end;
    return gather.start + (gather.end - gather.start) / cost_of(instruction).buckets;
  }

  // The earliest start of a pass: the rank, its input and its weights are ready.
  double start_of_pass(RankClock& here, const Instruction& instruction) {
    StageClock& stage = stage_of(instruction);
    const double input = std::max(here.clock, here.input_ready);
    // Only the transfer itself is exposed communication; waiting longer than it takes is waiting for the sender's
    // computation, which is bubble.
    here.result.exposed_transfer_seconds += std::min(input - here.clock, here.longest_transfer);
    // Time beyond the input's arrival is a wait for the data stream: exposed data-parallel communication.
    double start = std::max(input, weights_ready(here, instruction));
    // The first backward after a reduction writes into the buffer that the reduction reads.
    if (instruction.operation == Operation::backward && stage.unreduced == 0)
      start = std::max(start, here.data.interval(stage.reduction).end);
    here.result.exposed_data_seconds += start - input;
    here.longest_transfer = 0;
    return start;
  }

  void run_pass(RankClock& here, const Instruction& instruction) {
    const bool forward = instruction.operation == Operation::forward;
    const PassCost& cost = forward ? cost_of(instruction).forward : cost_of(instruction).backward;
    const double start = start_of_pass(here, instruction);
    // Collectives that are already issued slow the pass down; later ones are issued after it.
    const WireShares wires = pass_wires(cost);
    const double seconds = cost.seconds + here.outgoing.lengthening(start, cost.seconds, wires);
    double end = here.data.end_beside(start, seconds, wires, costs_.compute_slowdown);
    if (!forward) end = begin_reduction(here, instruction, {start, end});
    // The last bucket of updated weights precedes the last part of the pass.
    if (forward && instruction.micro == 0 && carries_updates())
      end = std::max(
          end, here.data.interval(stage_of(instruction).gather).end + cost.seconds / cost_of(instruction).buckets);
    if (!forward) begin_gradients(here, instruction.stage, start);
    if (!forward)
      for (const std::int32_t other : memory_.stages[static_cast<std::size_t>(instruction.stage)].backward_adds_to)
        begin_gradients(here, other, start);
    if (!forward) begin_accumulation(here, instruction.stage, start);
    if (forward && instruction.stage + 1 == shape_.stages())
      begin_gradients(here, memory_.head_adds_to.value_or(instruction.stage), start);
    change_memory(here, start, forward ? MemoryChange::forward_starts : MemoryChange::backward_starts,
                  instruction.stage);
    change_memory(here, end, forward ? MemoryChange::forward_ends : MemoryChange::backward_ends, instruction.stage);
    timeline_.record(here, Stream::compute, {start, end}, cost.seconds);
    const double slowed = end - start - cost.seconds;
    here.result.busy_seconds += end - start;
    here.result.communication_seconds += cost.communication_seconds;
    here.result.recompute_seconds += cost.recompute_seconds;
    here.result.slowed_seconds += slowed;
    here.result.exposed_data_seconds += slowed;
    first_start_ = std::min(first_start_, start);
    last_end_ = std::max(last_end_, end);
    here.clock = end;
  }

  void begin_gradients(RankClock& here, std::int32_t stage, double start) {
    // Without data ranks the resident gradients are the only ones.
    if (!shape_.reduces || std::exchange(stages_[static_cast<std::size_t>(stage)].holds_gradients, true)) return;
    change_memory(here, start, MemoryChange::gradients_begin, stage);
  }

  // The head's gradients, which its forward computes, never become FP8: only a backward accumulates what does.
  void begin_accumulation(RankClock& here, std::int32_t stage, double start) {
    if (memory_.stages[static_cast<std::size_t>(stage)].accumulated_gradients == 0) return;
    if (std::exchange(stages_[static_cast<std::size_t>(stage)].accumulates, true)) return;
    change_memory(here, start, MemoryChange::accumulation_begins, stage);
  }

  void end_accumulation(RankClock& here, std::int32_t stage) {
    if (!std::exchange(stages_[static_cast<std::size_t>(stage)].accumulates, false)) return;
    change_memory(here, here.clock, MemoryChange::gradients_are_cast, stage);
    change_memory(here, here.clock, MemoryChange::accumulation_ends, stage);
  }

  // A step's first reduction writes the rank's own gradients, the others add to them.
  void begin_partial(RankClock& here, std::int32_t stage) {
    StageClock& clock = stages_[static_cast<std::size_t>(stage)];
    if (!std::exchange(clock.has_reduced, true)) return;
    if (memory_.stages[static_cast<std::size_t>(stage)].partial_gradients == 0) return;
    clock.holds_partial = true;
    change_memory(here, here.clock, MemoryChange::partial_gradients_begin, stage);
  }

  // Whole gradients are released at the rank's next reduction or optimizer step: an asynchronous reduction may read
  // them until then.
  void end_reduction(RankClock& here) {
    if (here.reducing < 0) return;
    const double now = std::max(here.clock, here.data.interval(here.reduction).end);
    change_memory(here, now, MemoryChange::gradients_are_reduced, here.reducing);
    if (std::exchange(stages_[static_cast<std::size_t>(here.reducing)].holds_partial, false))
      change_memory(here, now, MemoryChange::partial_gradients_end, here.reducing);
    here.reducing = -1;
  }

  // A backward that completes gradients runs beside the reduction of those that are complete already. Returns its end.
  double begin_reduction(RankClock& here, const Instruction& backward, const Interval& pass) {
    StageClock& stage = stage_of(backward);
    ++stage.unreduced;
    const std::int32_t micros = backward.micro + 1;
    if (!shape_.reduces || micros % shape_.reduction_group() != 0) return pass.end;
    const StageCost& cost = cost_of(backward);
    stage.left_to_reduce = reduction_of(cost, micros == shape_.micro_batches);
    if (!costs_.overlap) return pass.end;
    const DataStream::Begun begun = here.data.begin_beside({pass, pass_wires(cost.backward), costs_.compute_slowdown},
                                                           stage.left_to_reduce, cost.buckets);
    stage.begun_reduction = begun.ticket;
    stage.left_to_reduce.seconds -= begun.seconds;
    return begun.pass_end;
  }

  // Runs a collective on the data stream, in order.
  DataStream::Ticket run_collective(RankClock& here, DataCollective collective) {
    collective.instruction = here.next;
    // Without overlap a collective is issued only after the tensors in flight have arrived, in program order.
    const double from = costs_.overlap ? here.clock : std::max(here.clock, here.input_ready);
    const double start = std::max(from, here.data.free_at());
    const double longer = here.outgoing.lengthening(start, collective.seconds, collective.wires);
    const DataStream::Ticket ticket = here.data.issue(from, collective, longer);
    if (!costs_.overlap) {
      here.clock = here.data.interval(ticket).end;
      here.result.exposed_data_seconds += here.clock - from;
    }
    return ticket;
  }

  void gather(RankClock& here, const Instruction& instruction) {
    const DataStream::Ticket ticket = run_collective(here, gather_of(cost_of(instruction), here.next));
    stage_of(instruction).gather = ticket;
    // What shares its wires from now on may delay it: memory counts from the earliest time.
    if (shape_.sharding() == 3)
      change_memory(here, here.data.interval(ticket).start, MemoryChange::weights_are_gathered, instruction.stage);
  }

  void reduce(RankClock& here, const Instruction& instruction) {
    StageClock& stage = stage_of(instruction);
    if (stage.begun_reduction != DataStream::none) here.data.set_instruction(stage.begun_reduction, here.next);
    stage.begun_reduction = DataStream::none;
    const DataStream::Ticket ticket = run_collective(here, stage.left_to_reduce);
    end_reduction(here);
    if (!memory_.stages[static_cast<std::size_t>(instruction.stage)].accumulates_step)
      end_accumulation(here, instruction.stage);
    // After the reduction before, whose memory has been released.
    const double packed = std::max(here.clock, here.data.interval(here.reduction).end);
    if (memory_.stages[static_cast<std::size_t>(instruction.stage)].packed_gradients > 0)
      change_memory(here, packed, MemoryChange::gradients_are_packed, instruction.stage);
    begin_partial(here, instruction.stage);
    stage.reduction = here.reduction = ticket;
    stage.unreduced = 0;
    stage.holds_gradients = false;
    here.reducing = instruction.stage;
    if (!costs_.overlap) end_reduction(here);
  }

  void run_optimizer(RankClock& here) {
    const double passes_done = std::max(here.clock, here.input_ready);
    const double start = std::max(passes_done, here.data.interval(here.reduction).end);
    const double seconds = costs_.optimizer_seconds[static_cast<std::size_t>(here.rank)];
    end_reduction(here);
    // Without data ranks nothing was reduced before.
    for (std::int32_t stage = here.rank; stage < shape_.stages(); stage += shape_.pipeline)
      end_accumulation(here, stage);
    here.result.exposed_data_seconds += start - passes_done;
    here.result.optimizer_seconds += seconds;
    here.clock = start + seconds;
    change_memory(here, start, MemoryChange::optimizer_starts, -1);
    change_memory(here, here.clock, MemoryChange::optimizer_ends, -1);
    timeline_.record(here, Stream::compute, {start, here.clock}, seconds);
  }

  // transfer_seconds[r] is between rank r and the next one, in both directions.
  double transfer_seconds(const RankClock& here, const Instruction& instruction) const {
    const bool with_next =
        instruction.operation == Operation::send_activation || instruction.operation == Operation::receive_gradient;
    return costs_.transfer_seconds[static_cast<std::size_t>(with_next ? here.rank : instruction.peer)];
  }

  WireShares transfer_wires(const RankClock& here, const Instruction& send, double seconds) const {
    if (costs_.transfer_wires.empty()) return {};
    const bool to_next = send.operation == Operation::send_activation;
    return wire_shares(costs_.transfer_wires[static_cast<std::size_t>(to_next ? here.rank : send.peer)], seconds);
  }

  void send(RankClock& here, const Instruction& instruction, double now) {
    RankClock& peer = rank_of(instruction.peer);
    const double seconds = transfer_seconds(here, instruction);
    const std::int32_t stage = instruction.stage + (instruction.operation == Operation::send_activation ? 1 : -1);
    Arrival& arrives = arrival(instruction.operation, stage, instruction.micro);
    Interval transfer;
    transfer.start = std::max(here.clock, here.outgoing.free_at());
    if (costs_.blocking_transfers) {
      // The receiver adds the transfer's duration when it reaches its receive instruction; until the sender's next pass
      // the transfer holds it through input_ready, so that a send and a receive run together.
      transfer.end = transfer.start + seconds;
      arrives = {transfer.start, seconds};
      here.input_ready = std::max(here.input_ready, transfer.end);
      here.longest_transfer = std::max(here.longest_transfer, seconds);
      here.outgoing.send(transfer, {});
    } else {
      // The receive is posted early, so the transfer depends only on the two links.
      const WireShares wires = transfer_wires(here, instruction, seconds);
      transfer.start = std::max(transfer.start, peer.receive_free);
      transfer.end = here.data.end_beside(transfer.start, seconds, wires, 0);
      arrives = {transfer.end, transfer.end - transfer.start};
      peer.receive_free = transfer.end;
      peer.ledger.record(transfer.start, MemoryChange::tensor_arrives, stage, 0);
      here.outgoing.send(transfer, wires);
    }
    change_memory(here, transfer.end, MemoryChange::tensor_is_sent, instruction.stage);
    timeline_.record(here, Stream::transfer, transfer, seconds);
    // The peer has reached its receive already: it can proceed now that the time of arrival is known.
    if (peer.awaited != &arrives) return;
    peer.awaited = nullptr;
    wake(peer, now);
  }

  // False if the tensor has not been sent yet; its sender then wakes this rank.
  bool receive(RankClock& here, const Instruction& instruction) {
    Arrival& arrives = arrival(instruction.operation, instruction.stage, instruction.micro);
    if (arrives.time == never) {
      here.awaited = &arrives;
      return false;
    }
    if (costs_.blocking_transfers) {
      const double start = std::max({here.clock, arrives.time, here.receive_free});
      here.receive_free = arrives.time = start + arrives.seconds;
      change_memory(here, start, MemoryChange::tensor_arrives, instruction.stage);
    }
    // The instruction itself does not wait: the next pass does, so that several receives overlap.
    here.input_ready = std::max(here.input_ready, arrives.time);
    here.longest_transfer = std::max(here.longest_transfer, arrives.seconds);
    timeline_.record(here, Stream::transfer, {arrives.time - arrives.seconds, arrives.time},
                     transfer_seconds(here, instruction));
    return true;
  }

  Simulation finish() {
    double most_busy = 0;
    for (RankClock& rank : ranks_) {
      timeline_.record_data(rank);
      rank.result.end_seconds = std::max(rank.clock, rank.data.free_at());
      // Gathers of updated weights that outlast the optimizer step have nothing left to overlap.
      rank.result.exposed_data_seconds += rank.result.end_seconds - rank.clock;
      // Events after the rank's last instruction, such as the end of its sends.
      rank.ledger.finish();
      most_busy = std::max(most_busy, rank.result.busy_seconds);
      result_.step_seconds = std::max(result_.step_seconds, rank.result.end_seconds);
      result_.ranks.push_back(std::move(rank.result));
    }
    // Serial to everything else: data loading and logging between two steps.
    result_.step_seconds += costs_.step_overhead_seconds;
    result_.window_seconds = std::max(0.0, last_end_ - first_start_);
    // Sums of the same times may differ by rounding.
    if (result_.window_seconds > 0) result_.bubble_fraction = std::max(0.0, 1 - most_busy / result_.window_seconds);
    result_.timeline = timeline_.take();
    return std::move(result_);
  }

  using Wake = std::pair<double, std::int32_t>;  // time and rank; ties go to the lower rank, so runs are deterministic

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  const StepCosts& costs_;
  const StepMemory& memory_;
  TimelineRecorder timeline_;
  std::deque<RankClock> ranks_;
  std::vector<StageClock> stages_;
  std::vector<Arrival> arrivals_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> queue_;
  double first_start_ = never, last_end_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory, Timeline timeline) {
  return Simulator(schedule, costs, memory, timeline).run();
}

}  // namespace llmtrain
