// The origin side of one-sided operations. It copies directly if the target's memory lies in the
// pool. Otherwise, and for all atomics, it sends a request to the owner.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <vector>

#include "atomics.hpp"
#include "rma/rma.hpp"
#include "rma_wire.hpp"

namespace penstock::ofi {

struct Ep;
struct Cntr;

/// The arguments of fi_write, fi_read and their variants.
struct RmaCall {
  const iovec* iov = nullptr;
  std::size_t iov_count = 0;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  const fi_rma_iov* remote = nullptr;
  std::size_t remote_count = 0;
  std::uint64_t data = 0;
  std::uint64_t flags = 0;
  void* context = nullptr;
  bool report = true;  ///< report a completion, or an error
};

/// The arguments of fi_atomic and its variants.
struct AtomicCall {
  AtomicForm form = AtomicForm::write;
  fi_op op = FI_MIN;
  fi_datatype type = FI_INT8;
  const fi_ioc* operand = nullptr;
  std::size_t operand_count = 0;
  const fi_ioc* compare = nullptr;
  std::size_t compare_count = 0;
  const fi_ioc* result = nullptr;
  std::size_t result_count = 0;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  const fi_rma_ioc* remote = nullptr;
  std::size_t remote_count = 0;
  std::uint64_t flags = 0;
  void* context = nullptr;
  bool report = true;
};

class RmaOrigin {
 public:
  explicit RmaOrigin(Ep& ep) : ep_(ep) {}
  ~RmaOrigin();
  RmaOrigin(const RmaOrigin&) = delete;
  RmaOrigin& operator=(const RmaOrigin&) = delete;

  // ---- requests of the user; 0 or a negative FI_E... Completions report later failures ----
  ssize_t write(const RmaCall& call);
  ssize_t read(const RmaCall& call);
  ssize_t atomic(const AtomicCall& call);

  // ---- reports of the transport ----
  void sent(transport::SendOp* op);
  void send_failed(transport::SendOp* op, int error, int detail);
  void reply(Peer from, const Header& header, const void* payload);
  /// Returns the buffer for a long reply; none if no request waits for it.
  ReceiveBuffer begin_reply(Peer from, const Header& header);
  void refused(Peer from, const Header& header, int error);
  /// Fails operations that wait for an answer of this peer.
  void peer_dead(Peer peer, int error, int detail);
  bool awaits() const { return free_slots_.size() != posted_.size(); }
  /// Checks, at most every now and then, whether a peer has reported an error. To be called while
  /// answers are outstanding.
  void check_for_errors();
  /// Forgets the regions of a peer, because another peer has its number now.
  void forget(Peer peer) {
    if (peer < regions_.size()) regions_[peer].reset();
  }

 private:
  /// One call of the user.
  struct Operation {
    void* context;
    std::uint64_t flags;  ///< flags of its completion
    Cntr* counter;
    bool report;
    std::uint32_t parts;  ///< parts that have not ended yet
    int error, detail;    ///< of the first part that failed
  };
  /// One message of an operation.
  struct Part final : transport::SendOp, transport::Arrival {
    void arrived() override { origin->replied(this); }
    void failed(const Error& error) override;

    RmaOrigin* origin;
    Part* prev;
    Part* next;
    Operation* operation;
    Peer peer;
    std::uint32_t slot;   ///< index in posted_
    bool sent, answered;  ///< `answered`: or needs no answer
    iovec receive_buffer[transport::max_iov];
    std::uint32_t receive_buffer_count;
    std::uint64_t receive_buffer_bytes;
    std::uint64_t reply_bytes;
    int reply_error;
    void* copy;  ///< payload that we own, if longer than `small`
    alignas(8) std::byte small[64];
  };
  struct PostedReceive {
    Part* part = nullptr;
    std::uint32_t uses = 0;  ///< distinguishes a late answer to an earlier part
  };
  /// One range of local memory and one of the target's.
  struct Stretch {
    std::byte* local;
    std::uint64_t address, key, bytes;
  };

  rma::PeerRegions* regions_of(Peer peer, Error* error);
  Result<rma::Region> locate(Peer peer, const Stretch& stretch, rma::Access access);
  bool copied_at_once(Peer peer, const RmaCall& call, bool in);
  Result<void> copy(Peer peer, const Stretch& stretch, bool in);
  template <class Do>
  void each_stretch(const RmaCall& call, Do&& with);
  ssize_t run(const RmaCall& call, bool in);
  void begin_stretch(Operation* operation, Peer peer, const RmaCall& call, const Stretch& stretch,
                     bool in);
  void send_notice(Operation* operation, Peer peer, const RmaCall& call, bool in, bool direct);

  bool check(const AtomicCall& call, std::uint64_t* bytes) const;
  void begin_atomic(Operation* operation, Peer peer, const AtomicCall& call,
                    const fi_rma_ioc& remote, std::uint64_t from, const std::byte* operands,
                    const std::byte* compares);

  Operation* begin(std::uint64_t flags, void* context, bool report);
  void part_ended(Operation* operation, int error, int detail);
  void fail(Operation* operation, const Error& error);
  Part* make_part(Operation* operation, Peer peer, const Header& header);
  std::byte* payload(Part* part, std::uint64_t bytes);
  std::uint64_t await_answer(Part* part);
  Part* posted(Peer from, std::uint64_t id) const;
  void replied(Part* part);
  void answer(Part* part, int error, int detail);
  void post(Part* part, bool notify_delivered);
  void end(Part* part, int error, int detail);

  Ep& ep_;
  std::vector<std::unique_ptr<rma::PeerRegions>> regions_;  ///< indexed by Peer
  FreeList<Operation> operations_;
  FreeList<Part> parts_;
  List<Part> live_;
  std::vector<PostedReceive> posted_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t looks_ = 0;
};

}  // namespace penstock::ofi
