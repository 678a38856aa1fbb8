// SPDX-License-Identifier: Apache-2.0
// An emulated GPU: streams that run on threads, events, device memory that the host cannot read, pinned memory, and
// checks. Knows nothing of LibTorch. Any host thread may call its functions; a stream's thread only reachable().
#pragma once

#include "tests/emulator/device/bad_access.h"
#include "tests/emulator/device/counters.h"
#include "tests/emulator/device/event.h"
#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/graph.h"
#include "tests/emulator/device/memory/device_memory.h"
#include "tests/emulator/device/memory/pinned_memory.h"
#include "tests/emulator/device/report.h"
#include "tests/emulator/device/settings.h"
#include "tests/emulator/device/stream.h"
#include "tests/emulator/device/work.h"
