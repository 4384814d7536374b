#include "nccl/group.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/format.hpp"
#include "cuda/driver.hpp"
#include "nccl/communicator.hpp"
#include "nccl/export.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

/// What one communicator does in a group.
struct Calls {
  Comm comm = nullptr;
  std::vector<std::function<Result()>> bodies;
  std::vector<Transfer> transfers;
  bool destroys = false;  ///< in the end
};

struct Group {
  int depth = 0;
  std::vector<Calls> calls;  ///< by the first call of each
  std::vector<std::function<Result()>> independent;
  Result refused = success;  ///< the first of its calls that was refused, and why
  std::string words;

  Calls& of(Comm comm) {
    const auto there = std::find_if(calls.begin(), calls.end(),
                                    [comm](const Calls& one) { return one.comm == comm; });
    if (there != calls.end()) return *there;
    calls.push_back({.comm = comm});
    return calls.back();
  }
};
thread_local Group group;

/// In the thread of a communicator: the caller's context is this thread's meanwhile.
class ContextOf {
 public:
  ContextOf() {
    if (const auto driver = cuda::driver()) (void)(*driver)->context_current(&context_);
  }
  void enter() const {
    if (context_ != nullptr) (void)(*cuda::driver())->context_push(context_);
  }

 private:
  cuda::Context context_ = nullptr;
};

Result run_calls(const Calls& calls) {
  Result result = success;
  for (const auto& body : calls.bodies)
    if (const Result done = body(); result == success) result = done;
  if (result == success && !calls.transfers.empty()) result = calls.comm->transfer(calls.transfers);
  if (calls.destroys) delete calls.comm;
  return result;
}

/// Each body in a thread; the words of what fails become this thread's.
Result run_side_by_side(const std::vector<std::function<Result()>>& bodies) {
  const ContextOf context;
  std::vector<Result> results(bodies.size());
  std::vector<std::string> words(bodies.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < bodies.size(); ++i)
    threads.emplace_back([&, i] {
      context.enter();
      results[i] = guarded("ncclGroupEnd", bodies[i]);
      if (results[i] != success) words[i] = last_error();
    });
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (results[i] != success) return failed(results[i], words[i]);
  return success;
}

/// Communicators of GPUs, each with one rank here. Their calls do not wait for other ranks, and in
/// threads they would take their places on a stream that they share in an order of chance, which
/// other ranks do not have.
bool go_one_by_one(const Group& ended) {
  std::set<std::uint64_t> keys;
  return ended.independent.empty() &&
         std::all_of(ended.calls.begin(), ended.calls.end(), [&](const Calls& calls) {
           return calls.comm->gpu != nullptr && keys.insert(calls.comm->key).second;
         });
}

/// Another library's are a group of its own too.
Result run_one_by_one(const std::vector<Calls>& all) {
  const OtherLibrary* by = nullptr;
  for (const Calls& calls : all)
    if (calls.comm->other != nullptr && !calls.destroys) by = calls.comm->library;
  Result result =
      by != nullptr ? by->passed_on(by->GroupStart(), "ncclGroupStart", nullptr) : success;
  for (const Calls& calls : all)
    if (const Result done = run_calls(calls); result == success) result = done;
  if (by == nullptr) return result;
  const Result ended = by->passed_on(by->GroupEnd(), "ncclGroupEnd", nullptr);
  return result != success ? result : ended;
}

}  // namespace

Result in_group(Comm comm, std::function<Result()> body) {
  if (group.depth == 0) return body();
  if (comm == nullptr)
    group.independent.push_back(std::move(body));
  else
    group.of(comm).bodies.push_back(std::move(body));
  return success;
}

Result in_group(Comm comm, const Transfer& transfer) {
  if (group.depth == 0) return comm->transfer({transfer});
  group.of(comm).transfers.push_back(transfer);
  return success;
}

bool destroy_after_group(Comm comm) {
  const auto there = std::find_if(group.calls.begin(), group.calls.end(),
                                  [comm](const Calls& one) { return one.comm == comm; });
  if (there == group.calls.end()) return false;
  there->destroys = true;
  return true;
}

void forget_in_group(Comm comm) {
  std::erase_if(group.calls, [comm](const Calls& one) { return one.comm == comm; });
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
  const Group ended = std::exchange(group, {});
  if (ended.refused != success)
    return failed(ended.refused,
                  fmt::format("{}: nothing of the group was started: {}", call, ended.words));
  if (go_one_by_one(ended)) return run_one_by_one(ended.calls);
  std::vector<std::function<Result()>> bodies = ended.independent;
  for (const Calls& calls : ended.calls) bodies.emplace_back([&calls] { return run_calls(calls); });
  if (bodies.size() == 1) return bodies[0]();
  return run_side_by_side(bodies);
}

Result drop_group() {
  group = {};
  return success;
}

}  // namespace penstock::nccl
