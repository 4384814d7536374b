// penstock_pool_* and penstock_default_*.
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/per_process.hpp"
#include "capi/attachment.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"
#include "persist/recovery.hpp"
#include "pool/emulated_nodes.hpp"
#include "pool/leftovers.hpp"
#include "pool/random_id.hpp"

namespace penstock::capi {

namespace {

Result<std::optional<coherence::Mode>> read_mode(std::int32_t mode) {
  switch (mode) {
    case PENSTOCK_MODE_DEFAULT:
      return std::nullopt;
    case PENSTOCK_MODE_HARDWARE:
      return coherence::Mode::hardware;
    case PENSTOCK_MODE_SOFTWARE:
      return coherence::Mode::software;
    case PENSTOCK_MODE_UNCACHED:
      return coherence::Mode::uncached;
  }
  return fail(ErrorCode::invalid_argument, "mode {} is none of PENSTOCK_MODE_*", mode);
}

penstock_mode_t mode_of(coherence::Mode mode) {
  switch (mode) {
    case coherence::Mode::hardware:
      return PENSTOCK_MODE_HARDWARE;
    case coherence::Mode::uncached:
      return PENSTOCK_MODE_UNCACHED;
    default:
      return PENSTOCK_MODE_SOFTWARE;
  }
}

Result<pool::CreateOptions> creation(const char* spec, const penstock_pool_options_t* options) {
  if (spec == nullptr) return fail(ErrorCode::invalid_argument, "the SPEC is NULL");
  const auto given = PENSTOCK_TRY(read_options(options));
  const auto mode = PENSTOCK_TRY(read_mode(given.mode));
  constexpr std::uint32_t all_permissions = 0777;
  if (given.permissions > all_permissions)
    return fail(ErrorCode::invalid_argument,
                "permissions of octal {:o} for pool {}: at most {:o} is possible, such as 660",
                given.permissions, spec, all_permissions);
  pool::CreateOptions create;
  create.spec = spec;
  create.bytes = given.bytes;
  create.mode = mode.value_or(create.mode);
  if (given.max_processes != 0) create.max_processes = given.max_processes;
  if (given.max_nodes != 0) create.max_nodes = given.max_nodes;
  if (given.permissions != 0) create.permissions = given.permissions;
  if (given.group != nullptr) create.group = given.group;
  create.overwrite = given.overwrite != 0;
  return create;
}

struct DefaultPool {
  std::mutex mutex;
  std::uint64_t attaches = 0;
  penstock_pool* pool = nullptr;
};

// never destroyed: a library must not detach while a program's own exit handlers still use it
DefaultPool& default_pool() {
  static auto* const pools = new base::PerProcess<DefaultPool>;
  return pools->here();
}

}  // namespace

namespace {

/// The size up to which the pool may grow; it takes memory as it is used.
std::uint64_t temporary_bytes(std::uint32_t ranks) {
  constexpr std::uint64_t usual = 4ull << 30, each = 512ull << 20, least = 32 << 20, page = 2 << 20;
  const std::uint64_t most = std::max(usual, each * ranks);
  struct statvfs memory {};
  if (::statvfs("/dev/shm", &memory) != 0) return most;
  const std::uint64_t half = std::uint64_t{memory.f_blocks} * memory.f_frsize / 2;
  return std::clamp(half / page * page, least, most);
}

/// The pool lies in this host's own memory, whose caches are coherent; emulated nodes pretend that
/// they are not.
Result<coherence::Mode> temporary_mode() {
  if (const auto wanted = PENSTOCK_TRY(coherence::mode_from_environment())) return *wanted;
  const bool emulates = base::env_is_set("PENSTOCK_NODES") || base::env_is_set("PENSTOCK_NODE");
  return emulates ? coherence::Mode::software : coherence::Mode::hardware;
}

Result<std::string> create_temporary(std::uint32_t ranks) {
  // a killed program could not remove its own pool
  (void)pool::sweep_leftovers();
  pool::CreateOptions options;
  options.bytes = temporary_bytes(ranks);
  options.mode = PENSTOCK_TRY(temporary_mode());
  options.sparse = true;
  if (base::env_is_set("PENSTOCK_SIZE"))
    options.bytes = base::align_up(PENSTOCK_TRY(base::env_number("PENSTOCK_SIZE")), 2u << 20);
  // the form that the sweep recognizes
  options.spec = fmt::format("{}{}-{:08x}", pool::temporary_pool_prefix, ::getpid(),
                             static_cast<std::uint32_t>(PENSTOCK_TRY(pool::random_id())));
  PENSTOCK_TRY(pool::create(options));
  return options.spec;
}

/// The node that PENSTOCK_NODE names, or to which PENSTOCK_NODES deals the rank.
Result<std::optional<std::uint32_t>> emulated_node(const penstock_attach_options_t& given) {
  const auto named = PENSTOCK_TRY(base::env_index("PENSTOCK_NODE"));
  const auto nodes = PENSTOCK_TRY(base::env_index("PENSTOCK_NODES"));
  if (named || !nodes || *nodes == 0 || given.rank < 0) return named;
  const auto rank = static_cast<std::uint32_t>(given.rank);
  if (rank >= given.ranks) return named;
  return pool::emulated_node_of(rank, given.ranks, *nodes, true);
}

}  // namespace

Result<std::shared_ptr<Attachment>> attach(const char* spec,
                                           const penstock_attach_options_t* options) {
  penstock_attach_options_t unset{};
  unset.struct_bytes = sizeof unset;
  unset.rank = -1;
  const auto given = PENSTOCK_TRY(read_options(options == nullptr ? &unset : options));
  const auto mode = PENSTOCK_TRY(read_mode(given.mode));
  PENSTOCK_TRY(base::check_variables());
  pool::AttachOptions attach;
  attach.spec = spec != nullptr ? spec : base::env_text("PENSTOCK_POOL");
  if (attach.spec.empty()) {
    return fail(ErrorCode::invalid_argument,
                "no pool is named: set PENSTOCK_POOL to a SPEC (penstock pool create makes one)");
  }
  attach.mode = mode;
  attach.emulated_node = PENSTOCK_TRY(emulated_node(given));
  attach.rank = given.rank;
  if (given.job != nullptr) attach.job = given.job;
  const base::DeadCheck check = check_interrupt;
  const base::Interruptible interruptible(check);
  auto attachment = std::make_shared<Attachment>();
  attachment->pool = PENSTOCK_TRY(pool::Pool::attach(attach));
  attachment->arena = PENSTOCK_TRY(arena::Arena::open(*attachment->pool));
  attachment->of_penstock = given.reserved_names != 0;
  // a transaction that cannot be undone now is tried again, and reported, when its objects are used
  if (const auto recovered = persist::recover(*attachment->arena); !recovered)
    base::log(base::Level::warn, "{}", recovered.error().message);
  return attachment;
}

bool is_hidden(const Attachment& attachment, std::string_view name) {
  return !attachment.of_penstock && arena::is_reserved(name);
}

Result<void> check_named(const Attachment& attachment, const char* name, const void* place) {
  if (name == nullptr || place == nullptr)
    return fail(ErrorCode::invalid_argument, "the name or the handle's place is NULL");
  if (!is_hidden(attachment, name)) return {};
  return fail(ErrorCode::invalid_argument,
              "object \"{}\" of pool {} is one of Penstock's own, which it makes and destroys "
              "itself: choose a name that does not begin with \"{}\"",
              name, attachment.pool->info().spec, arena::reserved_prefix);
}

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

penstock_status_t penstock_pool_create(const char* spec, const penstock_pool_options_t* options) {
  return capi::guarded([&] {
    const auto create = capi::creation(spec, options);
    if (!create) return capi::report(create.error());
    return capi::report(pool::create(*create));
  });
}

penstock_status_t penstock_pool_create_temporary(uint32_t ranks, char* spec, size_t spec_bytes) {
  return capi::guarded([&] {
    const auto made = capi::create_temporary(ranks);
    if (!made) return capi::report(made.error());
    if (spec == nullptr || made->size() >= spec_bytes) {
      (void)pool::remove(*made, true);
      return capi::report(ErrorCode::invalid_argument, "no room for the SPEC: 64 bytes are enough");
    }
    spec[made->copy(spec, made->size())] = '\0';
    return PENSTOCK_OK;
  });
}

const char* penstock_default_spec(void) {
  thread_local char spec[4096];
  spec[base::env_text("PENSTOCK_POOL").copy(spec, sizeof spec - 1)] = '\0';
  return spec;
}

penstock_status_t penstock_pool_remove(const char* spec, int force) {
  return capi::guarded([&] {
    if (spec == nullptr) return capi::report(ErrorCode::invalid_argument, "the SPEC is NULL");
    return capi::report(pool::remove(spec, force != 0));
  });
}

penstock_status_t penstock_pool_attach(const char* spec, const penstock_attach_options_t* options,
                                       penstock_pool_t** pool) {
  return capi::guarded([&] {
    if (pool == nullptr)
      return capi::report(ErrorCode::invalid_argument, "no place for the handle");
    *pool = nullptr;
    auto attachment = capi::attach(spec, options);
    if (!attachment) return capi::report(attachment.error());
    *pool = new penstock_pool(std::move(*attachment));
    return PENSTOCK_OK;
  });
}

void penstock_pool_detach(penstock_pool_t* pool) {
  capi::Handle::close(pool);
}

penstock_status_t penstock_pool_info(const penstock_pool_t* pool, penstock_pool_info_t* info) {
  return capi::use(pool, [&](const penstock_pool& handle) {
    if (info == nullptr)
      return capi::report(ErrorCode::invalid_argument, "the place for the pool's info is NULL");
    const pool::Pool& attached = *handle.attachment->pool;
    const arena::Stats stats = handle.attachment->arena->stats();
    penstock_pool_info_t found{};
    found.id = attached.info().id;
    found.bytes = attached.info().bytes;
    found.mode = capi::mode_of(attached.info().mode);
    found.max_processes = attached.info().max_processes;
    found.max_nodes = attached.info().max_nodes;
    found.created_wall_ns = attached.info().created_wall_ns;
    found.node = attached.node();
    found.token = attached.token();
    found.object_bytes_total = stats.bytes_total;
    found.object_bytes_used = stats.bytes_used;
    found.object_bytes_largest_free = stats.bytes_largest_free;
    found.objects = stats.objects;
    found.name_slots = stats.slots;
    *info = found;
    return PENSTOCK_OK;
  });
}

int penstock_pool_alive(const penstock_pool_t* pool, uint64_t token, char* who, size_t bytes) {
  bool alive = false;
  capi::use(pool, [&](const penstock_pool& handle) {
    alive = handle.attachment->pool->alive(token);
    if (who != nullptr && bytes != 0) {
      const std::string words = handle.attachment->pool->describe(token);
      who[words.copy(who, bytes - 1)] = '\0';
    }
    return PENSTOCK_OK;
  });
  return alive ? 1 : 0;
}

penstock_status_t penstock_default_attach(void) {
  return capi::guarded([&] {
    auto& shared = capi::default_pool();
    const std::lock_guard hold(shared.mutex);
    if (shared.attaches == 0) {
      auto attachment = capi::attach(nullptr, nullptr);
      if (!attachment) return capi::report(attachment.error());
      shared.pool = new penstock_pool(std::move(*attachment));
    }
    ++shared.attaches;
    return PENSTOCK_OK;
  });
}

void penstock_default_detach(void) {
  capi::guarded([&] {
    auto& shared = capi::default_pool();
    const std::lock_guard hold(shared.mutex);
    if (shared.attaches != 0 && --shared.attaches == 0)
      capi::Handle::close(std::exchange(shared.pool, nullptr));
    return PENSTOCK_OK;
  });
}

penstock_pool_t* penstock_default_pool(void) {
  auto& shared = capi::default_pool();
  const std::lock_guard hold(shared.mutex);
  return shared.pool;
}

}  // extern "C"
