// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/comm/operation.h"

namespace llmtrain {

// How long this process has been running since some moment: like a steady clock, but one that goes on by at most half a
// second while the process is halted, by SIGSTOP, a debugger, a frozen control group or a machine that sleeps. Any
// thread may ask. The first call starts a thread that lasts until the process ends.
Clock::duration running_time();

}  // namespace llmtrain
