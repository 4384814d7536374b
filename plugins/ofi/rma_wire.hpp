// The provider's own messages, by which endpoints access memory that only its owner can reach. They
// keep their order among the other messages of the pair. messages/wire.hpp defines two more
// services.
//
//   service   tag          data             payload
//   write     address      key              the bytes
//   read      address      key              ReadRequest
//   atomic    address      key              AtomicRequest, operands, comparands
//   reply     request's id 0 or FI_E...     the bytes read, or the old values
//   report    0            completion data  WriteReport: a write or read of the sender has been
//   done refusal   address      key              FI_E... (8 bytes): a write or atomic was not done
#pragma once

#include <cstdint>

#include "messages/engine.hpp"

namespace penstock::ofi {

using messages::Answers;
using messages::FreeList;
using messages::Header;
using messages::kind_service;
using messages::kind_tagged;
using messages::List;
using messages::Matcher;
using messages::Peer;
using messages::Received;
using messages::ReceiveFailure;
using messages::ReceiveRequest;
using transport::Message;
using transport::ReceiveBuffer;

inline constexpr Peer any_peer = messages::any_source;

/// Bit of Header::kind: Header::data is the sender's completion data.
inline constexpr std::uint8_t kind_cq_data = messages::kind_of_user;

enum class Service : std::uint8_t { write, read, atomic, reply, report, refusal, hold, payload };

constexpr std::uint8_t kind_of(Service service) {
  return static_cast<std::uint8_t>(kind_service | static_cast<std::uint8_t>(service) << 3);
}
static_assert(kind_of(Service::hold) == messages::kind_hold);
static_assert(kind_of(Service::payload) == messages::kind_payload);
constexpr Service service_of(const Header& header) {
  return static_cast<Service>(header.kind >> 3);
}

struct ReadRequest {
  std::uint64_t id;
  std::uint64_t bytes;
};

struct AtomicRequest {
  std::uint64_t id;  ///< id of the reply; unused if there is none
  std::uint32_t count;
  std::uint8_t form, op, type, pad;
};
static_assert(sizeof(AtomicRequest) == 16);

struct WriteReport {
  std::uint64_t key, address, bytes;
  std::uint64_t flags;

  static constexpr std::uint64_t direct = 1;  ///< the owner took no part
  static constexpr std::uint64_t read = 2;
};
static_assert(sizeof(WriteReport) == 32);

}  // namespace penstock::ofi
