// Tuning tables of collectives: as bytes from a pool, with their checksum or without, and as text.
#include <cstring>
#include <vector>

#include "base/checksum.hpp"
#include "coll/planning.hpp"
#include "coll/tuning.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"

namespace penstock::fuzz {
namespace {

/// Plans calls of all kinds.
void use(const coll::Tuning& tuning, std::uint64_t bytes) {
  const coll::PlanTable table(tuning);
  for (std::size_t i = 0; i < coll::collective_count; ++i) {
    coll::Problem problem{.collective = static_cast<coll::Collective>(i), .ranks = 5};
    for (const bool known : {false, true}) {
      if (known) problem.max_block_bytes = bytes;
      const coll::Plan plan = table.plan(problem, coll::Shape{});
      expect(plan.slot_bytes != 0 && plan.slot_bytes <= coll::Shape{}.slot_bytes);
    }
  }
}

void check_again(const coll::Tuning& tuning) {
  expect(coll::check(tuning).has_value());
  const auto bytes = coll::decode(coll::encode(tuning));
  expect(bytes && *bytes == tuning);
  const auto text = coll::parse_tuning(coll::print(tuning));
  expect(text && text->entries == tuning.entries);
}

void read_bytes(std::string_view input, bool is_signed) {
  constexpr std::size_t checksum_at = 16;
  const auto* const begin = reinterpret_cast<const std::byte*>(input.data());
  std::vector<std::byte> bytes(begin, begin + input.size());
  if (is_signed && bytes.size() >= coll::tuning_header_bytes) {
    const auto magic = coll::encode({});
    std::memcpy(bytes.data(), magic.data(), 8);
    std::memset(bytes.data() + checksum_at, 0, 8);
    std::uint64_t seed;
    std::memcpy(&seed, bytes.data(), 8);
    const std::uint64_t checksum = base::xxh64(bytes.data(), bytes.size(), seed);
    std::memcpy(bytes.data() + checksum_at, &checksum, 8);
  }
  const auto tuning = coll::decode(bytes);
  if (!tuning) return expect(is_told(tuning.error()));
  check_again(*tuning);
  use(*tuning, 70'000);
}

void read_text(std::string_view text) {
  const auto tuning = coll::parse_tuning(text);
  if (!tuning) return expect(is_told(tuning.error()));
  check_again(*tuning);
  use(*tuning, text.size());
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fuzz;
  if (size > 10'000) return -1;
  Input input(data, size);
  const auto kind = input.below(3);
  if (kind == 0) read_text(input.rest());
  if (kind != 0) read_bytes(input.rest(), kind == 1);
  return 0;
}
