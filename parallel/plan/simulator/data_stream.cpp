// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/data_stream.h"

#include <algorithm>

namespace llmtrain {
namespace {

// The rates, relative to those alone, of something that runs beside a collective, and of the collective.
struct Rates {
  double beside = 1;
  double collective = 1;
};

Rates rates_of(double contention, double slowdown) {
  const Beside both = beside(contention, slowdown);
  return {both.progress / both.took, 1 / both.took};
}

}  // namespace

DataStream::Ticket DataStream::issue(double earliest, const DataCollective& collective, double longer) {
  const double start = std::max(earliest, free_at());
  running_.push_back({{start, start + collective.seconds + longer}, collective});
  return static_cast<Ticket>(running_.size()) - 1;
}

DataStream::Begun DataStream::begin_beside(const Pass& pass, const DataCollective& collective, double buckets) {
  const Interval& time = pass.time;
  // The first bucket is complete after its part of the pass, the last one only when the pass ends.
  const double from = std::max(free_at(), time.start + (time.end - time.start) / buckets);
  const double early = collective.seconds * (buckets - 1) / buckets;
  const Rates rates = rates_of(contention(pass.wires, collective.wires), pass.slowdown);
  // The longer pass hides more. Buckets that wait for the pass leave gaps; the interval is as late as possible.
  const double both = std::clamp((time.end - from) / rates.beside, 0.0, early / rates.collective);
  if (both <= 0) return {time.end};
  const double end = time.end + (1 - rates.beside) * both;
  const double seconds = both * rates.collective;
  running_.push_back({{end - both, end}, {seconds, collective.wires, collective.instruction}});
  return {end, static_cast<Ticket>(running_.size()) - 1, seconds};
}

double DataStream::end_beside(double start, double seconds, const WireShares& wires, double slowdown) {
  // In order: those that ended before `start` are all at the front.
  const auto first = std::partition_point(running_.begin(), running_.end(),
                                          [&](const Running& known) { return known.time.end <= start; });
  double now = start, left = seconds;
  for (auto i = static_cast<std::size_t>(first - running_.begin()); i < running_.size(); ++i) {
    Interval& collective = running_[i].time;
    // Alternates between the gap before a collective, at full speed, and the collective, at the reduced rate.
    const double alone = std::max(0.0, collective.start - now);
    if (left <= alone) break;
    left -= alone;
    now += alone;
    const double shared = contention(wires, running_[i].collective.wires);
    const Rates rates = rates_of(shared, slowdown);
    const double beside = (collective.end - now) * (1 + shared);
    const bool ends_here = left <= beside * rates.beside;
    const double both = ends_here ? left / rates.beside : beside;
    if (shared > 0) {
      collective.end += both * (1 - rates.collective);
      push_back_after(i);
    }
    now += both;
    if (ends_here) return now;
    left -= both * rates.beside;
  }
  return now + left;
}

void DataStream::push_back_after(std::size_t index) {
  for (std::size_t next = index + 1; next < running_.size(); ++next) {
    const double later = running_[next - 1].time.end - running_[next].time.start;
    // A gap takes up the delay, and nothing after it moves.
    if (later <= 0) return;
    running_[next].time.start = running_[next - 1].time.end;
    running_[next].time.end += later;
  }
}

}  // namespace llmtrain
