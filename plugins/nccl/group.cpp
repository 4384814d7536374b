#include "nccl/group.hpp"

#include <map>
#include <string>
#include <thread>
#include <utility>

#include "cuda/driver.hpp"
#include "nccl/communicator.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

/// What one communicator does in a group.
struct Calls {
  std::vector<std::function<Result()>> bodies;
  std::vector<Transfer> transfers;
};

struct Group {
  int depth = 0;
  std::map<Comm, Calls> calls;
  std::vector<std::function<Result()>> independent;
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

Result run_calls(Comm comm, const Calls& calls) {
  Result result = success;
  for (const auto& body : calls.bodies)
    if (const Result done = body(); result == success) result = done;
  if (result == success && !calls.transfers.empty()) result = comm->transfer(calls.transfers);
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
      results[i] = bodies[i]();
      if (results[i] != success) words[i] = last_error();
    });
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (results[i] != success) return failed(results[i], words[i]);
  return success;
}

}  // namespace

Result in_group(Comm comm, std::function<Result()> body) {
  if (group.depth == 0) return body();
  if (comm == nullptr)
    group.independent.push_back(std::move(body));
  else
    group.calls[comm].bodies.push_back(std::move(body));
  return success;
}

Result in_group(Comm comm, const Transfer& transfer) {
  if (group.depth == 0) return comm->transfer({transfer});
  group.calls[comm].transfers.push_back(transfer);
  return success;
}

void start_group() {
  ++group.depth;
}

Result end_group(const char* call) {
  if (group.depth == 0)
    return failed(invalid_usage, std::string(call) + " without an ncclGroupStart before it");
  if (--group.depth > 0) return success;
  const Group ended = std::exchange(group, {});
  std::vector<std::function<Result()>> bodies = ended.independent;
  for (const auto& [comm, calls] : ended.calls)
    bodies.emplace_back([comm = comm, &calls = calls] { return run_calls(comm, calls); });
  if (bodies.size() == 1) return bodies[0]();
  return run_side_by_side(bodies);
}

Result drop_group() {
  group = {};
  return success;
}

}  // namespace penstock::nccl
