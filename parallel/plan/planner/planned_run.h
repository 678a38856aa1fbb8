// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// Seconds that `useful` seconds of training take on average if failures come at random, on average one in
// `between_failures` seconds: a checkpoint of `checkpoint` seconds follows every `interval` of training, and each
// failure costs `restart` seconds and what was trained since the last checkpoint. Exact for exponentially distributed
// failures, which may also come during a checkpoint or a restart (Daly, "A higher order estimate of the optimum
// checkpoint interval for restart dumps", Future Generation Computer Systems 22, 2006, equation 13). Infinite where no
// interval survives.
double seconds_with_failures(double useful, double interval, double checkpoint, double restart,
                             double between_failures);

// The interval that makes it shortest, within 1 % (ibid., equation 37): for rare failures the square root of twice
// their distance times a checkpoint (Young, CACM 17, 1974), and one checkpoint per failure where one takes twice that
// distance.
double best_checkpoint_interval(double checkpoint, double between_failures);

double tokens_per_step(const Recipe& recipe);

// Tokens, time, price, energy and goodput of all training.steps. The simulation must be done.
PlannedRun planned_run(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
