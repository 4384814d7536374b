#include "messages/answers.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/log.hpp"

namespace penstock::messages {

namespace {

constexpr std::uint64_t try_every_ns = 1'000'000;

}  // namespace

Answers::~Answers() {
  for (List<Answer>* answers : {&answering_, &waiting_})
    while (Answer* answer = answers->pop_front()) std::free(answer->heap);
}

void Answers::set_up(transport::Endpoint& transport,
                     std::function<std::uint32_t(const Error&)> code_of) {
  transport_ = &transport;
  code_of_ = std::move(code_of);
}

bool Answers::uses(const void* source) const {
  for (const List<Answer>* answers : {&answering_, &waiting_})
    for (const Answer* answer = answers->head(); answer != nullptr; answer = answer->next)
      if (answer->source == source) return true;
  return false;
}

Answers::Answer* Answers::make(const Header& header, const void* contents, std::uint64_t bytes) {
  Answer* answer = answers_.take();
  if (answer == nullptr) return nullptr;
  answer->header = header;
  answer->header.bytes = bytes;
  answer->source = nullptr;
  answer->heap = nullptr;
  std::byte* at = reinterpret_cast<std::byte*>(&answer->small);
  if (bytes > sizeof answer->small) {
    at = answer->heap = static_cast<std::byte*>(std::malloc(bytes));
    if (at == nullptr) {
      answers_.give(answer);
      return nullptr;
    }
  }
  if (contents != nullptr) std::memcpy(at, contents, bytes);
  answer->iov[0] = {at, bytes};
  answer->iov_count = 1;
  return answer;
}

void Answers::release(Answer* answer) {
  std::free(answer->heap);
  answers_.give(answer);
}

void Answers::post(Peer to, Answer* answer) {
  answer->to = to;
  answer->generation = transport_->sender_generation(to);
  answer->late_at_ns = 0;
  put(answer);
}

void Answers::put(Answer* answer) {
  auto sent = transport_->answer(answer->to, answer->generation, answer);
  if (!sent) return keep(answer, sent.error());
  if (*sent) return release(answer);
  answering_.push_back(answer);
}

/// Keeps an answer for a later try, unless the peer is gone. A living peer waits for it. After
/// PENSTOCK_TIMEOUT_MS it may get an error instead, which needs no room in the pool.
void Answers::keep(Answer* answer, const Error& error) {
  if (error.code == ErrorCode::peer_dead || error.code == ErrorCode::not_found ||
      error.code == ErrorCode::mismatch || error.code == ErrorCode::invalid_argument) {
    base::log(base::Level::debug, "no answer: {}", error.message);
    return release(answer);
  }
  const std::uint64_t now = base::now_ns();
  if (answer->late_at_ns == 0) {
    answer->late_at_ns = now + 1'000'000 * base::env_number("PENSTOCK_TIMEOUT_MS").value_or(60'000);
    base::log(base::Level::warn, "an answer to a peer waits: {}", error.message);
  }
  if (now < answer->late_at_ns || !code_of_) return waiting_.push_back(answer);
  base::log(base::Level::error, "a peer gets no answer: {}", error.message);
  transport_->send_error(answer->to, code_of_(error));
  release(answer);
}

void Answers::send_failed(transport::SendOp* op, const Error& error) {
  auto* answer = static_cast<Answer*>(op);
  answering_.remove(answer);
  keep(answer, error);
}

/// Sends waiting answers again. Tries are spaced out, since each may take the pool's lock.
void Answers::try_again() {
  const std::uint64_t now = base::now_ns();
  if (now < next_try_ns_) return;
  next_try_ns_ = now + try_every_ns;
  List<Answer> tried;
  std::swap(tried, waiting_);
  while (Answer* answer = tried.pop_front()) put(answer);
}

void Answers::sent(transport::SendOp* op) {
  auto* answer = static_cast<Answer*>(op);
  answering_.remove(answer);
  release(answer);
}

}  // namespace penstock::messages
