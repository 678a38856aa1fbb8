// SPDX-License-Identifier: Apache-2.0
// A profiler as NVTX knows them: a library that NVTX_INJECTION64_PATH names, and that it loads at the first range.
// Writes a line for each event of a thread to the file that NVTX_RECORDER_OUTPUT names: "7 + Forward stage 0 micro 1",
// "7 -" at the end of its last range, "7 = rank 0" for the thread's name.
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// Kept open until the process ends: ranges may be written to the last.
std::FILE* output() {
  static std::FILE* file = std::fopen(std::getenv("NVTX_RECORDER_OUTPUT"), "w");
  return file;
}

// One call writes a whole line, so that lines of threads do not mix.
int write_event(char what, const char* name) {
  std::fprintf(output(), "%ld %c %s\n", syscall(SYS_gettid), what, name);
  std::fflush(output());
  return 0;
}

// The handle of a domain is its name, as all functions of a profiler may choose it.
nvtxDomainHandle_t create_domain(const char* name) { return reinterpret_cast<nvtxDomainHandle_t>(strdup(name)); }

bool is_ours(nvtxDomainHandle_t domain) {
  return domain != nullptr && std::strcmp(reinterpret_cast<const char*>(domain), "llmtrain") == 0;
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  return is_ours(domain) ? write_event('+', attributes->message.ascii) : 0;
}

int pop(nvtxDomainHandle_t domain) { return is_ours(domain) ? write_event('-', "") : 0; }

void name_thread(std::uint32_t /*thread*/, const char* name) { write_event('=', name); }

template <typename Function>
void install(NvtxFunctionTable table, int id, Function* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// Returns 1 for success. NVTX looks for this name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable core = nullptr, domains = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) == 0 ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &domains, &size) == 0 || output() == nullptr)
    return 0;
  install(core, NVTX_CBID_CORE_NameOsThreadA, name_thread);
  install(domains, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  install(domains, NVTX_CBID_CORE2_DomainRangePushEx, push);
  install(domains, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
