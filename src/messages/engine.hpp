// The messages of one endpoint: matching, the bound on unexpected messages, announcements, answers,
// and what becomes of the messages of a peer that dies. Its users, the libfabric provider and the
// messenger, learn of completions by one interface. Order and memory: docs/protocols/channel.md,
// docs/decisions/0032.
#pragma once

#include <memory>
#include <string>

#include "messages/answers.hpp"
#include "messages/matcher.hpp"

namespace penstock::messages {

struct SendRequest {
  Header header;
  const iovec* iov = nullptr;  ///< the payload, unchanged until the send has ended
  std::uint32_t iov_count = 0;
  bool notify_delivered = false;  ///< the send ends only when the receiver has consumed it
  void* copy = nullptr;           ///< the payload's memory (malloc), which the engine frees
  void* context = nullptr;
  bool report = false;  ///< for the user
};

/// A send that has ended.
struct Sent {
  Header header;
  void* context = nullptr;
  bool report = false;
  bool copied = false;  ///< its payload was a copy: the user's call had ended before
};

/// The user of an engine.
class Completions : public MatchReports {
 public:
  virtual void on_sent(const Sent& sent) = 0;
  virtual void on_send_failed(const Sent& sent, const Error& error) = 0;
  virtual void on_send_cancelled(const Sent& sent) = 0;
  /// Receives fail since too many messages were kept before the one that they wait for.
  virtual Cause cause_of_flood(const std::string& why) = 0;
  struct Departure {
    Error error;         ///< of sends to the peer
    Cause cause;         ///< of receives from it
    bool may_have_sent;  ///< receives from any source may have waited for it, and fail too
  };
  /// The peer has died, or (`left`) closed in order. Called before its operations fail.
  virtual Departure on_peer_gone(Peer peer, const std::string& description, bool left) = 0;
  // ---- services of the user's own (kind_service), as in transport::EndpointCallbacks ----
  virtual ReceiveBuffer on_service(const Message&) { return {}; }
  virtual void on_service_sent(transport::SendOp*) {}
  virtual void on_service_failed(transport::SendOp*, const Error&) {}
};

/// Not thread-safe.
class Engine final : transport::EndpointCallbacks, MatchEvents, BackpressureOwner {
 public:
  struct Options {
    transport::Options endpoint;
    /// Longer messages are always announced.
    std::uint64_t announced_from = ~std::uint64_t{0};
    /// Not 0: sources are numbered (Matcher::number_sources).
    std::uint32_t sources = 0;
  };
  explicit Engine(Completions& completions)
      : completions_(completions), matcher_(completions, *this), back_pressure_(*this) {}
  ~Engine() override { close(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Errors: no_slots, no_space, invalid_argument (PENSTOCK_UNEXPECTED_BYTES).
  Result<void> open(arena::Arena& arena, const Options& options);
  /// Waits until the peers have received all messages, or Options::endpoint says otherwise.
  void close();

  /// Null unless it is open.
  transport::Endpoint* transport() const { return transport_.get(); }
  Matcher& matcher() { return matcher_; }
  const Matcher& matcher() const { return matcher_; }
  Answers& answers() { return answers_; }
  const Answers& answers() const { return answers_; }

  /// Returns true if a message has moved.
  bool progress() {
    unpolled_bytes_ = 0;
    const bool moved = transport_->progress() != 0;
    if (!moved) transport_->prepare(matcher_.posted());
    if (transport_->wants_report_of_waiting()) [[unlikely]]
      transport_->report_waiting(matcher_.pending_receives());
    if (answers_.owes()) [[unlikely]]
      answers_.try_again();
    return moved;
  }

  // ---- sends ----
  /// Call it before each send. Polls now and then while the program only sends, so that receivers'
  /// calls arrive.
  void prepare_send(Peer to, const Header& header) {
    if ((header.kind & kind_tagged) != 0) matcher_.sends_to(to, header.tag);
    unpolled_bytes_ += header.bytes + 1024;
    if (unpolled_bytes_ >= back_pressure_.poll_interval_bytes()) [[unlikely]]
      poll();
  }
  /// Sends a message of at most transport()->limits().inject_bytes at once. False: nothing was
  /// done, and send() takes the message.
  Result<bool> try_inject(Peer to, const Header& header, const void* payload) {
    if (back_pressure_.concerns(to, header)) [[unlikely]]
      return false;
    return transport_->try_inject(to, header, payload);
  }
  enum class Begun : std::uint8_t { sent, under_way, no_memory };
  /// Begins to send. `sent`: it has ended, and is not reported.
  Result<Begun> send(Peer to, const SendRequest& request);
  /// Whether `bytes` more may be copied for sends to `to`.
  Backpressure::Room may_copy(Peer to, std::uint64_t bytes) {
    return back_pressure_.may_copy(to, bytes + sizeof(Send));
  }
  /// Bytes of copies that have not left.
  std::uint64_t copied() const { return back_pressure_.copied(); }
  /// Sends the copies now that wait for a receive.
  void send_copies_now() { back_pressure_.send_copies_now(); }
  bool sends() const { return sends_ != nullptr; }

  // ---- receives ----
  /// Posts a receive. `from`: the peer that it names; any_source if there is none, or it is not
  /// known. Returns 0 or -ENOMEM.
  int post(const ReceiveRequest& request, Peer from) {
    if (!back_pressure_.holds() || !request.tagged) [[likely]]
      return matcher_.post(request);
    return post_and_ask(request, from);
  }
  /// Cancels a receive that has not matched, which fails with ECANCELED, or a send of which nothing
  /// has left. False: there is none, or it will end by itself.
  bool cancel(void* context);

 private:
  struct Send : AnnouncedSend {
    Send* before = nullptr;
    Send* after = nullptr;
    void* context = nullptr;
    void* copied = nullptr;
    bool report = false;
  };

  int post_and_ask(const ReceiveRequest& request, Peer from);
  void poll();
  Send* make_send(Peer to, const SendRequest& request);
  void link(Send* send);
  Sent end(AnnouncedSend* op);
  ReceiveBuffer serve(const Message& message);
  void lose(Peer peer, const std::string& description, bool left);

  // transport::EndpointCallbacks
  ReceiveBuffer on_message(const Message& message) override {
    if ((message.header.kind & kind_service) != 0) [[unlikely]]
      return serve(message);
    return matcher_.message(message);
  }
  void on_sent(transport::SendOp* op) override;  // and of BackpressureOwner
  void on_send_failed(transport::SendOp* op, const Error& error) override;
  void on_peer_dead(Peer peer, const std::string& description) override {
    lose(peer, description, false);
  }
  void on_peer_left(Peer peer, const std::string& description) override {
    lose(peer, description, true);
  }
  // MatchEvents
  void on_too_many(Peer from) override { back_pressure_.too_many(from); }
  void on_room() override { back_pressure_.room(); }
  void on_announced(Peer from, bool awaited) override { back_pressure_.announced(from, awaited); }
  void fetch(Peer from, std::uint64_t id, std::uint64_t token) override {
    back_pressure_.fetch(from, id, token);
  }
  void forget(Peer from, std::uint64_t id) override { back_pressure_.forget(from, id); }
  MatchReports::Cause on_probe_in_vain(Peer source) override;
  // BackpressureOwner
  void end_send(AnnouncedSend* op) override { completions_.on_sent(end(op)); }
  void fail_send(AnnouncedSend* op, const Error& error) override {
    completions_.on_send_failed(end(op), error);
  }
  void post_call(Peer to, const Header& header, const std::uint64_t* token) override;
  const Unexpected& kept() const override { return matcher_.unexpected(); }
  std::uint64_t announced_bytes() const override { return Matcher::announced_bytes(); }
  void set_room(std::uint64_t bytes) override { matcher_.set_room(bytes); }
  bool awaits(Peer peer) const override { return matcher_.awaits(peer); }
  void fail_awaiting(Peer peer, const std::string& why) override;

  Completions& completions_;
  Matcher matcher_;
  Answers answers_;
  Backpressure back_pressure_;
  FreeList<Send> send_pool_;
  Send* sends_ = nullptr;             ///< those that did not end within the call
  std::uint64_t unpolled_bytes_ = 0;  ///< bytes sent since the last progress
  std::unique_ptr<transport::Endpoint> transport_;
};

}  // namespace penstock::messages
