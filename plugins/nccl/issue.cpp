#include "nccl/issue.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "nccl/channel.hpp"
#include "nccl/communicator.hpp"
#include "nccl/export.hpp"
#include "nccl/outcome.hpp"
#include "nccl/pool_memory.hpp"

namespace penstock::nccl {

/// Those of one communicator. Once its call has left the communicator, as after an error, another
/// thread may close that (ncclComm::close), and the messages are gone.
class Issue {
 public:
  explicit Issue(const Messages& messages) : in_(*messages.comm) {
    if (messages.comm->aborted) {
      fail(was_aborted());
      return;
    }
    mail_ = messages.comm->mail.get();
    transfers_ = messages.transfers;
    std::erase_if(transfers_, [this](const Transfer& transfer) {
      return transfer.peer == mail_->self() || transfer.bytes == 0;
    });
    run([&] { return mail_->copy_own(messages.transfers); });
    if (is_over()) leave();
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
    turn_ = mail_->try_turn();
    return turn_.owns_lock();
  }
  /// Precedes give(), also that of other communicators: the driver may wait for streams here.
  void prepare() {
    run([this] { return make_channels(); });
  }
  /// Lets the streams follow those of the program, and gives them chunks, as long as they have
  /// room. True if any was given.
  bool give() {
    bool given = false, room = true;
    if (has_given_all()) return false;
    run([&] {
      const Result begun = begin(room);
      return begun == success && room ? give_chunks(given) : begun;
    });
    return given;
  }
  bool has_given_all() const {
    return is_over() || std::all_of(parts_.begin(), parts_.end(),
                                    [](const auto& part) { return part.second.empty(); });
  }
  /// Called when all communicators have given all, and so joined all streams of the program: those
  /// have to wait for messages then. False: a stream has no room yet.
  bool try_end() {
    bool room = true;
    run([&] { return end(room); });
    if (room) {
      transfers_.clear();
      leave();
    }
    return room;
  }
  /// Looks whether messages have failed meanwhile, or were aborted.
  void look() {
    if (is_over()) return;
    if (const auto words = mail_->error()) fail(failed(remote_error, *words));
  }

 private:
  template <typename Step>
  void run(const Step& step) {
    if (has_failed()) return;
    const gpu::Device& device = mail_->device();
    const gpu::Device::Scope scope(device);
    const gpu::BesideCaptures beside(device.driver());
    if (const Result done = guarded("a message", step); done != success) fail(done);
  }
  void fail(Result why) {
    result_ = why;
    words_ = last_error();
    if (turn_.owns_lock()) mail_->stop(words_);  // else none of the messages is announced
    leave();
  }
  void leave() {
    if (turn_.owns_lock()) turn_.unlock();
    in_.reset();
  }

  Result make_channels();
  void cut(const Transfer& transfer, Channel& channel);
  Result begin(bool& room);
  Result give_chunks(bool& given);
  Result give_some(Channel& channel, std::deque<ChannelChunk>& left);
  Result end(bool& room);

  std::optional<ncclComm::InCall> in_;
  PointToPoint* mail_ = nullptr;
  std::vector<Transfer> transfers_;  ///< to and from other ranks
  std::map<Channel*, std::deque<ChannelChunk>> parts_;
  /// Of the program, each with each of its channels.
  std::vector<std::pair<Channel*, Stream>> streams_;
  bool is_announced_ = false, is_begun_ = false;
  std::size_t begun_ = 0, ended_ = 0;  ///< of the streams
  std::unique_lock<std::mutex> turn_;
  Result result_ = success;
  std::string words_;
};

Result Issue::make_channels() {
  for (const Transfer& transfer : transfers_) {
    Channel* channel = nullptr;
    if (const Result made = mail_->prepare(transfer, channel); made != success) return made;
    streams_.emplace_back(channel, transfer.stream);
    cut(transfer, *channel);
  }
  std::sort(streams_.begin(), streams_.end());
  streams_.erase(std::unique(streams_.begin(), streams_.end()), streams_.end());
  return success;
}

void Issue::cut(const Transfer& transfer, Channel& channel) {
  std::deque<ChannelChunk>& chunks = parts_[&channel];
  std::byte* const in_pool = in_pool_memory(transfer.data, transfer.bytes);
  for (std::uint64_t at = 0; at < transfer.bytes; at += channel.chunk_bytes())
    chunks.push_back({.data = transfer.data + at,
                      .bytes = std::min(channel.chunk_bytes(), transfer.bytes - at),
                      .in_pool = in_pool == nullptr ? nullptr : in_pool + at});
}

Result Issue::begin(bool& room) {
  if (is_begun_) return success;
  if (!is_announced_)
    if (const Result announced = mail_->announce(parts_); announced != success) return announced;
  is_announced_ = true;
  for (; begun_ < streams_.size(); ++begun_) {
    const auto& [channel, stream] = streams_[begun_];
    if (const Result found = channel->has_room(room); found != success || !room) return found;
    if (const Result begun = channel->begin_after(stream); begun != success) return begun;
  }
  for (const auto& [channel, chunks] : parts_)
    if (const Result told = channel->reach(chunks.size()); told != success) return told;
  is_begun_ = true;
  return success;
}

Result Issue::give_chunks(bool& given) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [channel, left] : parts_) {
      if (left.empty()) continue;
      const std::size_t before = left.size();
      if (const Result gave = give_some(*channel, left); gave != success) return gave;
      if (left.size() != before) given = moved = true;
    }
  }
  return success;
}

/// Gives the channel's stream a chunk, or all that are left if it has room for one launch alone.
Result Issue::give_some(Channel& channel, std::deque<ChannelChunk>& left) {
  bool room = false;
  if (const Result found = channel.has_room_for_chunk(room); found != success) return found;
  if (!room) {
    const Result found = channel.has_room(room);
    return found == success && room ? channel.launch(left) : found;
  }
  const Result result = channel.enqueue(left.front());
  left.pop_front();
  return result;
}

Result Issue::end(bool& room) {
  for (; ended_ < streams_.size(); ++ended_) {
    const auto& [channel, stream] = streams_[ended_];
    if (const Result found = channel->has_room(room); found != success || !room) return found;
    if (const Result ended = channel->end_before(stream); ended != success) return ended;
  }
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
  const auto has_given_all = [](const Issue& issue) { return issue.has_given_all(); };
  while (!std::all_of(issues.begin(), issues.end(), has_given_all)) {
    bool given = false;
    for (Issue& issue : issues) given |= issue.give();
    if (!given) pause(issues);
  }
  await_each(issues, &Issue::try_end);
  for (const Issue& issue : issues)
    if (issue.has_failed()) return issue.result();
  return success;
}

}  // namespace penstock::nccl
