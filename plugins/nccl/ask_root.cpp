// The client side of root.hpp.
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/format.hpp"
#include "base/wait.hpp"
#include "nccl/outcome.hpp"
#include "nccl/root.hpp"

namespace penstock::nccl {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes longest_for_late_root{10};
constexpr std::chrono::milliseconds between_attempts{100};
constexpr int max_breaks = 50;  // connections that a listening root may break

enum class Outcome { answered, unreachable, broken };

/// When this rank stops waiting.
struct Patience {
  Clock::time_point until;
  const std::atomic<bool>& aborted;
  bool is_over() const { return aborted || Clock::now() >= until; }
};

bool await(int socket, short events, const Patience& patience) {
  pollfd polled{socket, events, 0};
  while (!patience.is_over()) {
    const int found = poll(&polled, 1, static_cast<int>(between_attempts.count()));
    if (found != 0) return found > 0;
  }
  return false;
}

template <class Move>
bool move_all(int socket, short events, std::size_t bytes, const Patience& patience,
              const Move& move) {
  for (std::size_t done = 0; done < bytes;) {
    if (!await(socket, events, patience)) return false;
    const ssize_t moved = move(done);
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (moved > 0) done += static_cast<std::size_t>(moved);
  }
  return true;
}

/// Makes one connection: sends the question and receives the answer.
Outcome attempt(const Address& address, const Question& question, const Patience& patience,
                Answer& answer) {
  sockaddr_storage at;
  const socklen_t bytes = to_system(address, at);
  const base::UniqueFd socket(
      ::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return Outcome::broken;
  int error = 0;
  socklen_t error_bytes = sizeof error;
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&at), bytes) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!await(socket.get(), POLLOUT, patience)) return Outcome::unreachable;
    (void)getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &error_bytes);
  }
  if (error != 0) {
    errno = error;
    return Outcome::unreachable;
  }
  const auto* const from = reinterpret_cast<const char*>(&question);
  auto* const to = reinterpret_cast<char*>(&answer);
  const bool moved =
      move_all(socket.get(), POLLOUT, sizeof question, patience,
               [&](std::size_t done) {
                 return send(socket.get(), from + done, sizeof question - done, MSG_NOSIGNAL);
               }) &&
      move_all(socket.get(), POLLIN, sizeof answer, patience, [&](std::size_t done) {
        return recv(socket.get(), to + done, sizeof answer - done, 0);
      });
  return moved && answer.magic == Question::our_magic ? Outcome::answered : Outcome::broken;
}

}  // namespace

Result ask_root(const Address& address, const Question& question, bool may_start_later,
                const std::atomic<bool>& aborted, Answer& answer) {
  const Patience patience{
      Clock::now() + (may_start_later ? std::chrono::nanoseconds(longest_for_late_root)
                                      : std::chrono::nanoseconds(base::default_timeout_ns())),
      aborted};
  int breaks = 0;
  Outcome outcome = Outcome::unreachable;
  std::string why;
  do {
    errno = 0;
    outcome = attempt(address, question, patience, answer);
    why = errno != 0 ? std::strerror(errno) : "it does not answer";
    if (outcome == Outcome::answered) break;
    const bool in_vain = outcome == Outcome::unreachable ? true : ++breaks > max_breaks;
    if (in_vain && !may_start_later) break;
    std::this_thread::sleep_for(between_attempts);
  } while (!patience.is_over());
  if (aborted) return failed(internal_error, "the communicator was aborted");
  if (outcome != Outcome::answered)
    return failed(remote_error,
                  fmt::format("ncclCommInitRank: rank {} does not reach the process that called "
                              "ncclGetUniqueId at {}: {}; has it ended? If it has not, set "
                              "NCCL_SOCKET_IFNAME there to an interface that this host reaches, or "
                              "PENSTOCK_POOL everywhere to a pool that all ranks share",
                              question.rank, format_address(address), why));
  answer.spec[sizeof answer.spec - 1] = answer.words[sizeof answer.words - 1] = 0;
  if (answer.verdict == Answer::accepted) return success;
  return failed(invalid_usage, fmt::format("ncclCommInitRank: {}", answer.words));
}

}  // namespace penstock::nccl
