#include "run_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "command.hpp"
#include "pool/members.hpp"
#include "processes.hpp"

namespace penstock::tools {
namespace {

// A channel's ring and cells, and what an endpoint and a process take besides channels; rounded up,
// so that a job in which all ranks talk to all does not run out of space.
constexpr std::uint64_t bytes_per_pair = 768u << 10;
constexpr std::uint64_t bytes_per_rank = 1u << 20;
constexpr std::uint64_t bytes_at_least = 128ull << 20;
constexpr std::uint64_t bytes_at_most = 64ull << 30;  // taken as it is used

}  // namespace

std::string unique_name() {
  return fmt::format("run-{}-{:08x}", getpid(), std::random_device{}());
}

std::uint64_t temporary_pool_bytes(std::uint32_t ranks) {
  const std::uint64_t pairs = std::uint64_t{ranks} * ranks;
  const std::uint64_t bytes = bytes_at_least + pairs * bytes_per_pair + ranks * bytes_per_rank;
  return base::align_up(std::min(bytes, bytes_at_most), 2u << 20);
}

Result<pool::Info> make_temporary_pool(const std::string& spec, const std::string& mode,
                                       std::uint64_t bytes, std::uint32_t ranks,
                                       std::uint32_t nodes) {
  auto choice = PENSTOCK_TRY(choose_mode(mode, spec));
  pool::CreateOptions options;
  options.spec = spec;
  options.bytes = bytes > 0 ? bytes : temporary_pool_bytes(ranks);
  options.sparse = true;  // memory is taken as objects are made
  options.mode = choice.mode;
  // A node takes its slots in blocks, some of which stay partly empty.
  options.max_processes =
      std::clamp(slots_per_rank * ranks * 4 / 3, pool::least_default_ranks * slots_per_rank,
                 pool::max_ranks * slots_per_rank);
  options.max_nodes = std::max(options.max_nodes, nodes);
  return pool::create(options);
}

namespace {

Result<void> check_nodes(const pool::Pool& pool, const std::string& spec, std::uint32_t nodes) {
  const std::uint32_t missing = pool.members().nodes_without_entry(nodes);
  if (missing == 0) return {};
  const pool::Info& info = pool.info();
  return fail(
      ErrorCode::no_slots,
      "the job has {}, for {} of them pool {} has no entry: of its {} all others are taken; "
      "use --nodes {} or fewer, or make the pool anew with 'penstock pool create {} --size "
      "{} --nodes {} --overwrite'",
      counted(nodes, "emulated node"), missing, spec, info.max_nodes, nodes - missing,
      shell_quote(spec), info.bytes, info.max_nodes + missing);
}

Result<void> check_slots(const pool::Pool& pool, const std::string& spec, const JobNeeds& needs) {
  const auto records = pool.members().processes();
  const auto taken = static_cast<std::uint64_t>(std::count_if(
      records.begin(), records.end(),
      [](const pool::ProcessRecord& record) { return record.attached && record.alive; }));
  const std::uint64_t needed = std::uint64_t{needs.windows ? slots_per_rank : 1} * needs.ranks;
  const pool::Info& info = pool.info();
  if (taken + needed <= info.max_processes) return {};
  return fail(
      ErrorCode::no_slots,
      "pool {} has {} process slots, {} of them taken, and the job's {} ranks take {}{}: use "
      "fewer ranks, or make the pool anew with 'penstock pool create {} --size {} "
      "--ranks {} --overwrite'",
      spec, info.max_processes, taken, needs.ranks, needed,
      needs.windows
          ? " (one each for messages and one for windows; --no-windows needs none for these)"
          : "",
      shell_quote(spec), info.bytes,
      std::max<std::uint64_t>(needs.ranks, (taken + needed + slots_per_rank - 1) / slots_per_rank));
}

}  // namespace

Result<pool::Info> check_named_pool(const std::string& spec, const std::string& mode,
                                    const JobNeeds& needs) {
  auto info = pool::inspect(spec);
  if (!info) return info;
  PENSTOCK_TRY(check_use(spec));
  if (!mode.empty() && mode != "auto" && mode != coherence::mode_name(info->mode)) {
    return fail(ErrorCode::mismatch,
                "pool {} is in {} mode and the job asks for {}: leave --mode out (unset "
                "PENSTOCK_MODE), or make the pool anew with 'penstock pool create {} --size {} "
                "--mode {} --overwrite'",
                spec, coherence::mode_name(info->mode), mode, shell_quote(spec), info->bytes, mode);
  }
  auto pool = PENSTOCK_TRY(observe(spec));
  PENSTOCK_TRY(check_nodes(*pool, spec, needs.nodes));
  PENSTOCK_TRY(check_slots(*pool, spec, needs));
  return info;
}

}  // namespace penstock::tools
