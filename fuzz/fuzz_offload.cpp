// Packets that ranks and foreign processes put into the rings, and the description of a region,
// read by a switch, a leaf and a spine; and a switch's answers, read as completions. Packets have
// right checks or not, of any rank, with any sizes and offsets.
#include <array>
#include <cstring>
#include <vector>

#include "accelerator/served.hpp"
#include "fuzz/frozen_arena.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::offload;

constexpr std::uint32_t ranks = 3, leaves = 2;

struct World : FrozenArena {
  explicit World(coherence::Mode mode) : FrozenArena(mode) {
    for (const std::uint32_t of : {0u, leaves}) {
      const Shape shape{.ranks = ranks,
                        .leaves = of,
                        .slot_bytes = 512,
                        .communicator = 0x77,
                        .owner = frozen.pool().token()};
      const auto object = make(of == 0 ? "flat" : "tree", Region(0, shape).bytes());
      regions.emplace_back(object.offset, shape);
      describe(frozen.pool(), regions.back());
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        publish_member(frozen.pool(), regions.back(), regions.back().member_line(rank),
                       {.token = frozen.pool().token(), .leaf = of == 0 ? 0 : rank % of});
    }
    frozen.freeze();
  }
  std::vector<Region> regions;
};

/// A valid command in which some fields are then falsified.
Command draw_command(const World& world, const Region& region, std::uint32_t ring,
                     std::uint64_t index, Input& input) {
  const bool of_leaf = ring >= ranks;
  Command command{.operation = static_cast<Operation>(1 + input.below(7)),
                  .reduction = static_cast<std::uint8_t>(input.below(14)),
                  .datatype = static_cast<std::uint8_t>(input.below(17)),
                  .communicator = region.shape().communicator,
                  .rank = static_cast<std::uint16_t>(ring),
                  .ranks = static_cast<std::uint16_t>(of_leaf ? region.rings() : ranks),
                  .source = region.source(ring, index),
                  .elements = input.below(64)};
  const std::uint64_t pool_bytes = world.frozen.bytes();
  switch (input.below(12)) {
    case 0:
      command.source = input.lie(pool_bytes);
      break;
    case 1:
      command.elements = input.lie(512);
      break;
    case 2:
      command.root = static_cast<std::uint16_t>(input.lie(ranks));
      break;
    case 3:
      command.rank = static_cast<std::uint16_t>(input.lie(ranks));
      break;
    case 4:
      command.ranks = static_cast<std::uint16_t>(input.lie(ranks));
      break;
    case 5:
      command.operand.bytes = static_cast<std::uint8_t>(input.below(26));
      break;
    case 6:
      command.partial = true;
      break;
    case 7:
      command.chunk = input.number<std::uint32_t>();
      break;
    default:
      break;
  }
  return command;
}

void put(const World& world, std::uint64_t at, const Packet& packet) {
  std::memcpy(world.frozen.base() + at, &packet, sizeof packet);
}

/// All ranks mostly send the same command, so that the switch computes something.
void fill_rings(const World& world, const Region& region, std::uint64_t index, Input& input) {
  const bool leaves_send = region.shape().leaves != 0 && input.flag();
  const std::uint32_t begin = leaves_send ? ranks : 0;
  const std::uint32_t end = leaves_send ? region.rings() : ranks;
  Command same = draw_command(world, region, begin, index, input);
  for (std::uint32_t ring = begin; ring < end; ++ring) {
    if (input.below(8) == 0) {
      same = draw_command(world, region, ring, index, input);
    } else {
      same.rank = static_cast<std::uint16_t>(ring);
      same.source = region.source(ring, index);
    }
    Packet packet = seal(same, region.submission_place(ring, index));
    if (input.below(8) == 0) packet.bytes[input.below(64)] ^= static_cast<std::byte>(input.byte());
    put(world, region.submission(ring, index), packet);
  }
}

void serve_some(const World& world, Input& input) {
  const Region& region = world.regions[input.below(2)];
  const auto number = static_cast<std::uint32_t>(
      region.shape().leaves == 0 ? 0 : input.below(1 + region.shape().leaves));
  const auto served = accelerator::serve({.number = number, .leaves = region.shape().leaves},
                                         world.frozen.pool(), region, input.below(2));
  for (std::uint64_t index = 0; index < 3 && !input.empty(); ++index) {
    fill_rings(world, region, index, input);
    if (region.shape().leaves != 0 && input.flag()) {
      const std::uint32_t ring = ranks + (number == 0 ? 0 : number - 1);
      Completion completion{
          .operation = static_cast<Operation>(1 + input.below(6)),
          .status = static_cast<Status>(input.below(7)),
          .datatype = static_cast<std::uint8_t>(input.below(17)),
          .communicator = region.shape().communicator,
          .rank = static_cast<std::uint16_t>(ring),
          .culprit = input.number<std::uint16_t>(),
          .result = input.flag() ? region.result(0, index) : input.lie(world.frozen.bytes()),
          .elements = input.lie(512)};
      put(world, region.completion(ring, index),
          seal(completion, region.completion_place(ring, index)));
    }
    for (int looks = 0; looks < 70; ++looks) served->poll();
    served->check_ranks();
  }
  const auto counts = served->counts();
  expect(counts.traffic.result_bytes <= 3 * 2 * ranks * region.shape().slot_bytes);
}

void read_any(Input& input) {
  Packet packet;
  input.fill(packet.bytes.data(), packet.bytes.size());
  const Place place{input.flag() ? Place::Ring::submissions : Place::Ring::completions, 7, 1,
                    input.number<std::uint32_t>()};
  (void)has_arrived(packet, place);
  if (const auto read = read_command(packet, place); !read) expect(is_told(read.error()));
  if (const auto read = read_completion(packet, place); !read) expect(is_told(read.error()));
}

void find_described(const World& world, Input& input) {
  const Region& region = world.regions[0];
  const Shape shape{.ranks = static_cast<std::uint32_t>(input.lie(ranks)),
                    .leaves = static_cast<std::uint32_t>(input.lie(leaves)),
                    .window = static_cast<std::uint32_t>(input.lie(4)),
                    .slot_bytes = input.lie(512)};
  Region lie(region.offset(), shape);
  if (shape.ranks < 64 && shape.leaves < 64) describe(world.frozen.pool(), lie);
  const auto found = find_region(world.frozen.pool(),
                                 input.flag() ? region.offset() : input.lie(world.frozen.bytes()));
  if (!found) return expect(is_told(found.error()));
  expect(found->offset() + found->bytes() <= world.frozen.bytes());
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fuzz;
  Input input(data, size);
  World& world = fresh<World>(choose_mode(input));
  switch (input.below(4)) {
    case 0:
      read_any(input);
      break;
    case 1:
      find_described(world, input);
      break;
    default:
      serve_some(world, input);
  }
  return 0;
}
