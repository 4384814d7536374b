// The table of PENSTOCK_ variables: one row each, by audience, then by name.
#include <array>

#include "base/env.hpp"

namespace penstock::base {
namespace {

/// Read by transport::settings_for().
constexpr std::array of_channels{
    Item{.name = "cell", .least = 4 << 10, .most = 16 << 20, .multiple = 64},
    Item{.name = "cells", .least = 8, .most = 1024, .multiple = 8},
    Item{.name = "first_lines", .least = 16, .most = 1024, .power_of_two = true},
    Item{.name = "idle_ms", .least = 100, .most = 86'400'000},
    Item{.name = "get", .least = 33},
    Item{.name = "put"},
};

constexpr std::array table{
    // users
    Variable{"PENSTOCK_COLL", "all", "all|none|NAME,...", Audience::user,
             "MPI's collectives that go through the pool; -NAME leaves one out."},
    Variable{"PENSTOCK_COLL_CHECK", "0", "0|1", Audience::user,
             "Compare the collective calls of all ranks before each, and the sizes that they send "
             "each other; slow."},
    Variable{"PENSTOCK_JOB", "", "text", Audience::user,
             "Job key: only processes with the same key reach each other. Default: taken from the "
             "launcher."},
    Variable{"PENSTOCK_LOG", "warn", "error|warn|info|debug", Audience::user,
             "Messages of this level and above go to standard error."},
    Variable{"PENSTOCK_NCCL_LOCAL", "", "PATH", Audience::user,
             "Another libnccl.so.2, for communicators whose ranks share a host; the same on all."},
    Variable{"PENSTOCK_NCCL_MEMORY", "device", "device|pool", Audience::user,
             "Where the memory of ncclMemAlloc lies."},
    Variable{"PENSTOCK_NODE", "", "index", Audience::user,
             "Emulated node that this process belongs to, from 0.", 0, 65535},
    Variable{"PENSTOCK_NODES", "", "count", Audience::user,
             "Emulated nodes of the job; ranks are dealt to them in blocks.", 0, 65536},
    Variable{"PENSTOCK_POOL", "", "SPEC", Audience::user,
             "Pool to use: /dev/daxX.Y, a file path or shm:NAME; several joined by commas "
             "interleave."},
    Variable{"PENSTOCK_REQUIRE", "0", "0|1", Audience::user,
             "Fail rather than let the application use another provider."},
    Variable{"PENSTOCK_SIZE", "", "bytes", Audience::user,
             "Size up to which the temporary pool of a program on one host grows. Default: 4G, or "
             "512M a rank, but half of /dev/shm at most.",
             16 << 20, 1ull << 48},
    Variable{"PENSTOCK_SUMMARY", "0", "0|1", Audience::user,
             "Rank 0 prints which path was chosen."},
    Variable{"PENSTOCK_TIMEOUT_MS", "60000", "ms", Audience::user,
             "Deadline of a wait for another process.", 1, 1ull << 40},
    Variable{"PENSTOCK_TRACE", "", "folder", Audience::user,
             "At its end a process writes here what its collectives did when, for penstock "
             "timeline."},
    Variable{"PENSTOCK_UNEXPECTED_BYTES", "", "bytes", Audience::user,
             "Memory for messages that no receive waits for yet; beyond it their senders wait. "
             "Default: an eighth of the host's memory, divided by its cores.",
             64 << 10},
    Variable{"PENSTOCK_WINDOW_MODEL", "collective", "separate|collective|unified", Audience::user,
             "What synchronizes loads and stores of MPI windows where caches are not coherent."},
    // administrators
    Variable{"PENSTOCK_COLL_TUNING", "", "FILE|TEXT|default", Audience::administrator,
             "Tuning table of collectives, in place of the pool's; rank 0's counts."},
    Variable{"PENSTOCK_LEASE_MS", "10000", "ms", Audience::administrator,
             "A process of another host that gives no sign of life for this long counts as dead.",
             1, 1ull << 32},
    Variable{"PENSTOCK_MODE", "", "hardware|software|uncached|simulated", Audience::administrator,
             "Refuse a pool of another coherence mode than this one; a temporary pool gets it."},
    Variable{"PENSTOCK_TRUST_OWNER", "", "USER,:GROUP,...", Audience::administrator,
             "Also use pools of these users or groups; everybody: also pools that anybody may "
             "write to. Default: own pools and root's."},
    // tuning
    Variable{"PENSTOCK_CHANNELS", "", "NAME=NUMBER,...", Audience::tuning,
             "How messages go through the pool, in place of what the pool's mode gives: cell, "
             "cells, first_lines, idle_ms, get, put.",
             0, UINT64_MAX, of_channels},
    Variable{"PENSTOCK_COLL_PLAN", "", "NAME=VALUE,...", Audience::tuning,
             "How collectives go through the pool, in place of what is chosen by size: algorithm, "
             "variant, chunk, chunks, turns, scratch, form, devices."},
    Variable{"PENSTOCK_COLL_SWITCH", "auto", "auto|always|never", Audience::tuning,
             "Collectives in the switch that serves the pool (penstock switch): auto where the "
             "tuning table says so, always where it can; rank 0's counts."},
    Variable{"PENSTOCK_FLUSH", "auto", "auto|clflush|clflushopt|clwb", Audience::tuning,
             "Instruction that writes lines back in software mode; auto takes the fastest way."},
    Variable{"PENSTOCK_GPU_DIRECT", "1", "0|1", Audience::tuning,
             "In hardware and uncached mode GPUs keep the protocol of collectives by themselves; "
             "0 on any rank, or unset in a temporary pool: a thread of the host does."},
    Variable{"PENSTOCK_GPU_FLAGGED_BYTES", "", "bytes", Audience::tuning,
             "Longest block of a collective whose data carries its flags, in hardware and uncached "
             "mode; the least of all ranks; 0: none. Default: 16384, but at most "
             "PENSTOCK_GPU_FUSED_BYTES, and 0 where ranks share a GPU and neither is set.",
             0, 32 << 10},
    Variable{"PENSTOCK_GPU_FUSED_BYTES", "", "bytes", Audience::tuning,
             "Longest block of a collective that a GPU does by one launch; 0: none. Default: "
             "65536, or 0 where ranks share a GPU.",
             0, 64 << 20},
    Variable{"PENSTOCK_ISA", "", "sse2|avx2|avx512|generic", Audience::tuning,
             "Use no instructions beyond these. Default: the best that the CPU has."},
    Variable{"PENSTOCK_SPIN", "", "count", Audience::tuning,
             "Polls before a wait yields its core. Default: chosen from processes and cores.", 0,
             UINT32_MAX},
    // set by Penstock itself
    Variable{"PENSTOCK_EXIT_LOG", "", "folder", Audience::penstock,
             "Set by penstock run: the folder in which ranks record the order of their ends."},
    Variable{"PENSTOCK_PYTHON", "", "PATH", Audience::penstock,
             "Python that runs the experiments of penstock bench. Default: one beside the "
             "command, else that of the build's .venv, else python3."},
    // tests
    Variable{"PENSTOCK_SIM_BREAK", "", "OPERATION=N", Audience::tests,
             "For tests: leave out every N-th invalidate, load_fence or write_back."},
    Variable{"PENSTOCK_SIM_CUDA", "", "FILE", Audience::tests,
             "Library of the GPU's driver for tests, such as libcuda.so.1. Default: the stand-in."},
    Variable{"PENSTOCK_SIM_FAULTS", "", "NAME=NUMBER,...", Audience::tests,
             "Fault-injection rates of the simulated memory, per 1,000 operations. Default: drawn "
             "for each thread."},
    Variable{"PENSTOCK_SIM_FROM", "", "number", Audience::tests,
             "The first seed of tests on simulated nodes. Default: 1."},
    Variable{"PENSTOCK_SIM_KILL", "", "N|Nn", Audience::tests,
             "With PENSTOCK_SIM_SEED: the operation at which the victim dies; Nn: with its node."},
    Variable{"PENSTOCK_SIM_LOG", "", "FILE", Audience::tests,
             "Tests on simulated nodes append what they explored here, for make prove."},
    Variable{"PENSTOCK_SIM_MUTANT", "", "FILE:LINE:WHAT", Audience::tests,
             "The place that is weakened: a publish, a flush or a fence (sim/mutants.py)."},
    Variable{"PENSTOCK_SIM_RUNS", "", "count", Audience::tests,
             "Seeds of each of these tests. Default: the test's own number."},
    Variable{"PENSTOCK_SIM_SEED", "", "number", Audience::tests,
             "Seed of the simulated memory's random choices. Default: the pool's id."},
    Variable{"PENSTOCK_SIM_SITES", "", "FILE", Audience::tests,
             "Tests on simulated nodes append the places that they reached here."},
};

}  // namespace

std::span<const Variable> variables() {
  return table;
}

}  // namespace penstock::base
