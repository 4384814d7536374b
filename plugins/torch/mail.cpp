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

/// What a rank tells the others of itself, in the store.
struct Place {
  penstock_address_t address;
  std::uint64_t token;
};

std::exception_ptr error_of(penstock_status_t status) {
  try {
    throw_last_error(status);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

Mail::Mail(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Attached> attached, int rank,
           const std::string& group, std::vector<std::uint64_t> tokens)
    : store_(std::move(store)),
      attached_(std::move(attached)),
      rank_(rank),
      group_("process group " + group),
      tokens_(std::move(tokens)),
      known_(tokens_.size()) {
  penstock_messenger_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = static_cast<std::uint32_t>(rank);
  options.ranks = static_cast<std::uint32_t>(tokens_.size());
  options.name = group_.c_str();
  const auto status = penstock_messenger_open(attached_->pool(), &options, &messenger_);
  if (status != PENSTOCK_OK) throw_last_error(status);
  Place own{};
  penstock_messenger_address(messenger_, &own.address);
  penstock_pool_info_t info{};
  if (penstock_pool_info(attached_->pool(), &info) == PENSTOCK_OK) own.token = info.token;
  store_->set(key(rank), std::string(reinterpret_cast<const char*>(&own), sizeof own));
  thread_ = std::thread([this] { run(); });
}

Mail::~Mail() {
  stop(std::make_exception_ptr(
      C10_BUILD_ERROR(DistBackendError, "penstock: " + group_ + " was destroyed")));
  thread_.join();
  try {  // a store that outlives the group must not tell the next one of this address
    store_->deleteKey(key(rank_));
  } catch (...) {  // the store has gone
  }
  penstock_messenger_close(messenger_);
}

void Mail::post(Message message) {
  Entry entry;
  entry.dense = memory_of(message.tensor, message.is_send, at::kCPU);
  entry.until = std::chrono::steady_clock::now() + message.timeout;
  entry.message = std::move(message);
  std::exception_ptr error;
  auto work = entry.message.work;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    error = error_;
    if (error == nullptr) entries_.push_back(std::move(entry));
  }
  if (error != nullptr) return work->end(error);
  changed_.notify_all();
}

void Mail::stop(const std::exception_ptr& error) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (error_ == nullptr) error_ = error;
  stopped_ = true;
  changed_.notify_all();
}

/// True once the address of `peer` is known.
bool Mail::meet(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (known_[index]) return true;
  if (!store_->check({key(peer)})) return false;
  const std::string text = store_->get_to_str(key(peer));
  Place theirs{};
  TORCH_CHECK(text.size() == sizeof theirs, "penstock: rank ", peer, " of ", group_,
              " has another version of Penstock");
  std::memcpy(&theirs, text.data(), sizeof theirs);
  const auto status =
      penstock_messenger_meet(messenger_, static_cast<std::uint32_t>(peer), &theirs.address);
  if (status != PENSTOCK_OK) throw_last_error(status);
  tokens_[index] = theirs.token;
  return known_[index] = true;
}

void Mail::begin(Entry& entry) {
  const Message& message = entry.message;
  void* const data = entry.dense.data_ptr();
  const std::uint64_t bytes = entry.dense.nbytes();
  penstock_status_t status = PENSTOCK_OK;
  if (message.is_send) {
    if (!meet(message.peer)) return;
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
  message.work->set_source(static_cast<int>(info.source));
  if (info.bytes != entry.dense.nbytes())
    return std::make_exception_ptr(
        C10_BUILD_ERROR(DistBackendError, "penstock: rank " + std::to_string(info.source) + " of " +
                                              group_ + " sent " + std::to_string(info.bytes) +
                                              " bytes, and the receive is of " +
                                              std::to_string(entry.dense.nbytes())));
  if (!entry.dense.is_same(message.tensor)) message.tensor.detach().copy_(entry.dense);
  return nullptr;
}

std::exception_ptr Mail::late(const Entry& entry) const {
  const Message& message = entry.message;
  const std::string peer =
      message.peer == anybody ? "any rank" : "rank " + std::to_string(message.peer);
  return std::make_exception_ptr(C10_BUILD_ERROR(
      DistBackendError,
      std::string("penstock: ") + (message.is_send ? "a send to " : "a receive from ") + peer +
          " of " + group_ + " (tag " + std::to_string(message.tag) + ") has not ended within " +
          std::to_string(message.timeout.count()) + " ms"));
}

std::exception_ptr Mail::dead(const Entry& entry) {
  const int peer = entry.message.peer;
  if (peer == anybody || peer == rank_) return nullptr;
  if (tokens_[static_cast<std::size_t>(peer)] == 0) {
    try {
      (void)meet(peer);
    } catch (...) {  // the store's host has gone, or the peer cannot be met
      return std::current_exception();
    }
  }
  char who[256] = "";
  const std::uint64_t token = tokens_[static_cast<std::size_t>(peer)];
  if (token == 0 || penstock_pool_alive(attached_->pool(), token, who, sizeof who) != 0)
    return nullptr;
  // What it sent before may still have to be taken.
  if (penstock_messenger_progress(messenger_) != 0) return nullptr;
  return std::make_exception_ptr(C10_BUILD_ERROR(
      DistBackendError,
      std::string("penstock: ") + (entry.message.is_send ? "a send to" : "a receive from") +
          " rank " + std::to_string(peer) + " of " + group_ + ": " + who + " has died or left"));
}

/// Under the lock. True if something has moved.
bool Mail::look() {
  bool moved = false;
  std::vector<std::pair<c10::intrusive_ptr<Work>, std::exception_ptr>> ended;
  const auto now = std::chrono::steady_clock::now();
  const bool checks = now > next_check_;
  if (checks) next_check_ = now + between_checks;
  std::vector<bool> held(
      tokens_.size());  // a later send does not overtake one that waits for its peer
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bool done = false;
    std::exception_ptr error;
    const Message& message = entry->message;
    try {
      if (entry->request == nullptr &&
          !(message.is_send && held[static_cast<std::size_t>(message.peer)]))
        begin(*entry);
      if (entry->request != nullptr)
        error = outcome_of(*entry, &done);
      else if (message.is_send)
        held[static_cast<std::size_t>(message.peer)] = true;
    } catch (...) {
      error = std::current_exception();
      done = true;
    }
    if (!done && checks) {
      const auto gone = dead(*entry);
      if (gone != nullptr) {
        if (error_ == nullptr) error_ = gone;
        stopped_ = true;
        break;
      }
    }
    if (!done && now > entry->until) {
      // Its buffer may still be written to: no other message is sent or received after this.
      if (error_ == nullptr) error_ = late(*entry);
      stopped_ = true;
      break;
    }
    if (!done) {
      ++entry;
      continue;
    }
    moved = true;
    ended.emplace_back(entry->message.work, error);
    penstock_request_free(entry->request);
    entry = entries_.erase(entry);
  }
  mutex_.unlock();
  for (auto& [work, error] : ended) work->end(error);
  ended.clear();
  mutex_.lock();
  return penstock_messenger_progress(messenger_) != 0 || moved;
}

void Mail::run() {
  pthread_setname_np(pthread_self(), "penstock-mail");
  std::unique_lock<std::mutex> lock(mutex_);
  int idle = 0;
  while (!stopped_) {
    changed_.wait(lock, [this] { return stopped_ || !entries_.empty(); });
    idle = look() ? 0 : idle + 1;
    lock.unlock();
    if (idle > looks_before_sleep)
      std::this_thread::sleep_for(sleep);
    else if (idle % 16 == 15)
      std::this_thread::yield();
    lock.lock();
  }
  // What is left never ends: the messenger goes first, and then nobody writes to the buffers.
  penstock_messenger_close(std::exchange(messenger_, nullptr));
  auto left = std::move(entries_);
  entries_.clear();
  const auto error = error_;
  lock.unlock();
  for (Entry& entry : left) {
    penstock_request_free(entry.request);
    entry.message.work->end(error);
  }
}

}  // namespace penstock::torch
