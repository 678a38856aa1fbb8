// SPDX-License-Identifier: Apache-2.0
#include "core/machine/control_groups.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/machine/host_memory.h"
#include "tests/support/temporary_directory.h"

// The files are as Linux 5.10 to 6.1 write them under systemd, Docker and Slurm.
namespace llmtrain {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;
constexpr const char* version_2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* version_1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory\n";

// A machine of 1 GiB whose process is in these groups.
class Machine {
 public:
  Machine(const std::string& mounts, const std::string& groups) {
    write("proc/meminfo", "MemTotal:        1048576 kB\nMemAvailable:     786432 kB\n");
    write("proc/self/mountinfo", mounts);
    write("proc/self/cgroup", groups);
  }
  Machine& write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((directory_.path() / name).parent_path());
    directory_.write(name, text);
    return *this;
  }
  HostMemory memory() const { return host_memory(directory_.path()); }
  std::int64_t limit() const { return memory().limit / mebibyte; }
  double cores() const { return control_group_limits(directory_.path()).cores.value_or(0); }

 private:
  test::TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a group of version 2 limits memory and cores", "[machine]") {
  Machine machine(version_2, "0::/a.scope\n");
  machine.write("sys/fs/cgroup/a.scope/memory.max", "max\n").write("sys/fs/cgroup/a.scope/cpu.max", "max 100000\n");
  CHECK(machine.limit() == 0);
  CHECK(machine.memory().total == 1024 * mebibyte);
  CHECK(machine.cores() == 0);
  machine.write("sys/fs/cgroup/a.scope/memory.max", "268435456\n");
  machine.write("sys/fs/cgroup/a.scope/cpu.max", "150000 100000\n");
  CHECK(machine.limit() == 256);
  CHECK(machine.memory().total == 256 * mebibyte);
  CHECK(machine.memory().available == 256 * mebibyte);
  CHECK(machine.cores() == 1.5);
  // The kernel can drop 40 of the 100 MiB in use: 196 are left.
  machine.write("sys/fs/cgroup/a.scope/memory.current", "104857600\n");
  machine.write("sys/fs/cgroup/a.scope/memory.stat", "anon 62914560\nfile 41943040\ninactive_file 41943040\n");
  CHECK(machine.memory().available == 196 * mebibyte);
}

TEST_CASE("the lowest limit of a group and those above it counts", "[machine]") {
  // As Slurm sets it: the job's and not the task's.
  const std::string job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/";
  Machine machine(version_2, "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
  machine.write(job + "memory.max", "536870912\n").write(job + "step_0/memory.max", "max\n");
  machine.write(job + "step_0/user/task_0/memory.max", "805306368\n").write(job + "cpu.max", "400000 100000\n");
  machine.write(job + "step_0/user/task_0/cpu.max", "max 100000\n");
  CHECK(machine.limit() == 512);
  CHECK(machine.cores() == 4);
}

TEST_CASE("groups of version 1 limit memory and cores", "[machine]") {
  Machine machine(version_1, "4:memory:/slurm/uid_1/job_7/step_0\n3:cpuacct,cpu:/slurm/uid_1/job_7/step_0\n");
  // What stands for no limit.
  machine.write("sys/fs/cgroup/memory/slurm/uid_1/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.limit() == 0);
  const std::string cores = "sys/fs/cgroup/cpu,cpuacct/slurm/uid_1/job_7/";
  machine.write("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes", "134217728\n");
  machine.write("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.usage_in_bytes", "67108864\n");
  machine.write("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.stat", "cache 1\ntotal_inactive_file 33554432\n");
  machine.write(cores + "cpu.cfs_quota_us", "250000\n").write(cores + "cpu.cfs_period_us", "100000\n");
  machine.write(cores + "step_0/cpu.cfs_quota_us", "-1\n").write(cores + "step_0/cpu.cfs_period_us", "100000\n");
  CHECK(machine.limit() == 128);
  CHECK(machine.memory().available == 96 * mebibyte);
  CHECK(machine.cores() == 2.5);
}

TEST_CASE("in a hybrid hierarchy version 1 has the controllers", "[machine]") {
  Machine machine(std::string(version_1) + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                  "4:memory:/user.slice\n1:name=systemd:/user.slice\n0::/user.slice\n");
  machine.write("sys/fs/cgroup/unified/user.slice/cgroup.procs", "1\n");
  machine.write("sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes", "104857600\n");
  CHECK(machine.limit() == 100);
}

TEST_CASE("a container's own group is where its hierarchy is mounted", "[machine]") {
  SECTION("in a namespace of control groups") {
    Machine machine(version_2, "0::/\n");
    machine.write("sys/fs/cgroup/memory.max", "104857600\n");
    CHECK(machine.limit() == 100);
  }
  SECTION("without one, told the name that it has outside") {
    Machine machine("36 31 0:32 /docker/1a2b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
                    "4:memory:/docker/1a2b/inner\n");
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    CHECK(machine.limit() == 100);
    machine.write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "52428800\n");
    CHECK(machine.limit() == 50);
  }
  SECTION("in a group beside the namespace's") {
    Machine machine(version_2, "0::/../other\n");
    machine.write("sys/fs/cgroup/memory.max", "104857600\n");
    CHECK(machine.limit() == 100);
  }
  SECTION("mounted at a folder with a space") {
    Machine machine("31 23 0:28 / /sys/fs/c\\040g rw - cgroup2 cgroup2 rw\n", "0::/\n");
    machine.write("sys/fs/c g/memory.max", "104857600\n");
    CHECK(machine.limit() == 100);
  }
}

TEST_CASE("a system without control groups has no limits", "[machine]") {
  const test::TemporaryDirectory empty;
  const ControlGroupLimits limits = control_group_limits(empty.path());
  CHECK_FALSE(limits.memory);
  CHECK_FALSE(limits.cores);
  CHECK(host_memory(empty.path()).total == 0);
}

}  // namespace llmtrain
