#include "nccl/group.hpp"

#include <algorithm>
#include <exception>
#include <future>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/format.hpp"
#include "nccl/communicator.hpp"
#include "nccl/context_of.hpp"
#include "nccl/export.hpp"
#include "nccl/issue.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

/// The calls of one communicator in a group, which another thread may abort meanwhile.
struct Calls {
  Held comm;
  std::vector<std::function<Result()>> bodies;
  std::vector<Transfer> transfers;
  bool waits = false;     ///< one of the bodies waits for other ranks even with a GPU
  bool destroys = false;  ///< the communicator is destroyed after its calls
};

struct Group {
  int depth = 0;
  std::vector<Calls> calls;  ///< one per communicator, in the order of their first calls
  std::vector<std::function<Result()>> independent;
  Result refused = success;  ///< error of the first call that was refused; `words` is its message
  std::string words;

  Calls& of(Comm comm) {
    const auto there = std::find_if(calls.begin(), calls.end(),
                                    [comm](const Calls& one) { return one.comm.get() == comm; });
    if (there != calls.end()) return *there;
    calls.push_back({.comm = comm->shared_from_this()});
    return calls.back();
  }
};
thread_local Group group;

/// The body, in the GPU's context that is current now.
std::function<Result()> in_this_context(std::function<Result()> body) {
  return [context = ContextOf(), body = std::move(body)] {
    const ContextOf::Scope scope(context);
    return body();
  };
}

bool is_error(Result result) {
  return result != success && result != in_progress;
}

/// Combines the results of two calls: an error wins over in_progress, in_progress over success.
Result both(Result first, Result second) {
  return is_error(first) || second == success ? first : second;
}

/// Runs calls of the communicator, with their messages.
Result run_all(ncclComm& comm, const std::vector<std::function<Result()>>& bodies,
               const std::vector<Transfer>& transfers) {
  Result result = success;
  for (const auto& body : bodies) result = both(result, body());
  if (!is_error(result) && !transfers.empty()) result = both(result, comm.transfer(transfers));
  return result;
}

Result post(const Calls& calls) {
  const auto task = [&comm = *calls.comm, bodies = calls.bodies, transfers = calls.transfers] {
    return run_all(comm, bodies, transfers);
  };
  return calls.comm->begin(task, calls.waits);
}

/// Runs the calls. Messages that a GPU carries are moved to `messages`: they begin when the calls
/// of all communicators have.
Result run_calls(Calls& calls, Messages& messages) {
  if (calls.comm->posts(calls.waits)) return post(calls);
  if (calls.comm->gpu != nullptr && calls.comm->other == nullptr)
    messages = {calls.comm.get(), std::exchange(calls.transfers, {})};
  const auto run = [&calls] { return run_all(*calls.comm, calls.bodies, calls.transfers); };
  const Result result = calls.comm->begin(run, calls.waits);
  if (is_error(result)) messages = {};
  return result;
}

Result begin_messages(std::vector<Messages> all) {
  std::erase_if(all, [](const Messages& one) { return one.transfers.empty(); });
  return begin_together(all);
}

/// Begins the calls of communicators that do not block, and removes them from `all`.
Result post_calls(std::vector<Calls>& all) {
  Result result = success;
  std::erase_if(all, [&result](const Calls& calls) {
    if (!calls.comm->posts(calls.waits)) return false;
    result = both(result, post(calls));
    if (calls.destroys) (void)calls.comm->let_go();
    return true;
  });
  return result;
}

/// Starts a thread for each body, and then lets all run; none, if one of them cannot be started:
/// one body may wait for another. Returns when they have ended.
Result run_in_threads(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::promise<bool> all_are_there;
  const std::shared_future<bool> may_run = all_are_there.get_future();
  std::vector<std::thread> threads;
  std::string why;
  try {
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back([&body, may_run, i] {
        if (may_run.get()) body(i);
      });
  } catch (const std::exception& error) {
    why = error.what();
  }
  all_are_there.set_value(threads.size() == count);
  for (auto& thread : threads) thread.join();
  if (threads.size() == count) return success;
  return failed(system_error, fmt::format("ncclGroupEnd: {} threads can be started, and {} are "
                                          "needed, one for each communicator: {}",
                                          threads.size(), count, why));
}

/// Runs each body in a thread of its own. The first error's message becomes this thread's.
Result run_side_by_side(const std::vector<std::function<Result()>>& bodies) {
  std::vector<Result> results(bodies.size());
  std::vector<std::string> words(bodies.size());
  const Result started = run_in_threads(bodies.size(), [&](std::size_t i) {
    results[i] = guarded("ncclGroupEnd", bodies[i]);
    if (is_error(results[i])) words[i] = last_error();
  });
  if (started != success) return started;
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (is_error(results[i])) return failed(results[i], words[i]);
  return std::accumulate(results.begin(), results.end(), success, both);
}

/// True if this thread can begin the calls one by one: each communicator has a GPU and one rank
/// here, so no call waits for another rank. In threads, calls on a shared stream would be enqueued
/// in a random order that differs between ranks.
bool can_run_one_by_one(const Group& ended) {
  std::set<std::uint64_t> keys;
  return ended.independent.empty() &&
         std::all_of(ended.calls.begin(), ended.calls.end(), [&](const Calls& calls) {
           return calls.comm->gpu != nullptr && keys.insert(calls.comm->key).second;
         });
}

/// Runs the calls in order. Calls that another library carries form a group of that library too.
Result run_one_by_one(std::vector<Calls>& all) {
  const OtherLibrary* by = nullptr;
  for (const Calls& calls : all)
    if (calls.comm->other != nullptr && !calls.destroys) by = calls.comm->library;
  Result result =
      by != nullptr ? by->passed_on(by->GroupStart(), "ncclGroupStart", nullptr) : success;
  std::vector<Messages> messages(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    result = both(result, run_calls(all[i], messages[i]));
  if (by != nullptr) result = both(result, by->passed_on(by->GroupEnd(), "ncclGroupEnd", nullptr));
  return both(result, begin_messages(std::move(messages)));
}

Result run_all_at_once(Group& ended) {
  std::vector<std::function<Result()>> bodies = ended.independent;
  std::vector<Messages> messages(ended.calls.size());
  for (std::size_t i = 0; i < ended.calls.size(); ++i)
    bodies.emplace_back([&, i] { return run_calls(ended.calls[i], messages[i]); });
  const Result result = bodies.size() == 1 ? bodies[0]() : run_side_by_side(bodies);
  return both(result, begin_messages(std::move(messages)));
}

/// All ranks run the calls of communicators in the same order, whichever the program names first.
void sort(std::vector<Calls>& all) {
  std::sort(all.begin(), all.end(), [](const Calls& a, const Calls& b) {
    return std::pair(a.comm->key, a.comm->rank) < std::pair(b.comm->key, b.comm->rank);
  });
}

Result run_rest(Group& ended) {
  sort(ended.calls);
  const Result result =
      can_run_one_by_one(ended) ? run_one_by_one(ended.calls) : run_all_at_once(ended);
  for (const Calls& calls : ended.calls)
    if (calls.destroys) (void)calls.comm->let_go();
  return result;
}

}  // namespace

Result in_group(Comm comm, std::function<Result()> body, bool waits) {
  if (group.depth == 0) return comm == nullptr ? body() : comm->begin(std::move(body), waits);
  if (comm == nullptr) {
    group.independent.push_back(in_this_context(std::move(body)));
  } else {
    group.of(comm).bodies.push_back(in_this_context(std::move(body)));
    group.of(comm).waits |= waits;
  }
  return success;
}

Result in_group(Comm comm, const Transfer& transfer) {
  if (group.depth == 0) return comm->begin([comm, transfer] { return comm->transfer({transfer}); });
  group.of(comm).transfers.push_back(transfer);
  return success;
}

bool destroy_after_group(Comm comm) {
  const auto there = std::find_if(group.calls.begin(), group.calls.end(),
                                  [comm](const Calls& one) { return one.comm.get() == comm; });
  if (there == group.calls.end()) return false;
  there->destroys = true;
  return true;
}

void forget_in_group(Comm comm) {
  std::erase_if(group.calls, [comm](const Calls& one) { return one.comm.get() == comm; });
}

Result refused_in_group(Result refused) {
  if (group.depth != 0 && refused != success && group.refused == success) {
    group.refused = refused;
    group.words = last_error();
  }
  return refused;
}

void start_group() {
  ++group.depth;
}

Result end_group(const char* call) {
  if (group.depth == 0)
    return failed(invalid_usage, std::string(call) + " without an ncclGroupStart before it");
  if (--group.depth > 0) return success;
  Group ended = std::exchange(group, {});
  if (ended.refused != success)
    return failed(ended.refused,
                  fmt::format("{}: nothing of the group was started: {}", call, ended.words));
  const Result posted = post_calls(ended.calls);
  return both(posted, run_rest(ended));
}

Result drop_group() {
  group = {};
  return success;
}

}  // namespace penstock::nccl
