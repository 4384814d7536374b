// The table of PENSTOCK_ variables: one row each, alphabetical within a topic.
#include <array>

#include "base/env.hpp"

namespace penstock::base {
namespace {

constexpr std::array table{
    // pool and identity
    Variable{
        "PENSTOCK_POOL", "", "SPEC",
        "Pool to use: /dev/daxX.Y, a file path or shm:NAME; several joined by commas interleave."},
    Variable{"PENSTOCK_MODE", "", "hardware|software|uncached|simulated",
             "Refuse a pool of another coherence mode than this one; a temporary pool gets it."},
    Variable{"PENSTOCK_TRUST_OWNER", "", "USER,:GROUP,...",
             "Also use pools of these users or groups; everybody: also pools that anybody "
             "may write to. Default: own pools and root's."},
    Variable{"PENSTOCK_JOB", "", "text",
             "Job key: only processes with the same key reach each other. Default: taken from the "
             "launcher."},
    Variable{"PENSTOCK_NODE", "", "index", "Emulated node that this process belongs to, from 0.", 0,
             65535},
    Variable{"PENSTOCK_NODES", "", "count",
             "Emulated nodes of the job; ranks are dealt to them in blocks.", 0, 65536},
    Variable{"PENSTOCK_EXIT_LOG", "", "folder",
             "Set by penstock run: the folder in which ranks record the order of their ends."},
    Variable{"PENSTOCK_PYTHON", "", "PATH",
             "Python that runs the experiments of penstock bench. Default: one beside the command, "
             "else that of the build's .venv, else python3."},
    // policy and messages
    Variable{"PENSTOCK_REQUIRE", "0", "0|1",
             "Fail rather than let the application use another provider."},
    Variable{"PENSTOCK_SUMMARY", "0", "0|1", "Rank 0 prints which path was chosen."},
    Variable{"PENSTOCK_LOG", "warn", "error|warn|info|debug",
             "Messages of this level and above go to standard error."},
    Variable{"PENSTOCK_TRACE", "", "folder",
             "At its end a process writes here what its collectives did when, for penstock "
             "timeline."},
    // time
    Variable{"PENSTOCK_LEASE_MS", "10000", "ms",
             "A process of another host that gives no sign of life for this long counts as "
             "dead.",
             1, 1ull << 32},
    Variable{"PENSTOCK_SPIN", "", "count",
             "Polls before a wait yields its core. Default: chosen from processes and cores.", 0,
             UINT32_MAX},
    Variable{"PENSTOCK_TIMEOUT_MS", "60000", "ms", "Deadline of a wait for another process.", 1,
             1ull << 40},
    // memory access
    Variable{"PENSTOCK_CELL", "", "bytes",
             "Size of the cells in which long messages are pipelined. Default: by mode.", 4 << 10,
             16 << 20},
    Variable{"PENSTOCK_CELLS", "", "count",
             "Cells of a channel. Default: 4 at first, 32 when it proves busy.", 8, 1024},
    Variable{"PENSTOCK_FIRST_LINES", "64", "count",
             "Lines of a channel's ring at first; a busy one has 1024.", 16, 1024},
    Variable{"PENSTOCK_FLUSH", "auto", "auto|clflush|clflushopt|clwb",
             "Instruction that writes lines back in software mode; auto takes the fastest way."},
    Variable{"PENSTOCK_IDLE_MS", "10000", "ms",
             "A channel that was idle for this long gives back the memory by which it has grown.",
             100, 86'400'000},
    Variable{"PENSTOCK_ISA", "", "sse2|avx2|avx512|generic",
             "Use no instructions beyond these. Default: the best that the CPU has."},
    Variable{"PENSTOCK_RENDEZVOUS_GET", "", "bytes",
             "Shortest message from memory in the pool that the receiver reads where it lies. "
             "Default: by mode.",
             33},
    Variable{"PENSTOCK_RENDEZVOUS_PUT", "", "bytes",
             "Shortest message that the sender stores into a receive buffer in the pool. Default: "
             "by mode."},
    Variable{"PENSTOCK_UNEXPECTED_BYTES", "", "bytes",
             "Memory for messages that no receive waits for yet; beyond it their senders wait. "
             "Default: an eighth of the host's memory, divided by its cores.",
             64 << 10},
    Variable{"PENSTOCK_COLL", "all", "all|none|NAME,...",
             "MPI's collectives that go through the pool; -NAME leaves one out."},
    Variable{"PENSTOCK_COLL_CHECK", "0", "0|1",
             "Compare the collective calls of all ranks before each, and the sizes that they send "
             "each other; slow."},
    Variable{"PENSTOCK_COLL_SWITCH", "auto", "auto|always|never",
             "Collectives in the switch that serves the pool (penstock switch): auto where the "
             "tuning table says so, always where it can; rank 0's counts."},
    Variable{"PENSTOCK_COLL_TUNING", "", "FILE|TEXT|default",
             "Tuning table of collectives, in place of the pool's; rank 0's counts."},
    Variable{"PENSTOCK_GPU_DIRECT", "1", "0|1",
             "In hardware and uncached mode GPUs keep the protocol of collectives by themselves; 0 "
             "on any rank, or unset in a temporary pool: a thread of the host does."},
    Variable{"PENSTOCK_GPU_FUSED_BYTES", "", "bytes",
             "Longest block of a collective that a GPU does by one launch, where GPUs keep the "
             "protocol by themselves; 0: none. Default: 65536, or 0 where ranks share a GPU.",
             0, 64 << 20},
    Variable{"PENSTOCK_NCCL_LOCAL", "", "PATH",
             "Another libnccl.so.2, for communicators whose ranks share a host; the same on all."},
    Variable{"PENSTOCK_NCCL_MEMORY", "device", "device|pool",
             "Where the memory of ncclMemAlloc lies."},
    Variable{"PENSTOCK_SIZE", "", "bytes",
             "Size up to which the temporary pool of a program on one host grows. Default: 4G, or "
             "512M a rank, but half of /dev/shm at most.",
             16 << 20, 1ull << 48},
    Variable{"PENSTOCK_COLL_PLAN", "", "NAME=VALUE,...",
             "How collectives go through the pool, in place of what is chosen by size: "
             "algorithm, variant, chunk, chunks, turns, form, devices."},
    Variable{"PENSTOCK_WINDOW_MODEL", "collective", "separate|collective|unified",
             "What synchronizes loads and stores of MPI windows where caches are not coherent."},
    // the simulated mode
    Variable{"PENSTOCK_SIM_BREAK", "", "OPERATION=N",
             "For tests: leave out every N-th invalidate, load_fence or write_back."},
    Variable{"PENSTOCK_SIM_FAULTS", "", "NAME=NUMBER,...",
             "Fault-injection rates of the simulated memory, per 1,000 operations. Default: "
             "drawn for each thread."},
    Variable{"PENSTOCK_SIM_SEED", "", "number",
             "Seed of the simulated memory's random choices. Default: the pool's id."},
};

constexpr std::array renamed{
    RenamedVariable{"PENSTOCK_PLACED", "PENSTOCK_RENDEZVOUS_GET"},
    RenamedVariable{"PENSTOCK_STORED", "PENSTOCK_RENDEZVOUS_PUT"},
    RenamedVariable{"PENSTOCK_ROLL", "PENSTOCK_EXIT_LOG"},
    RenamedVariable{"PENSTOCK_SIM_KNOBS", "PENSTOCK_SIM_FAULTS"},
};

}  // namespace

std::span<const Variable> variables() {
  return table;
}

std::span<const RenamedVariable> renamed_variables() {
  return renamed;
}

}  // namespace penstock::base
