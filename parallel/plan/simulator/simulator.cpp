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

using Event = MemoryEvent;

constexpr double never = std::numeric_limits<double>::infinity();

// A discrete-event simulation: each rank is a process that runs until its next pass ends or it waits for a tensor; the
// queue resumes the rank with the earliest time.
class Simulator {
 public:
  Simulator(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory, Timeline timeline,
            const StepCopies& copies)
      : schedule_(schedule), costs_(costs), memory_(memory), copies_(copies), timeline_(timeline) {
    for (std::int32_t rank = 0; rank < shape_.pipeline; ++rank)
      ranks_.emplace_back(shape_, memory, rank, timeline, copies.contention);
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

  Arrival& arrival(bool is_activation, std::int32_t stage, std::int32_t micro) {
    const auto tensor = static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
                        static_cast<std::size_t>(micro);
    return arrivals_[2 * tensor + (is_activation ? 0 : 1)];
  }

  // With overlap the weights that a step updates at ZeRO-1 and -2 arrive during the next one, as all steps are alike.
  bool carries_updates() const { return costs_.overlap && shape_.gathers_updates() && !shape_.updates_by_stage; }

  void gather_updates(RankClock& here) {
    const auto& instructions = schedule_.ranks[static_cast<std::size_t>(here.rank)].instructions;
    for (std::size_t index = 0; index < instructions.size(); ++index) {
      if (instructions[index].operation != Operation::gather_weights) continue;
      stage_of(instructions[index]).gather = here.data.issue(0, gather_of(cost_of(instructions[index]), index));
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
          here.note(here.clock, Event::weights_are_freed, instruction.stage);
          break;
        case Operation::evict_gradients:
          evict(here, instruction);
          break;
        case Operation::optimizer_step:
          run_optimizer(here, instruction);
          break;
      }
      ++here.next;
      // The compute stream has advanced: other ranks may have to act before this one continues.
      if (here.clock > now) return wake(here, here.clock);
    }
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
    const double start = here.after_copies(copies_, start_of_pass(here, instruction));
    // Collectives that are already issued slow the pass down; later ones are issued after it.
    const WireShares wires = pass_wires(cost);
    const double seconds = cost.seconds + here.outgoing.lengthening(start, cost.seconds, wires);
    double end = here.data.end_beside(start, seconds, wires, costs_.compute_slowdown);
    if (!forward) end = begin_reduction(here, instruction, {start, end});
    // The last bucket of updated weights precedes the last part of the pass.
    if (forward && instruction.micro == 0 && carries_updates())
      end = std::max(
          end, here.data.interval(stage_of(instruction).gather).end + cost.seconds / cost_of(instruction).buckets);
    note_pass(here, instruction, {start, end});
    timeline_.record(here, Stream::compute, {start, end}, cost.seconds);
    here.count_pass(cost, {start, end});
    first_start_ = std::min(first_start_, start);
    last_end_ = std::max(last_end_, end);
    here.clock = end;
  }

  void note_pass(RankClock& here, const Instruction& pass, const Interval& time) {
    const bool forward = pass.operation == Operation::forward;
    StageClock& stage = stage_of(pass);
    const Event joined = stage.has_early_gradients ? Event::weights_are_joined_early : Event::weights_are_joined;
    if (std::exchange(stage.is_gathered, false)) here.note(time.start, joined, pass.stage);
    if (forward) {
      if (pass.stage + 1 == shape_.stages())
        begin_gradients(here, memory_.head_adds_to.value_or(pass.stage), time.start, true);
    } else {
      begin_gradients(here, pass.stage, time.start, false);
      for (const std::int32_t other : memory_.stages[static_cast<std::size_t>(pass.stage)].backward_adds_to)
        begin_gradients(here, other, time.start, true);
      if (stage.unreduced == 1) here.note(time.start, Event::sums_begin, pass.stage);
      if (pass.micro == 0) here.note(time.start, Event::step_sums_begin, pass.stage);
    }
    here.note(time.start, forward ? Event::forward_starts : Event::backward_starts, pass.stage);
    here.note(time.end, forward ? Event::forward_ends : Event::backward_ends, pass.stage);
  }

  // `is_early`: not by a backward of the stage itself. Without data ranks the resident gradients are the only ones.
  void begin_gradients(RankClock& here, std::int32_t stage, double start, bool is_early) {
    StageClock& clock = stages_[static_cast<std::size_t>(stage)];
    if (!is_early) clock.has_early_gradients = false;
    if (shape_.completes_stages() && !std::exchange(clock.has_step_gradients, true))
      here.note(start, Event::step_gradients_begin, stage);
    if (!shape_.reduces || std::exchange(clock.has_gradients, true)) return;
    clock.has_early_gradients = is_early;
    here.note(start, Event::gradients_begin, stage);
  }

  // Whole gradients are released at the rank's next reduction or optimizer step: an asynchronous reduction may read
  // them until then.
  void end_reduction(RankClock& here) {
    if (here.reducing < 0) return;
    const double now = std::max(here.clock, here.data.interval(here.reduction).end);
    here.note(now, Event::gradients_are_reduced, here.reducing);
    if (std::exchange(stages_[static_cast<std::size_t>(here.reducing)].reduces_again, false))
      here.note(now, Event::later_gradients_are_reduced, here.reducing);
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
    if (shape_.sharding() != 3) return;
    here.note(here.data.interval(ticket).start, Event::weights_are_gathered, instruction.stage);
    stage_of(instruction).is_gathered = true;
  }

  void reduce(RankClock& here, const Instruction& instruction) {
    StageClock& stage = stage_of(instruction);
    if (stage.begun_reduction != DataStream::none) here.data.set_instruction(stage.begun_reduction, here.next);
    stage.begun_reduction = DataStream::none;
    const DataStream::Ticket ticket = run_collective(here, stage.left_to_reduce);
    end_reduction(here);
    here.note(here.clock, Event::sums_are_cast, instruction.stage);
    here.note(here.clock, Event::sums_end, instruction.stage);
    // After the reduction before, whose memory has been released.
    const double packed = std::max(here.clock, here.data.interval(here.reduction).end);
    here.note(packed, Event::gradients_are_packed, instruction.stage);
    // A step's first reduction writes the rank's own gradients, the others add to them.
    stage.reduces_again = std::exchange(stage.has_reduced, true);
    here.note(here.clock, stage.reduces_again ? Event::later_reduction_starts : Event::first_reduction_starts,
              instruction.stage);
    stage.reduction = here.reduction = ticket;
    stage.unreduced = 0;
    stage.has_gradients = false;
    here.reducing = instruction.stage;
    if (!costs_.overlap) end_reduction(here);
  }

  void evict(RankClock& here, const Instruction& eviction) {
    // Meanwhile the next stage's gradients are reduced.
    if (here.reducing == eviction.stage) end_reduction(here);
    here.evict(eviction.stage, cost_of(eviction).evict_seconds, here.data.interval(stage_of(eviction).reduction).end);
    if (!shape_.reduces) here.cast_step_sums(eviction.stage);
  }

  void run_optimizer(RankClock& here, const Instruction& update) {
    const bool is_whole = update.stage < 0;
    const double passes_done = std::max(here.clock, here.input_ready);
    const double reduced = here.data.interval(is_whole ? here.reduction : stage_of(update).reduction).end;
    const double start = here.after_evictions(here.after_copies(copies_, std::max(passes_done, reduced)));
    // Beside a stage's update the next one's gradients are reduced.
    if (is_whole || here.reducing == update.stage) end_reduction(here);
    const bool is_done = is_whole && shape_.updates_by_stage;  // stage by stage
    const double of_update =
        is_whole ? costs_.optimizer_seconds[static_cast<std::size_t>(here.rank)] : cost_of(update).update_seconds;
    const double seconds = is_done ? 0 : of_update;
    const std::int32_t end = is_whole ? shape_.stages() : update.stage + 1;
    for (std::int32_t stage = is_whole ? here.rank : update.stage; !is_done && stage < end; stage += shape_.pipeline) {
      if (shape_.reduces || !shape_.evicts(stage)) here.cast_step_sums(stage);
      here.note(start, Event::optimizer_starts, stage);
      here.note(start + seconds, Event::optimizer_ends, stage);
    }
    here.result.exposed_data_seconds += std::max(0.0, reduced - passes_done);
    here.result.optimizer_seconds += seconds;
    here.clock = start + seconds;
    timeline_.record(here, Stream::compute, {start, here.clock}, seconds);
  }

  double transfer_seconds(const Instruction& transfer) const { return costs_.transfer_seconds[cut_of(transfer)]; }

  WireShares transfer_wires(const Instruction& send, double seconds) const {
    if (costs_.transfer_wires.empty()) return {};
    return wire_shares(costs_.transfer_wires[cut_of(send)], seconds);
  }

  void send(RankClock& here, const Instruction& instruction, double now) {
    RankClock& peer = rank_of(instruction.peer);
    const double seconds = transfer_seconds(instruction);
    const bool is_activation = instruction.operation == Operation::send_activation;
    const std::int32_t stage = instruction.stage + (is_activation ? 1 : -1);
    Arrival& arrives = arrival(is_activation, stage, instruction.micro);
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
      const WireShares wires = transfer_wires(instruction, seconds);
      transfer.start = std::max(transfer.start, peer.receive_free);
      transfer.end = here.data.end_beside(transfer.start, seconds, wires, 0);
      arrives = {transfer.end, transfer.end - transfer.start};
      peer.receive_free = transfer.end;
      peer.note_arrival(transfer.start, is_activation, stage);
      here.outgoing.send(transfer, wires);
    }
    here.note(transfer.end, is_activation ? Event::activation_is_sent : Event::gradient_is_sent, instruction.stage);
    timeline_.record(here, Stream::transfer, transfer, seconds);
    // The peer has reached its receive already: it can proceed now that the time of arrival is known.
    if (peer.awaited != &arrives) return;
    peer.awaited = nullptr;
    wake(peer, now);
  }

  // False if the tensor has not been sent yet; its sender then wakes this rank.
  bool receive(RankClock& here, const Instruction& instruction) {
    const bool is_activation = instruction.operation == Operation::receive_activation;
    Arrival& arrives = arrival(is_activation, instruction.stage, instruction.micro);
    if (arrives.time == never) {
      here.awaited = &arrives;
      return false;
    }
    if (costs_.blocking_transfers) {
      const double start = std::max({here.clock, arrives.time, here.receive_free});
      here.receive_free = arrives.time = start + arrives.seconds;
      here.note_arrival(start, is_activation, instruction.stage);
    }
    // The instruction itself does not wait: the next pass does, so that several receives overlap.
    here.input_ready = std::max(here.input_ready, arrives.time);
    here.longest_transfer = std::max(here.longest_transfer, arrives.seconds);
    timeline_.record(here, Stream::transfer, {arrives.time - arrives.seconds, arrives.time},
                     transfer_seconds(instruction));
    return true;
  }

  Simulation finish() {
    double most_busy = 0;
    for (RankClock& rank : ranks_) {
      timeline_.record_data(rank);
      rank.finish();
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
  const ScheduleShape& shape_ = schedule_.shape;
  const StepCosts& costs_;
  const StepMemory& memory_;
  const StepCopies& copies_;
  TimelineRecorder timeline_;
  std::deque<RankClock> ranks_;
  std::vector<StageClock> stages_;
  std::vector<Arrival> arrivals_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> queue_;
  double first_start_ = never, last_end_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory, Timeline timeline,
                    const StepCopies& copies) {
  return Simulator(schedule, costs, memory, timeline, copies).run();
}

}  // namespace llmtrain
