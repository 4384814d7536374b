#include "offload/packet.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace penstock::offload {
namespace {

constexpr Place at{Place::Ring::submissions, 0x1234, 3, 70};
constexpr Place back{Place::Ring::completions, 0x1234, 3, 70};

Command some_command() {
  return {.operation = Operation::all_reduce,
          .reduction = 2,
          .datatype = 10,
          .communicator = 0x1234,
          .sequence = 99,
          .rank = 3,
          .ranks = 5,
          .root = 1,
          .last_chunk = true,
          .source = 0x40000,
          .elements = 1000,
          .chunk = 7};
}

Completion some_completion() {
  return {.operation = Operation::reduce_scatter,
          .status = Status::ok,
          .datatype = 11,
          .communicator = 0x1234,
          .sequence = 99,
          .rank = 3,
          .culprit = 2,
          .chunk = 7,
          .result = 0x80000,
          .elements = 12,
          .gather_ns = 5,
          .reduce_ns = 6};
}

Inlined some_bytes(std::uint8_t count) {
  Inlined inlined{.bytes = count};
  for (std::size_t i = 0; i < inline_bytes; ++i) inlined.data[i] = std::byte(i + 1);
  return inlined;
}

TEST(Packets, AreReadAsTheyWereSealed) {
  Command command = some_command();
  EXPECT_EQ(read_command(seal(command, at), at), command);
  command.source = command.elements = 0;
  command.operand = some_bytes(24);
  EXPECT_EQ(read_command(seal(command, at), at), command);
  Completion completion = some_completion();
  EXPECT_EQ(read_completion(seal(completion, back), back), completion);
  completion.result = completion.elements = completion.gather_ns = completion.reduce_ns = 0;
  completion.inlined = some_bytes(8);
  EXPECT_EQ(read_completion(seal(completion, back), back), completion);
}

/// The layout of the design page, which a device relies on.
TEST(Packets, HaveTheLayoutThatADeviceGoesBy) {
  const Packet packet = seal(some_command(), at);
  const auto word = [&](std::size_t offset, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, packet.bytes.data() + offset, bytes);
    return value;
  };
  EXPECT_EQ(std::memcmp(packet.bytes.data(), "PSOF", 4), 0);
  EXPECT_EQ(word(4, 1), protocol_version);
  EXPECT_EQ(word(5, 1), 2u);
  EXPECT_EQ(word(6, 1), 2u);
  EXPECT_EQ(word(7, 1), 10u);
  EXPECT_EQ(word(8, 4), 0x1234u);
  EXPECT_EQ(word(12, 4), 99u);
  EXPECT_EQ(word(16, 2), 3u);
  EXPECT_EQ(word(18, 2), 5u);
  EXPECT_EQ(word(20, 2), 1u);
  EXPECT_EQ(word(24, 8), 0x40000u);
  EXPECT_EQ(word(40, 8), 1000u);
  EXPECT_EQ(word(48, 4), 7u);
  EXPECT_EQ(word(56, 8), std::uint64_t{2} << 32 | 99);  // the second lap
  EXPECT_EQ(std::memcmp(seal(some_completion(), back).bytes.data(), "PSRS", 4), 0);
}

TEST(Packets, HaveComeWithTheirLapOnly) {
  const Packet packet = seal(some_command(), at);
  EXPECT_TRUE(has_arrived(packet, at));
  Place next = at;
  next.index += ring_lines;
  EXPECT_FALSE(has_arrived(packet, next));
  EXPECT_FALSE(has_arrived(Packet{}, {Place::Ring::submissions, 0x1234, 3, 0}));
}

/// Any byte that changed after sealing is found, except in the valid word's lap, whose bytes say
/// that the packet has not arrived.
TEST(Packets, ThatAreDamagedAreRefused) {
  for (const bool command : {true, false}) {
    const Packet whole = command ? seal(some_command(), at) : seal(some_completion(), back);
    for (std::size_t byte = 0; byte < whole.bytes.size() - 4; ++byte) {
      Packet torn = whole;
      torn.bytes[byte] ^= std::byte{0x10};
      const bool taken =
          command ? read_command(torn, at).has_value() : read_completion(torn, back).has_value();
      EXPECT_FALSE(taken) << "byte " << byte;
    }
  }
}

TEST(Packets, OfAnotherPlaceAreRefused) {
  const Packet packet = seal(some_command(), at);
  for (const Place& other : {Place{Place::Ring::submissions, 0x1235, 3, 70},
                             Place{Place::Ring::submissions, 0x1234, 4, 70},
                             Place{Place::Ring::submissions, 0x1234, 3, 71},
                             Place{Place::Ring::completions, 0x1234, 3, 70}}) {
    const auto read = read_command(packet, other);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::wrong_format);
  }
}

/// The checks are right, the fields invalid.
TEST(Packets, ThatSayWhatCannotBeAreRefused) {
  Command of_unknown_rank = some_command();
  of_unknown_rank.rank = 5;
  EXPECT_FALSE(read_command(seal(of_unknown_rank, {at.ring, at.communicator, 5, at.index}),
                            {at.ring, at.communicator, 5, at.index}));
  Command rootless = some_command();
  rootless.root = 5;
  EXPECT_FALSE(read_command(seal(rootless, at), at));
  Command unknown = some_command();
  unknown.operation = static_cast<Operation>(77);
  EXPECT_FALSE(read_command(seal(unknown, at), at));
  Command long_operand = some_command();
  long_operand.operand = some_bytes(25);
  EXPECT_FALSE(read_command(seal(long_operand, at), at));
  Completion strange = some_completion();
  strange.status = static_cast<Status>(9);
  EXPECT_FALSE(read_completion(seal(strange, back), back));
  // A completion in the ring of submissions.
  EXPECT_FALSE(read_command(seal(some_completion(), at), at));
}

}  // namespace
}  // namespace penstock::offload
