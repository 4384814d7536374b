#include "mail.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensors.hpp"

namespace penstock::torch {

namespace {

constexpr int looks_before_sleep = 4000;
constexpr std::chrono::microseconds sleep{50};
constexpr std::chrono::milliseconds between_checks{50};
/// Messages that a peer had sent before it left may need several rounds of polling, some 200 ms in
/// all. Without any for this long there are none.
constexpr std::chrono::milliseconds drain_time{1000};
constexpr std::chrono::microseconds between_lookups{200};

std::exception_ptr error_of(penstock_status_t status) {
  try {
    throw_last_error(status);
  } catch (...) {
    return std::current_exception();
  }
}

std::exception_ptr error_of(const std::string& words) {
  return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, "penstock: " + words));
}

}  // namespace

Mail::Mail(Meeting meeting, std::function<std::shared_ptr<Attached>()> attach,
           const std::string& group, std::vector<std::uint64_t> tokens)
    : meeting_(std::move(meeting)),
      attach_(std::move(attach)),
      group_("process group " + group),
      tokens_(std::move(tokens)),
      known_(tokens_.size()),
      held_(tokens_.size()),
      next_lookup_(tokens_.size()) {}

std::shared_ptr<Mail> Mail::start(Meeting meeting,
                                  std::function<std::shared_ptr<Attached>()> attach,
                                  const std::string& group, std::vector<std::uint64_t> tokens) {
  const std::shared_ptr<Mail> mail(
      new Mail(std::move(meeting), std::move(attach), group, std::move(tokens)));
  mail->thread_ = std::thread([mail] { mail->run(); });
  return mail;
}

void Mail::end() {
  stop(error_of(group_ + " was destroyed"));
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

bool Mail::drain(std::chrono::milliseconds limit) {
  if (thread_.get_id() == std::this_thread::get_id()) return true;
  std::unique_lock<std::mutex> lock(mutex_);
  drains_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, limit, [this] { return rests_ || error_ != nullptr; });
}

void Mail::post(Message message) {
  Entry entry;
  entry.dense = memory_of(message.tensor, message.is_send, at::kCPU);
  entry.begun = std::chrono::steady_clock::now();
  entry.message = std::move(message);
  std::exception_ptr error;
  const auto outcome = entry.message.outcome;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    error = error_;
    if (error == nullptr) {
      posted_.push_back(std::move(entry));
      ++under_way_;
    }
  }
  if (error != nullptr) return outcome->end(error);
  changed_.notify_all();
}

void Mail::stop(const std::exception_ptr& error) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (error_ == nullptr) error_ = error;
  changed_.notify_all();
}

void Mail::open() {
  attached_ = attach_();
  penstock_messenger_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = static_cast<std::uint32_t>(meeting_.rank());
  options.ranks = static_cast<std::uint32_t>(meeting_.size());
  options.name = group_.c_str();
  const auto status = penstock_messenger_open(attached_->pool(), &options, &messenger_);
  if (status != PENSTOCK_OK) throw_last_error(status);
  Place own{};
  penstock_messenger_address(messenger_, &own.address);
  own.token = attached_->token();
  meeting_.publish("address", std::string(reinterpret_cast<const char*>(&own), sizeof own));
}

std::optional<Mail::Place> Mail::place_of(int rank) const {
  const std::string text = meeting_.published("address", rank);
  if (text.empty()) return std::nullopt;
  Place place{};
  TORCH_CHECK(text.size() == sizeof place, "penstock: rank ", rank, " of ", group_,
              " has another version of Penstock");
  std::memcpy(&place, text.data(), sizeof place);
  return place;
}

/// Returns true once the address of `peer` is known.
bool Mail::meet(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (known_[index]) return true;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_lookup_[index]) return false;
  next_lookup_[index] = now + between_lookups;
  const auto theirs = place_of(peer);
  if (!theirs) return false;
  tokens_[index] = theirs->token;
  const auto status =
      penstock_messenger_meet(messenger_, static_cast<std::uint32_t>(peer), &theirs->address);
  if (status != PENSTOCK_OK) throw_last_error(status);
  return known_[index] = true;
}

void Mail::begin(Entry& entry) {
  const Message& message = entry.message;
  void* const data = entry.dense.data_ptr();
  const std::uint64_t bytes = entry.dense.nbytes();
  penstock_status_t status = PENSTOCK_OK;
  if (message.is_send) {
    const auto index = static_cast<std::size_t>(message.peer);
    held_[index] = held_[index] || !meet(message.peer);
    if (held_[index]) return;
    status = penstock_message_send(messenger_, static_cast<std::uint32_t>(message.peer),
                                   message.tag, data, bytes, &entry.request);
  } else {
    const auto from =
        message.peer == anybody ? PENSTOCK_ANY_RANK : static_cast<std::uint32_t>(message.peer);
    status = penstock_message_receive(messenger_, from, message.tag, data, bytes, &entry.request);
  }
  if (status != PENSTOCK_OK) throw_last_error(status);
}

std::exception_ptr Mail::outcome_of(Entry& entry, bool* done) const {
  penstock_request_info_t info{};
  const auto status = penstock_request_test(entry.request, &info);
  *done = info.done != 0;
  if (!*done) return nullptr;
  if (status != PENSTOCK_OK) return error_of(status);
  Message& message = entry.message;
  if (message.is_send) return nullptr;
  message.outcome->set_source(static_cast<int>(info.source));
  if (info.bytes != entry.dense.nbytes())
    return error_of("rank " + std::to_string(info.source) + " of " + group_ + " sent " +
                    std::to_string(info.bytes) + " bytes, and the receive is of " +
                    std::to_string(entry.dense.nbytes()));
  if (!entry.dense.is_same(message.tensor)) message.tensor.detach().copy_(entry.dense);
  return nullptr;
}

std::exception_ptr Mail::late(const Entry& entry) const {
  const Message& message = entry.message;
  const std::string peer =
      message.peer == anybody ? "any rank" : "rank " + std::to_string(message.peer);
  return error_of((message.is_send ? "a send to " : "a receive from ") + peer + " of " + group_ +
                  " (tag " + std::to_string(message.tag) + ") has not ended within " +
                  std::to_string(message.timeout.count()) + " ms");
}

/// Whether the process of `rank` is known to have died or left.
bool Mail::is_gone(int rank, std::string* who) {
  std::uint64_t& token = tokens_[static_cast<std::size_t>(rank)];
  if (token == 0) token = meeting_.token(rank);
  if (token == 0) token = place_of(rank).value_or(Place{}).token;
  char words[256] = "";
  if (token == 0 || penstock_pool_alive(attached_->pool(), token, words, sizeof words) != 0)
    return false;
  *who = "rank " + std::to_string(rank) + " of " + group_ + ": " + words + " has died or left";
  return true;
}

/// Null if a peer that could complete the message is alive or may be alive.
std::exception_ptr Mail::dead(Entry& entry) {
  const int peer = entry.message.peer;
  if (peer == meeting_.rank() || meeting_.size() == 1) return nullptr;
  std::string who;
  try {
    if (peer != anybody && !is_gone(peer, &who)) return nullptr;
    for (int rank = 0; peer == anybody && rank < meeting_.size(); ++rank)
      if (rank != meeting_.rank() && !is_gone(rank, &who)) return nullptr;
  } catch (...) {  // the store's host is gone, or the peer cannot be met
    return std::current_exception();
  }
  // Messages of the dead peer may still be waiting in the pool.
  const auto now = std::chrono::steady_clock::now();
  if (penstock_messenger_progress(messenger_) != 0) moved_at_ = now;
  if (!entry.gone_since) entry.gone_since = now;
  if (now - std::max(*entry.gone_since, moved_at_) < drain_time) return nullptr;
  const std::string what = entry.message.is_send ? "a send to " : "a receive from ";
  return error_of(what + (peer == anybody ? "any rank, all others are gone: " : "") + who);
}

/// Returns true if the message has ended. `error`: the reason or, if it has not ended, why no
/// message can progress any more.
bool Mail::advance(Entry& entry, std::exception_ptr& error) {
  bool done = false;
  try {
    if (entry.request == nullptr) begin(entry);
    if (entry.request != nullptr) error = outcome_of(entry, &done);
  } catch (...) {
    error = std::current_exception();
    return true;
  }
  if (done) return true;
  const auto now = std::chrono::steady_clock::now();
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - entry.begun);
  if (now > next_check_) error = dead(entry);
  // A peer may still write to the buffer, so the messenger must be closed too.
  if (error == nullptr && waited > entry.message.timeout) error = late(entry);
  return false;
}

/// Returns true if any message has progressed.
bool Mail::look() {
  std::vector<Ended> ended;
  std::exception_ptr fatal;
  std::fill(held_.begin(), held_.end(), false);
  for (auto entry = entries_.begin(); entry != entries_.end() && fatal == nullptr;) {
    std::exception_ptr error;
    if (!advance(*entry, error)) {
      fatal = error;
      ++entry;
      continue;
    }
    penstock_request_free(std::exchange(entry->request, nullptr));
    ended.push_back({std::move(*entry), error});
    entry = entries_.erase(entry);
  }
  const auto now = std::chrono::steady_clock::now();
  if (now > next_check_) next_check_ = now + between_checks;
  // With no message in progress, this call returns all credits, so that peers may close right after
  // it.
  const bool moved = penstock_messenger_progress(messenger_) != 0 || !ended.empty();
  if (moved) moved_at_ = now;
  under_way_ -= ended.size();
  report(std::move(ended));
  if (fatal != nullptr) stop(fatal);
  return moved;
}

void Mail::report(std::vector<Ended> ended) {
  for (Ended& one : ended) {
    const auto outcome = one.entry.message.outcome;
    outcome->end_in_thread(one.error, std::move(one.entry));
  }
}

/// Whether a peer needs this rank for one of the messages.
bool Mail::has_to_end() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    penstock_request_info_t info{};
    if (!entry.message.is_send && entry.request != nullptr)
      penstock_request_test(entry.request, &info);
    return entry.message.is_send || entry.request == nullptr || info.bytes != 0;
  });
}

/// Takes the posted messages, and waits for one if there is nothing else to do. False: the thread
/// must end.
bool Mail::take() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    entries_.splice(entries_.end(), posted_);
    if (error_ != nullptr) return false;
    rests_ = drains_ && !has_to_end();
    if (rests_) changed_.notify_all();
    if (!entries_.empty()) return true;
    changed_.wait(lock,
                  [this] { return error_ != nullptr || !posted_.empty() || (drains_ && !rests_); });
  }
}

void Mail::run() {
  pthread_setname_np(pthread_self(), "penstock-mail");
  try {
    open();
  } catch (...) {
    stop(std::current_exception());
  }
  for (int idle = 0; take();) {
    idle = look() ? 0 : idle + 1;
    if (idle > looks_before_sleep)
      std::this_thread::sleep_for(sleep);
    else if (idle % 16 == 15)
      std::this_thread::yield();
  }
  // The remaining messages never complete. The messenger is closed first, so that no peer writes to
  // their buffers.
  penstock_messenger_close(std::exchange(messenger_, nullptr));
  std::vector<Ended> left;
  for (Entry& entry : entries_) {
    penstock_request_free(std::exchange(entry.request, nullptr));
    left.push_back({std::move(entry), error_});
  }
  entries_.clear();
  under_way_ = 0;
  report(std::move(left));
  attached_.reset();
}

}  // namespace penstock::torch
