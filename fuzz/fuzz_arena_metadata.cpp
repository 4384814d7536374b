// The arena's own lines, in ordinary memory that ends where the pool ends: headers, moving line,
// journal, name table, extents. Each change gets the right checksum, or not.
#include <cstdlib>
#include <memory>
#include <vector>

#include "arena/formatting.hpp"
#include "arena/name_table.hpp"
#include "arena/space.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "fuzz/virtual_time.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::arena;

constexpr std::uint64_t pool_bytes = 256 << 10;
const Placement placement{0x1234'5678'9abc'def1, 4096, pool_bytes - 4096};
constexpr int objects = 20;

std::string name_of(std::uint64_t i) {
  return fmt::format("n{}", i);
}

/// A small arena with objects and gaps, and the places of its lines.
class Model {
 public:
  Model()
      : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, pool_bytes)), &std::free),
        region_(*coherence::bind(coherence::Mode::hardware), memory_.get()) {
    std::memset(memory_.get(), 0x5a, pool_bytes);
    std::memset(memory_.get(), 0, placement.arena_offset);
    const auto formatted = arena::format(region_, placement);
    need(formatted);
    formatted_ = *formatted;
    populate();
    const ExtentReader reader(region_, formatted_.geometry, formatted_.key);
    need(reader.for_each([&](const ExtentHeader& e) { extents_.push_back(e.offset); }));
    NameTable(region_, formatted_.geometry, formatted_.key).for_each([&](const TableEntry& entry) {
      slots_.push_back(entry.index);
    });
    good_.assign(memory_.get(), memory_.get() + pool_bytes);
  }

  void reset() { std::memcpy(memory_.get(), good_.data(), pool_bytes); }
  const Region& region() const { return region_; }
  const pool::FlushTable& flushes() const { return flushes_; }
  std::byte* base() const { return memory_.get(); }
  const Formatted& formatted() const { return formatted_; }
  const Geometry& geometry() const { return formatted_.geometry; }
  const std::vector<std::uint64_t>& extents() const { return extents_; }
  const std::vector<std::uint32_t>& slots() const { return slots_; }

 private:
  void populate() {
    const NameTable table(region_, formatted_.geometry, formatted_.key);
    auto space = Space::begin(region_, formatted_.geometry, formatted_.key, flushes_);
    need(space);
    for (std::uint64_t i = 0; i < objects; ++i) {
      SpaceRequest request;
      request.bytes = 1000;
      request.slot = *table.find(name_of(i)).first_free;
      const auto extent = space->allocate(request);
      need(extent);
      SlotEntry entry{};
      entry.offset = extent->offset + line_bytes;
      entry.bytes = 1000;
      entry.generation = extent->generation;
      table.put(request.slot, name_of(i), entry);
      if (i % 3 == 0) {
        table.remove(request.slot);
        space->free(*extent);
      }
    }
  }

  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
  Region region_;
  pool::FlushTable flushes_{*coherence::bind(coherence::Mode::hardware), memory_.get(), 0, 4};
  Formatted formatted_;
  std::vector<std::uint64_t> extents_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::byte> good_;
};

/// Overwrites words of a line with false values; the last word, which holds the checksum, last.
void lie(void* line, std::size_t bytes, Input& input) {
  auto* at = static_cast<std::byte*>(line);
  for (int changes = input.byte() & 3; changes >= 0; --changes) {
    const std::uint64_t value = input.lie(pool_bytes);
    if (input.flag()) {
      std::memcpy(at + 4 * input.below(bytes / 4), &value, 4);
    } else {
      std::memcpy(at + 8 * input.below(bytes / 8), &value, 8);
    }
  }
}

void forge_header(Model& model, Input& input) {
  const bool copy = input.flag(), checksummed = input.flag();
  std::byte* at = model.base() + placement.arena_offset + (copy ? line_bytes : 0);
  ArenaHeader header;
  std::memcpy(&header, at, sizeof header);
  lie(&header, sizeof header, input);
  if (checksummed) {
    header.magic = arena_magic ^ placement.pool_id;
    header.checksum = line_checksum(header, placement.pool_id);
  }
  std::memcpy(at, &header, sizeof header);
}

void forge_moving(Model& model, Input& input) {
  const bool checksummed = input.flag();
  std::byte* at = model.base() + model.geometry().moving_offset();
  Moving moving;
  std::memcpy(&moving, at, sizeof moving);
  lie(&moving, sizeof moving, input);
  if (checksummed) {
    moving.magic = moving_magic;
    moving.checksum = line_checksum(moving, model.formatted().key);
  }
  std::memcpy(at, &moving, sizeof moving);
}

/// At the place of an extent, or where there is none.
ExtentHeader forged_extent(Model& model, Input& input, bool checksummed) {
  const auto& places = model.extents();
  std::uint64_t at = places[input.below(places.size())];
  ExtentHeader header;
  std::memcpy(&header, model.base() + at, sizeof header);
  if (input.below(4) == 0) {
    const Geometry& g = model.geometry();
    at = g.extents_start +
         64 * (input.number<std::uint16_t>() % ((g.extents_end - g.extents_start) / 64));
    header.offset = at;
  }
  lie(&header, sizeof header, input);
  if (checksummed) {
    header.magic = extent_magic;
    header.offset = at;
    header.checksum = line_checksum(header, model.formatted().key);
  }
  return header;
}

void forge_extent(Model& model, Input& input) {
  const ExtentHeader header = forged_extent(model, input, input.below(4) != 0);
  if (!model.geometry().is_extent_place(header.offset)) return;
  std::memcpy(model.base() + header.offset, &header, sizeof header);
}

void forge_journal(Model& model, Input& input) {
  const bool checksummed = input.below(4) != 0;
  ExtentHeader image = forged_extent(model, input, checksummed);
  JournalTarget journal{};
  journal.magic = journal_magic;
  journal.target = input.flag() ? image.offset : input.lie(pool_bytes);
  unsigned char both[56 + 64];
  std::memcpy(both, &journal, 56);
  std::memcpy(both + 56, &image, 64);
  journal.checksum = hash_bytes(both, sizeof both, model.formatted().key);
  std::memcpy(model.base() + model.geometry().journal_offset(), &journal, sizeof journal);
  std::memcpy(model.base() + model.geometry().journal_image_offset(), &image, sizeof image);
}

void forge_slot(Model& model, Input& input) {
  const bool checksummed = input.below(4) != 0;
  const auto& taken = model.slots();
  const auto index =
      input.flag()
          ? taken[input.below(taken.size())]
          : static_cast<std::uint32_t>(input.number<std::uint16_t>() % model.geometry().slots);
  std::byte* at = model.base() + model.geometry().slot_offset(index);
  Slot slot;
  std::memcpy(&slot, at, sizeof slot);
  lie(&slot, sizeof slot, input);
  if (checksummed) {
    slot.entry.state = arena::SlotState::used;
    if (slot.name.length <= max_name_bytes) {
      slot.entry.hash = hash_bytes(slot.name.text, slot.name.length, model.formatted().key);
    }
    slot.entry.checksum = slot_checksum(slot, index, model.formatted().key);
  }
  std::memcpy(at, &slot, sizeof slot);
}

void use_space(Space& space, const NameTable& table, const Geometry& geometry, Input& input) {
  std::vector<ExtentHeader> used;
  const auto walked = space.for_each([&](const ExtentHeader& extent) {
    expect(extent.offset + extent.bytes <= pool_bytes && extent.offset % 64 == 0);
    if (extent.state == ExtentState::used) used.push_back(extent);
  });
  if (!walked) expect(is_told(walked.error()));
  for (std::uint64_t i = 0; i < 8; ++i) {
    SpaceRequest request;
    request.bytes = 1 + input.number<std::uint16_t>() % 5000;
    request.alignment = 64ull << input.below(10);
    const auto extent = space.allocate(request);
    if (!extent) {
      expect(is_told(extent.error()));
      continue;
    }
    expect(extent->offset >= geometry.extents_start);
    expect(extent->offset + extent->bytes <= pool_bytes);
    expect((extent->offset + line_bytes) % request.alignment == 0);
    if (input.flag()) space.free(*extent);
    const auto lookup = table.find(name_of(i));
    if (lookup.first_free) {
      table.put(*lookup.first_free, name_of(i), {.offset = extent->offset + 64, .bytes = 1});
    }
  }
  for (auto extent = used.rbegin(); extent != used.rend(); ++extent) space.free(*extent);
}

void use(Model& model, Input& input) {
  const auto formatted = read_format(model.region(), placement);
  if (!formatted) return expect(is_told(formatted.error()));
  if (!*formatted) return;
  const Geometry& geometry = (*formatted)->geometry;
  const std::uint64_t key = (*formatted)->key;
  const NameTable table(model.region(), geometry, key);
  table.for_each([&](const TableEntry& entry) {
    const SlotEntry& slot = entry.slot.entry;
    expect(slot.bytes <= pool_bytes && slot.offset <= pool_bytes - slot.bytes);
    expect(slot.offset >= geometry.extents_start + line_bytes);
    expect(entry.slot.name.length <= max_name_bytes);
    if (input.flag()) table.remove(entry.index);
  });
  auto space = Space::begin(model.region(), geometry, key, model.flushes());
  if (!space) return expect(is_told(space.error()));
  use_space(*space, table, geometry, input);
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fuzz;
  static Model model;
  restart_time();
  model.reset();
  Input input(data, size);
  for (auto forgeries = 1 + input.below(16); forgeries > 0; --forgeries) {
    switch (input.below(6)) {
      case 0:
        forge_header(model, input);
        break;
      case 1:
        forge_moving(model, input);
        break;
      case 2:
        forge_journal(model, input);
        break;
      case 3:
        forge_slot(model, input);
        break;
      default:
        forge_extent(model, input);
        break;
    }
  }
  use(model, input);
  return 0;
}
