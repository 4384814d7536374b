#include "nccl/issue.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "nccl/channel.hpp"
#include "nccl/communicator.hpp"
#include "nccl/outcome.hpp"
#include "nccl/pool_memory.hpp"

namespace penstock::nccl {

/// Those of one communicator. After an error it makes no access to the communicator, which another
/// thread may then abort and free.
class Issue {
 public:
  explicit Issue(const Messages& messages) : in_(*messages.comm), mail_(*messages.comm->mail) {
    transfers_ = messages.transfers;
    std::erase_if(transfers_, [this](const Transfer& transfer) {
      return transfer.peer == mail_.self_ || transfer.bytes == 0;
    });
    run(&Issue::copy_own, messages.transfers);
  }
  Issue(const Issue&) = delete;
  Issue& operator=(const Issue&) = delete;

  bool has_failed() const { return result_ != success; }
  Result result() const { return has_failed() ? failed(result_, words_) : success; }
  /// Nothing is left to do.
  bool is_over() const { return has_failed() || transfers_.empty(); }

  /// Waits for no thread; false: another thread begins messages of the communicator.
  bool try_turn() {
    if (is_over()) return true;
    turn_ = std::unique_lock(mail_.turn_, std::try_to_lock);
    return turn_.owns_lock();
  }
  /// Precedes begin(), also that of other communicators: the driver may wait for streams here.
  void prepare() { run(&Issue::make_channels); }
  /// False: a stream has no room yet.
  bool try_begin() {
    bool room = true;
    run(&Issue::find_room, room);
    if (!room) return false;
    run(&Issue::begin);
    return true;
  }
  /// Gives the streams chunks as long as they have room. True if any was given.
  bool give() {
    bool given = false;
    if (!has_given_all()) run(&Issue::give_chunks, given);
    return given;
  }
  bool has_given_all() const {
    return is_over() || std::all_of(parts_.begin(), parts_.end(),
                                    [](const auto& part) { return part.second.empty(); });
  }
  void end() {
    run(&Issue::end_streams);
    leave();
  }
  /// Looks whether messages have failed meanwhile, or were aborted.
  void look() {
    if (is_over()) return;
    if (const auto words = mail_.error()) fail(failed(remote_error, *words));
  }

 private:
  template <typename... Arguments>
  void run(Result (Issue::*step)(Arguments&...), Arguments&... arguments) {
    if (has_failed()) return;
    const gpu::Device::Scope scope(*mail_.device_);
    const gpu::BesideCaptures beside(mail_.device_->driver());
    if (const Result done = (this->*step)(arguments...); done != success) fail(done);
  }
  void fail(Result why) {
    result_ = why;
    words_ = last_error();
    if (turn_.owns_lock()) mail_.stop(words_);  // else none of the messages is announced
    leave();
  }
  void leave() {
    if (turn_.owns_lock()) turn_.unlock();
    in_.reset();
  }

  Result copy_own(const std::vector<Transfer>& transfers);
  Result make_channels();
  Result announce();
  Result find_room(bool& room);
  Result begin();
  Result give_chunks(bool& given);
  Result end_streams();

  std::optional<ncclComm::InCall> in_;
  PointToPoint& mail_;
  std::vector<Transfer> transfers_;  ///< to and from other ranks
  std::map<Channel*, std::deque<ChannelChunk>> parts_;
  std::set<std::pair<Channel*, Stream>> streams_;  ///< of the program, with each of their channels
  std::unique_lock<std::mutex> turn_;
  Result result_ = success;
  std::string words_;
};

Result Issue::copy_own(const std::vector<Transfer>& transfers) {
  if (const auto words = mail_.error()) return failed(remote_error, *words);
  const Result refused = mail_.refuse_capture(transfers);
  return refused != success ? refused : mail_.copy_within(transfers);
}

Result Issue::make_channels() {
  for (const Transfer& t : transfers_) {
    if (const Result made = mail_.prepare(t); made != success) return made;
    streams_.insert({&mail_.channel(t.peer, t.is_send), t.stream});
  }
  return success;
}

/// Cuts the transfers into chunks, which the thread that carries them expects from now on.
Result Issue::announce() {
  const std::lock_guard<std::mutex> guard(mail_.mutex_);
  if (mail_.error_) return failed(remote_error, *mail_.error_);
  for (const Transfer& t : transfers_) {
    Channel& there = mail_.channel(t.peer, t.is_send);
    std::byte* const in_pool = in_pool_memory(t.data, t.bytes);
    for (std::uint64_t at = 0; at < t.bytes; at += there.chunk_bytes()) {
      const std::uint64_t bytes = std::min(there.chunk_bytes(), t.bytes - at);
      const Channel::Chunk chunk{t.data + at, bytes, in_pool == nullptr ? nullptr : in_pool + at};
      parts_[&there].push_back(chunk);
      there.announce(chunk);
    }
  }
  return success;
}

Result Issue::find_room(bool& room) {
  for (const auto& [channel, stream] : streams_)
    if (const Result found = channel->has_room(room); found != success || !room) return found;
  return success;
}

Result Issue::begin() {
  if (const Result announced = announce(); announced != success) return announced;
  mail_.changed_.notify_all();
  for (const auto& [channel, stream] : streams_)
    if (const Result begun = channel->begin_after(stream); begun != success) return begun;
  for (const auto& [channel, chunks] : parts_)
    if (const Result told = channel->reach(chunks.size()); told != success) return told;
  return success;
}

Result Issue::give_chunks(bool& given) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [channel, left] : parts_) {
      bool room = false;
      if (left.empty()) continue;
      if (const Result found = channel->has_room(room); found != success) return found;
      if (!room) continue;
      if (const Result result = channel->enqueue(left.front()); result != success) return result;
      left.pop_front();
      given = moved = true;
    }
  }
  return success;
}

Result Issue::end_streams() {
  for (const auto& [channel, stream] : streams_)
    if (const Result ended = channel->end_before(stream); ended != success) return ended;
  return success;
}

namespace {

/// A wait of this thread, outside the driver. Errors end the communicators' own part in it.
void pause(std::deque<Issue>& issues) {
  constexpr std::chrono::microseconds sleep_time{50};
  for (Issue& issue : issues) issue.look();
  std::this_thread::sleep_for(sleep_time);
}

void await_each(std::deque<Issue>& issues, bool (Issue::*holds)()) {
  for (Issue& issue : issues)
    while (!issue.is_over() && !(issue.*holds)()) pause(issues);
}

}  // namespace

Result begin_together(const std::vector<Messages>& all) {
  std::deque<Issue> issues;
  for (const Messages& messages : all) issues.emplace_back(messages);
  await_each(issues, &Issue::try_turn);
  for (Issue& issue : issues) issue.prepare();
  // All streams of the program are joined before the first has to wait for a message.
  await_each(issues, &Issue::try_begin);
  const auto has_given_all = [](const Issue& issue) { return issue.has_given_all(); };
  while (!std::all_of(issues.begin(), issues.end(), has_given_all)) {
    bool given = false;
    for (Issue& issue : issues) given |= issue.give();
    if (!given) pause(issues);
  }
  for (Issue& issue : issues) issue.end();
  for (const Issue& issue : issues)
    if (issue.has_failed()) return issue.result();
  return success;
}

}  // namespace penstock::nccl
