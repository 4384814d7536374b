// Communicators, groups, errors and operations of NCCL's interface.
#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <memory>

#include "base/format.hpp"
#include "nccl/arguments.hpp"
#include "nccl/export.hpp"
#include "nccl/gpus.hpp"
#include "nccl/group.hpp"

namespace penstock::nccl {

namespace {

Result check_ranks(const char* call, const void* comm, int ranks, int rank) {
  if (comm == nullptr) return failed(invalid_argument, fmt::format("{}: no place for it", call));
  if (ranks > 0 && rank >= 0 && rank < ranks) return success;
  return failed(invalid_argument, fmt::format("{}: rank {} of {} ranks", call, rank, ranks));
}

/// The values that a configuration asks for. Fields that it leaves undefined keep their defaults.
struct Wished {
  std::string name;
  bool blocks = true;
};

Result read_config(const char* call, const Config* config, Wished& wished) {
  if (config == nullptr) return success;
  if (config->magic != config_magic || config->size < offsetof(Config, cga_cluster_size))
    return failed(
        invalid_argument,
        fmt::format("{}: the configuration was not made by NCCL_CONFIG_INITIALIZER", call));
  if (config->size >= sizeof(Config) && config->comm_name != nullptr)
    wished.name = std::string("NCCL communicator ") + config->comm_name;
  if (config->blocking == undefined) return success;
  if (config->blocking != 0 && config->blocking != 1)
    return failed(invalid_argument,
                  fmt::format("{}: the configuration's \"blocking\" is {}: 0 or 1 is needed", call,
                              config->blocking));
  wished.blocks = config->blocking == 1;
  return success;
}

Result init(const char* call, Comm* comm, int ranks, const UniqueId& id, int rank,
            const Config* config) {
  return guarded(call, [&] {
    Making making{.rank = rank, .ranks = ranks};
    Wished wished;
    Result checked = check_ranks(call, comm, ranks, rank);
    if (checked == success) checked = read_config(call, config, wished);
    if (checked == success) checked = read_invitation(id, making.invitation);
    if (checked != success) return refused_in_group(checked);
    making.name = wished.name;
    if (wished.blocks) return in_group(nullptr, [making, comm] { return make_comm(making, comm); });
    const auto made = std::make_shared<ncclComm>();
    made->blocks = false;
    *comm = made->hand_out();
    return in_group(nullptr, [making, made] {
      return made->begin([making, &own = *made] { return open_comm(own, making); });
    });
  });
}

/// Salt of shrunk communicators' keys; those of splits are 17 and on.
constexpr std::uint64_t of_shrinks = 16;

/// A rank's arguments to a split.
struct Wish {
  int color, key, rank;
};

/// Describes the communicator of this rank's color: its ranks are ordered by key. It has the GPU of
/// its parent.
Making making_of(const std::vector<Wish>& wishes, const Wish& own, std::uint64_t key,
                 const std::string& name, const ncclComm& parent) {
  std::vector<Wish> members;
  for (const Wish& wish : wishes)
    if (wish.color == own.color) members.push_back(wish);
  std::stable_sort(members.begin(), members.end(),
                   [](const Wish& a, const Wish& b) { return a.key < b.key; });
  const auto place = std::find_if(members.begin(), members.end(),
                                  [&](const Wish& wish) { return wish.rank == own.rank; });
  return {.key = derived_key(key, static_cast<std::uint64_t>(own.color) + 1),
          .invitation = {},
          .rank = static_cast<int>(place - members.begin()),
          .ranks = static_cast<int>(members.size()),
          .name = name,
          .attached = parent.attached,
          .gpu = parent.gpu};
}

/// Returns a check that a communicator can still be made from its parent: it was not aborted, and
/// no rank has died that is not `excluded`. Nor was the parent aborted, if it is `needed`.
std::function<Result()> check_both_alive(const ncclComm& comm, const ncclComm& made,
                                         std::vector<int> excluded = {}, bool needed = true) {
  return [&comm, &made, excluded = std::move(excluded), needed] {
    if (comm.closes || (needed && comm.aborted)) return was_aborted();
    if (made.aborted) return failed(internal_error, "the new communicator was aborted");
    return comm.still_all_there(excluded);
  };
}

Result split(ncclComm& comm, int color, int key, ncclComm& made, const std::string& name) {
  const ncclComm::InCall in(comm);
  const std::uint64_t split_key = derived_key(comm.key, 16 + ++comm.splits);
  const Wish own{color, key, comm.rank};
  std::vector<Wish> wishes(static_cast<std::size_t>(comm.ranks));
  Meeting meeting(comm.attached->pool(), split_key, comm.rank, comm.ranks,
                  check_both_alive(comm, made));
  if (const Result met = meeting.exchange(&own, wishes.data(), sizeof own); met != success)
    return met;
  if (color == no_color) return success;
  Making making = making_of(wishes, own, split_key, name, comm);
  // The others may end as soon as they have met.
  std::vector<int> others;
  for (const Wish& wish : wishes)
    if (wish.color != color) others.push_back(wish.rank);
  making.goes_on = check_both_alive(comm, made, std::move(others));
  return open_comm(made, making);
}

/// The key of the next communicator that is shrunk from `comm` to these ranks.
std::uint64_t shrunk_key(ncclComm& comm, const std::vector<Wish>& ranks) {
  std::uint64_t key = derived_key(comm.key, of_shrinks);
  for (const Wish& wish : ranks) key = derived_key(key, static_cast<std::uint64_t>(wish.rank));
  const std::lock_guard<std::mutex> guard(comm.mutex);
  return derived_key(key, ++comm.shrinks[key]);
}

/// Makes a communicator of the ranks that are not excluded. Excluded ranks take no part.
Result shrink(ncclComm& comm, const std::vector<int>& excluded, ncclComm& made,
              const std::string& name) {
  const ncclComm::InCall in(comm);
  std::vector<Wish> wishes;
  for (int rank = 0; rank < comm.ranks; ++rank)
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end())
      wishes.push_back({0, rank, rank});
  Making making =
      making_of(wishes, {0, comm.rank, comm.rank}, shrunk_key(comm, wishes), name, comm);
  making.goes_on = check_both_alive(comm, made, excluded, excluded.empty());
  return open_comm(made, making);
}

/// How the making of a communicator ended. The parent communicator's thread reports it.
struct Made {
  Result result = success;
  std::string words;
};

/// Makes `*place` from `comm` by `make`; with `is_in_none` this rank takes part but gets no new
/// communicator. If the new one does not block, both are in progress until it is made.
Result derive(ncclComm& comm, const Wished& wished, bool is_in_none, Comm* place,
              const std::function<Result(ncclComm&)>& make) {
  *place = nullptr;
  const auto made = std::make_shared<ncclComm>();
  if (wished.blocks)
    return in_group(
        &comm,
        [made, make, is_in_none, place] {
          const Result result = make(*made);
          if (result == success && !is_in_none) *place = made->hand_out();
          return result;
        },
        true);
  made->blocks = false;
  const auto end = std::make_shared<std::promise<Made>>();
  if (!is_in_none) {
    *place = made->hand_out();
    made->tasks.post([ended = end->get_future().share()] {
      try {
        const Made how = ended.get();
        return how.result == success ? success : failed(how.result, how.words);
      } catch (const std::future_error&) {  // the task was dropped before it began
        return failed(internal_error, "the communicator that this one is made of has failed");
      }
    });
  }
  const auto task = [made, make, end] {
    const Result result = guarded("ncclCommSplit", [&] { return make(*made); });
    end->set_value({result, result == success ? "" : last_error()});
    return result;
  };
  const auto later = [&comm, task] {
    comm.tasks.post(task);
    return in_progress;
  };
  return in_group(&comm, comm.blocks ? std::function<Result()>(later) : task, true);
}

Result with_comm(const char* call, Comm comm, const void* place,
                 const std::function<Result(ncclComm&)>& body) {
  return guarded(call, [&] {
    Held held;
    if (const Result checked = hold(call, comm, held); checked != success) return checked;
    if (place == nullptr)
      return failed(invalid_argument, fmt::format("{}: no place for the result", call));
    return body(*comm);
  });
}

/// Like with_comm(), but the communicator may still be in progress.
Result with_handle(const char* call, Comm comm, const std::function<Result(ncclComm&)>& body) {
  return guarded(call, [&] {
    Held held;
    const Result checked = hold_handle(call, comm, held);
    return checked == success ? body(*comm) : checked;
  });
}

}  // namespace

PENSTOCK_NCCL(Result, ncclGetVersion, (int* found)) {
  if (found == nullptr) return failed(invalid_argument, "ncclGetVersion: no place for it");
  *found = version;
  return success;
}

PENSTOCK_NCCL(Result, ncclGetUniqueId, (UniqueId * id)) {
  return guarded("ncclGetUniqueId", [&] {
    if (id == nullptr) return failed(invalid_argument, "ncclGetUniqueId: no place for it");
    return invite(*id);
  });
}

PENSTOCK_NCCL(Result, ncclCommInitRank, (Comm * comm, int ranks, UniqueId id, int rank)) {
  return init("ncclCommInitRank", comm, ranks, id, rank, nullptr);
}
PENSTOCK_NCCL(Result, ncclCommInitRankConfig,
              (Comm * comm, int ranks, UniqueId id, int rank, const Config* config)) {
  return init("ncclCommInitRankConfig", comm, ranks, id, rank, config);
}
PENSTOCK_NCCL(Result, ncclCommInitRankScalable,
              (Comm * comm, int ranks, int rank, int ids, const UniqueId* id,
               const Config* config)) {
  if (id == nullptr || ids < 1)
    return failed(invalid_argument, "ncclCommInitRankScalable: no unique id");
  return init("ncclCommInitRankScalable", comm, ranks, id[0], rank, config);
}
PENSTOCK_NCCL(Result, ncclCommInitAll, (Comm * comms, int devices, const int* list)) {
  return guarded("ncclCommInitAll", [&] {
    if (comms == nullptr || devices < 1)
      return failed(invalid_argument, fmt::format("ncclCommInitAll: {} devices", devices));
    if (const Result checked = check_gpus("ncclCommInitAll", devices, list); checked != success)
      return checked;
    // Held until all communicators have theirs: a context that nobody holds is destroyed.
    std::vector<std::unique_ptr<OnGpu>> held;
    UniqueId id;
    if (const Result invited = invite(id); invited != success) return invited;
    start_group();
    for (int rank = 0; rank < devices; ++rank) {
      held.push_back(std::make_unique<OnGpu>(list != nullptr ? list[rank] : rank));
      (void)init("ncclCommInitAll", comms + rank, devices, id, rank, nullptr);
    }
    const Result ended = end_group("ncclCommInitAll");
    while (!held.empty()) held.pop_back();  // the last that became current first
    return ended;
  });
}

PENSTOCK_NCCL(Result, ncclCommFinalize, (Comm comm)) {
  return with_comm("ncclCommFinalize", comm, comm,
                   [](ncclComm& c) { return c.begin([&c] { return c.finish(); }, true); });
}
PENSTOCK_NCCL(Result, ncclCommDestroy, (Comm comm)) {
  if (comm == nullptr) return success;
  return with_handle("ncclCommDestroy", comm, [](ncclComm& c) {
    // This would wait for a rank that may never arrive; only ncclCommAbort can end that wait.
    if (!c.opened && c.error() == in_progress)
      return failed(invalid_argument,
                    "ncclCommDestroy: the communicator is not made yet: wait until "
                    "ncclCommGetAsyncError reports another state, or call ncclCommAbort");
    if (!destroy_after_group(&c)) (void)c.let_go();
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclCommAbort, (Comm comm)) {
  if (comm == nullptr) return success;
  return with_handle("ncclCommAbort", comm, [](ncclComm& c) {
    forget_in_group(&c);
    (void)c.let_go();
    c.abort_and_close();
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclCommRevoke, (Comm comm, int)) {
  return with_handle("ncclCommRevoke", comm, [](ncclComm& c) {
    c.revoke();
    return success;
  });
}

PENSTOCK_NCCL(Result, ncclCommSplit,
              (Comm comm, int color, int key, Comm* made, const Config* config)) {
  return with_comm("ncclCommSplit", comm, made, [&](ncclComm& c) {
    if (color < no_color)
      return failed(invalid_argument, fmt::format("ncclCommSplit: color {}", color));
    Wished wished{c.name, c.blocks};
    if (const Result read = read_config("ncclCommSplit", config, wished); read != success)
      return read;
    return derive(c, wished, color == no_color, made,
                  [&c, color, key, name = wished.name](ncclComm& child) {
                    return split(c, color, key, child, name);
                  });
  });
}
PENSTOCK_NCCL(Result, ncclCommShrink,
              (Comm comm, const int* excluded, int count, Comm* made, const Config* config,
               int flags)) {
  return with_comm("ncclCommShrink", comm, made, [&](ncclComm& c) {
    if (excluded == nullptr || count < 1)
      return failed(invalid_argument, "ncclCommShrink: no ranks to exclude");
    if (count >= c.ranks)
      return failed(invalid_argument, fmt::format("ncclCommShrink: {} ranks to exclude, of {}: at "
                                                  "least one must be left",
                                                  count, c.ranks));
    const std::vector<int> out(excluded, excluded + count);
    for (const int one : out)
      if (const Result checked = check_root("ncclCommShrink", c, one); checked != success)
        return checked;
    if (std::find(out.begin(), out.end(), c.rank) != out.end())
      return failed(invalid_usage, "ncclCommShrink: called by a rank that is excluded");
    if (flags != 0) {  // NCCL_SHRINK_ABORT
      c.revoke();
      c.tasks.start_anew();
    }
    Wished wished{c.name, c.blocks};
    if (const Result read = read_config("ncclCommShrink", config, wished); read != success)
      return read;
    return derive(c, wished, false, made, [&c, out, name = wished.name](ncclComm& child) {
      return shrink(c, out, child, name);
    });
  });
}

PENSTOCK_NCCL(Result, ncclCommCount, (Comm comm, int* count)) {
  return with_comm("ncclCommCount", comm, count, [&](ncclComm& c) {
    *count = c.ranks;
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclCommUserRank, (Comm comm, int* rank)) {
  return with_comm("ncclCommUserRank", comm, rank, [&](ncclComm& c) {
    *rank = c.rank;
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclCommCuDevice, (Comm comm, int* device)) {
  return with_comm("ncclCommCuDevice", comm, device, [&](ncclComm& c) {
    *device = c.device;
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclCommGetAsyncError, (Comm comm, Result* found)) {
  return with_handle("ncclCommGetAsyncError", comm, [&](ncclComm& c) {
    if (found == nullptr)
      return failed(invalid_argument, "ncclCommGetAsyncError: no place for the result");
    *found = c.error();
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclCommMemStats, (Comm comm, int, std::uint64_t* value)) {
  return with_comm("ncclCommMemStats", comm, value, [&](ncclComm&) {
    *value = 0;  // no GPU memory but scratch
    return success;
  });
}

PENSTOCK_NCCL(const char*, ncclGetErrorString, (Result result)) {
  constexpr std::array<const char*, 9> words{"no error",
                                             "unhandled cuda error",
                                             "unhandled system error",
                                             "internal error",
                                             "invalid argument",
                                             "invalid usage",
                                             "remote process exited or there was a network error",
                                             "in progress",
                                             "timeout"};
  const auto index = static_cast<std::size_t>(result);
  return index < words.size() ? words[index] : "unknown result code";
}
PENSTOCK_NCCL(const char*, ncclGetLastError, (Comm)) {
  return last_error().c_str();
}

PENSTOCK_NCCL(Result, ncclGroupStart, ()) {
  start_group();
  return success;
}
PENSTOCK_NCCL(Result, ncclGroupEnd, ()) {
  return guarded("ncclGroupEnd", [] { return end_group("ncclGroupEnd"); });
}
PENSTOCK_NCCL(Result, ncclGroupSimulateEnd, (void*)) {
  (void)drop_group();
  return failed(invalid_usage,
                "ncclGroupSimulateEnd: Penstock estimates no times; the group's calls are dropped");
}

PENSTOCK_NCCL(Result, ncclRedOpCreatePreMulSum,
              (int* operation, const void* scalar, int datatype, int residence, Comm comm)) {
  const char* const call = "ncclRedOpCreatePreMulSum";
  return with_comm(call, comm, operation, [&](ncclComm& c) {
    if (const Result checked = check_datatype(call, datatype); checked != success) return checked;
    if (scalar == nullptr || residence < scalar_on_device || residence > scalar_on_host)
      return failed(invalid_argument,
                    fmt::format("{}: scalar {}, residence {}", call, scalar, residence));
    if (c.other != nullptr)
      return c.library->passed_on(
          c.library->RedOpCreatePreMulSum(operation, scalar, datatype, residence, c.other), call,
          c.other);
    UserOperation made{.is_there = true, .datatype = datatype};
    if (residence == scalar_on_host || c.gpu == nullptr)
      made.factor = read_scalar(datatype, scalar);
    else
      made.factor_at = scalar;
    const std::lock_guard<std::mutex> guard(c.mutex);
    const auto free = std::find_if(c.operations.begin(), c.operations.end(),
                                   [](const UserOperation& one) { return !one.is_there; });
    *operation = first_user_op + static_cast<int>(free - c.operations.begin());
    if (free == c.operations.end())
      c.operations.push_back(made);
    else
      *free = made;
    return success;
  });
}
PENSTOCK_NCCL(Result, ncclRedOpDestroy, (int operation, Comm comm)) {
  return with_comm("ncclRedOpDestroy", comm, comm, [&](ncclComm& c) {
    if (c.other != nullptr)
      return c.library->passed_on(c.library->RedOpDestroy(operation, c.other), "ncclRedOpDestroy",
                                  c.other);
    const std::lock_guard<std::mutex> guard(c.mutex);
    const auto index = static_cast<std::size_t>(operation - first_user_op);
    if (operation < first_user_op || index >= c.operations.size() || !c.operations[index].is_there)
      return failed(invalid_argument, fmt::format("ncclRedOpDestroy: operation {}", operation));
    c.operations[index].is_there = false;
    return success;
  });
}

PENSTOCK_NCCL(Team, ncclTeamWorld, (Comm comm)) {
  return comm == nullptr ? Team{0, 0, 0} : Team{comm->ranks, comm->rank, 1};
}
/// Returns a team of one: no rank loads or stores another rank's memory.
PENSTOCK_NCCL(Team, ncclTeamLsa, (Comm)) {
  return {1, 0, 1};
}
PENSTOCK_NCCL(Team, ncclTeamRail, (Comm comm)) {
  return comm == nullptr ? Team{0, 0, 0} : Team{comm->ranks, comm->rank, 1};
}
PENSTOCK_NCCL(int, ncclTeamRankToWorld, (Comm comm, Team team, int rank)) {
  return comm == nullptr ? -1 : comm->rank + (rank - team.rank) * team.stride;
}

}  // namespace penstock::nccl
