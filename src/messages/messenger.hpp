// Tagged messages between the ranks of a group, as sends and receives that complete by themselves:
// the base of PyTorch's send and recv, and of NCCL's Send and Recv. A thin layer that matches
// receives with the messages that src/transport delivers. Channel and memory ordering:
// docs/protocols/channel.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace penstock::messages {

inline constexpr std::uint32_t any_rank = ~std::uint32_t{0};

/// A send or a receive. Its owner keeps it, and its buffer, until it is done or was cancelled.
struct Request {
  bool done = false;
  /// Valid once done; peer_dead, invalid_argument (the message was longer).
  Result<void> result;
  /// Of a receive: the rank that it names; once it is done, the sender's.
  std::uint32_t source = 0;
  std::uint64_t bytes = 0;  ///< of a receive that is done: the message's length
};

/// One rank's side. Not thread-safe. Messages from one rank to another with one tag are received in
/// the order in which they were sent.
///
///     auto messenger = *Messenger::open(arena, {.self = 0, .ranks = 2});
///     messenger->meet(1, address_of_1);  // which rank 1 has from its address()
///     Request request;
///     messenger->send(1, 7, data, bytes, request);
///     while (!request.done) messenger->progress();
class Messenger {
 public:
  struct Options {
    std::uint32_t self = 0;
    std::uint32_t ranks = 1;
    std::string noun = "group";  ///< its name in messages
    /// Longer messages stay with their sender until they are received: none of them is unexpected.
    std::uint64_t longest_unasked = ~std::uint64_t{0};
  };
  /// Errors: no_slots, no_space.
  static Result<std::unique_ptr<Messenger>> open(arena::Arena& arena, Options options);
  ~Messenger();

  transport::Address address() const;
  /// Makes `rank` reachable: call it once. Sends to `rank` wait for it, and fail if it fails;
  /// receiving needs no address. Errors: invalid_argument, mismatch (another pool), not_found (it
  /// is closed).
  Result<void> meet(std::uint32_t rank, const transport::Address& address);
  bool knows(std::uint32_t rank) const;
  /// Names the process of `rank`. When it has ended, the requests fail that wait for `rank` alone,
  /// as those do of a rank that was met or has sent; when all others have, so do receives from any.
  /// Errors: invalid_argument.
  Result<void> expect(std::uint32_t rank, std::uint64_t token);

  /// Begins to send. `data` must stay unchanged until the request is done, which may be only when
  /// the message is received: the receiver keeps neither long messages nor many.
  void send(std::uint32_t to, std::uint64_t tag, const void* data, std::uint64_t bytes,
            Request& request);
  /// Begins to receive a message with `tag` from `from`, or from any_rank, of at most `bytes`.
  void receive(std::uint32_t from, std::uint64_t tag, void* data, std::uint64_t bytes,
               Request& request);
  /// Advances all requests. Returns true if anything has moved. A call while none is under way
  /// returns all credits to the peers, which may then close at once.
  bool progress();
  /// Cancels a receive that has not matched, or a send of which nothing has left. Returns false if
  /// the request will end by itself.
  bool cancel(Request& request);
  /// Whether a request is not done.
  bool busy() const;
  /// The most bytes so far of messages that no receive waited for. Beyond PENSTOCK_UNEXPECTED_BYTES
  /// messages stay with their senders, whose requests are done when the messages are received.
  std::uint64_t peak_unexpected_bytes() const;

  struct Impl;
  explicit Messenger(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::messages
