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
  for (std::size_t rank = 0; rank < tokens_.size(); ++rank)
    penstock_messenger_expect(messenger_, static_cast<std::uint32_t>(rank), tokens_[rank]);
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

/// Gives the messenger the address of `peer`, once it is known. If it is bad, the sends to `peer`
/// fail.
void Mail::meet(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (known_[index]) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_lookup_[index]) return;
  const auto theirs = place_of(peer);
  next_lookup_[index] = now + between_lookups;
  if (theirs)
    known_[index] = penstock_messenger_meet(messenger_, static_cast<std::uint32_t>(peer),
                                            &theirs->address) == PENSTOCK_OK;
}

/// Names the process of `rank`, once it is known, so that its death ends messages.
void Mail::expect(int rank) {
  std::uint64_t& token = tokens_[static_cast<std::size_t>(rank)];
  if (token != 0 || rank == meeting_.rank()) return;
  token = meeting_.token(rank);
  if (token == 0) token = place_of(rank).value_or(Place{}).token;
  penstock_messenger_expect(messenger_, static_cast<std::uint32_t>(rank), token);
}

void Mail::begin(Entry& entry) {
  const Message& message = entry.message;
  void* const data = entry.dense.data_ptr();
  const std::uint64_t bytes = entry.dense.nbytes();
  penstock_status_t status = PENSTOCK_OK;
  if (message.is_send) {
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

/// Returns true if the message has ended. `error`: the reason or, if it has not ended, why no
/// message can progress any more.
bool Mail::advance(Entry& entry, std::exception_ptr& error) {
  bool done = false;
  try {
    const int peer = entry.message.peer;
    // First, for a send that has not begun may end alone if the store does not answer.
    if (entry.message.is_send) meet(peer);
    if (entry.request == nullptr) begin(entry);
    error = outcome_of(entry, &done);
    if (done) return true;
    const auto now = std::chrono::steady_clock::now();
    for (int rank = 0; now > next_check_ && rank < meeting_.size(); ++rank)
      if (peer == anybody || peer == rank) expect(rank);
    // A peer may still write to the buffer, so the messenger must be closed too.
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - entry.begun);
    if (waited > entry.message.timeout) error = late(entry);
  } catch (...) {  // also if the store's host is gone
    error = std::current_exception();
    return entry.request == nullptr || done;
  }
  return false;
}

/// Returns true if any message has progressed.
bool Mail::look() {
  std::vector<Ended> ended;
  std::exception_ptr fatal;
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
