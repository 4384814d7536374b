#include "nccl/attached.hpp"

#include <map>
#include <mutex>
#include <set>

#include "base/format.hpp"
#include "nccl/message_slots.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

std::mutex mutex;
std::map<std::string, std::weak_ptr<Attached>> attachments;  // keyed by the pool's SPEC

/// Attachments that stay until the process ends.
std::set<std::shared_ptr<Attached>>& kept() {
  static auto& all = *new std::set<std::shared_ptr<Attached>>;
  return all;
}

}  // namespace

Result Attached::get(const std::string& spec, std::uint64_t key, int rank, int ranks,
                     std::shared_ptr<Attached>& attached) {
  const std::lock_guard<std::mutex> guard(mutex);
  if ((attached = attachments[spec].lock()) != nullptr) return success;
  const std::string job = fmt::format("nccl-{:016x}", key);
  penstock_attach_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = rank;
  options.ranks = static_cast<std::uint32_t>(ranks);
  options.job = job.c_str();
  options.reserved_names = 1;  // its objects in the pool are hidden from users
  penstock_pool_t* pool = nullptr;
  if (const auto status = penstock_pool_attach(spec.c_str(), &options, &pool);
      status != PENSTOCK_OK)
    return outcome(status, "ncclCommInitRank");
  attached.reset(new Attached(pool, spec));
  attachments[spec] = attached;
  return success;
}

Attached::~Attached() {
  MessageSlots::forget(pool_);
  penstock_pool_detach(pool_);
}

Result Attached::of_process(std::shared_ptr<Attached>& attached) {
  const std::string named = penstock_default_spec();
  if (!named.empty()) return get(named, 0, -1, 0, attached);
  const std::lock_guard<std::mutex> guard(mutex);
  for (const auto& [spec, one] : attachments)
    if ((attached = one.lock()) != nullptr) return success;
  return failed(invalid_usage,
                "ncclMemAlloc: PENSTOCK_NCCL_MEMORY=pool, and this process knows no pool yet: set "
                "PENSTOCK_POOL, or call ncclCommInitRank before");
}

void Attached::keep(const penstock_pool_t* pool) {
  const std::lock_guard<std::mutex> guard(mutex);
  for (const auto& [spec, one] : attachments)
    if (const auto attached = one.lock(); attached != nullptr && attached->pool() == pool)
      kept().insert(attached);
}

}  // namespace penstock::nccl
