// A pool whose superblock is right and whose tables hold arbitrary bytes: nodes, attaching
// processes, processes, leases, names, locks. Lines have the checksums that their owners would give
// them, or not.
#include <cctype>
#include <cstring>
#include <set>

#include "base/format.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "fuzz/pool_in_memory.hpp"
#include "fuzz/virtual_time.hpp"
#include "pool/attach_as.hpp"
#include "pool/attaching.hpp"
#include "pool/checksummed_line.hpp"
#include "pool/members.hpp"
#include "pool/occupancy.hpp"
#include "pool/reclaim.hpp"
#include "sync/lock_line.hpp"

namespace penstock::fuzz {
namespace {

using device::Superblock;

/// A process of another host that ended long ago and has left lines in every table.
pool::Caller stranger() {
  pool::Caller caller{.host = {.host = "elsewhere"}, .process = {.pid = 4242, .start_time = 77}};
  caller.host.boot_id.fill(9);
  caller.host.machine_id.fill(8);
  caller.process.scope = 5;
  caller.process.program = "gone";
  return caller;
}

pool::Caller myself() {
  auto host = pool::this_host();
  auto process = pool::this_process();
  need(host);
  need(process);
  host->machine_id.fill(8);  // a clone of that process's machine
  return {*host, *process};
}

std::unique_ptr<PoolInMemory> make(coherence::Mode mode) {
  auto made = std::make_unique<PoolInMemory>(PoolShape{.mode = mode, .max_processes = 5});
  need(pool::attach_as({.spec = made->spec(), .rank = 1, .job = "old"}, stranger()));
  made->keep();
  return made;
}

const PoolInMemory& pool_of(bool software) {
  static const auto hardware_pool = make(coherence::Mode::hardware);
  static const auto software_pool = make(coherence::Mode::software);
  return software ? *software_pool : *hardware_pool;
}

struct Table {
  std::uint64_t offset, lines;
};

Table table(const Superblock& s, std::uint64_t which) {
  const std::uint64_t names = pool::names_of(s.max_nodes);
  switch (which) {
    case 0:
      return {s.states_offset, s.max_processes};
    case 1:
      return {s.nodes_offset, s.max_nodes};
    case 2:
      return {s.attaching_offset, s.max_nodes + names};
    case 3:
      return {s.leases_offset, s.max_processes};
    case 4:
      return {s.details_offset, 4ull * s.max_processes};
    case 5:
      return {s.stats_offset, s.max_processes};
    case 6:
      return {s.activities_offset, 3ull * s.max_processes};
    case 7:
      return {s.lock_offset, s.max_nodes};
    case 8:
      return {s.registration_offset, names};
    case 9:
      return {s.renaming_offset, 2 * names};
    case 10:
      return {s.places_offset, pool::place_lines_of(s.max_nodes)};
    case 11:
      return {s.homes_offset, s.max_nodes};
    default:
      return {s.blocks_offset, 2ull + pool::blocks_of(s.max_processes, s.max_nodes)};
  }
}

void checksum(std::byte* line, std::uint64_t place, bool of_lock) {
  std::uint64_t value = pool::line_checksum(line, place);
  if (of_lock) {
    sync::LockLine lock;
    std::memcpy(&lock, line, sizeof lock);
    value = sync::lock_checksum(lock);
  }
  std::memcpy(line + 56, &value, 8);
}

/// Makes a slot claim to be this very process, with a generation of its own.
void impersonate(const PoolInMemory& pool, const pool::Caller& self, Input& input) {
  const Superblock& s = pool.superblock();
  const std::uint64_t slot = input.below(s.max_processes);
  const std::uint64_t generation = input.lie(1ull << 47);
  pool::StateLine state{.generation = generation,
                        .state = 1 + static_cast<std::uint32_t>(input.below(4)),
                        .node = static_cast<std::uint32_t>(input.below(4)),
                        .pid = static_cast<std::uint32_t>(self.process.pid),
                        .file = pool.pool_file(),
                        .start_time = self.process.start_time,
                        .scope = self.process.scope};
  pool::OriginLine origin{.boot_id = self.host.boot_id};
  const std::uint64_t state_place = s.states_offset + slot * 64;
  const std::uint64_t origin_place = s.details_offset + slot * sizeof(pool::DetailLines);
  state.checksum = pool::line_checksum(&state, state_place);
  origin.checksum = pool::line_checksum(&origin, origin_place);
  std::memcpy(pool.base() + state_place, &state, 64);
  std::memcpy(pool.base() + origin_place, &origin, 64);
}

void write_line(const PoolInMemory& pool, Input& input) {
  const std::uint64_t which = input.below(13);
  const Table lines = table(pool.superblock(), which);
  const std::uint64_t place = lines.offset + 64 * input.below(lines.lines);
  std::byte* line = pool.base() + place;
  const std::uint8_t how = input.byte();
  for (int changes = how & 3; changes >= 0; --changes) {
    if ((how & 4) != 0) {
      const std::string_view bytes = input.text(56);
      std::memcpy(line, bytes.data(), bytes.size());
      break;
    }
    const std::uint64_t lie = input.lie(1ull << 16);
    std::memcpy(line + 4 * input.below(15), &lie, (how & 8) != 0 ? 4 : 8);
  }
  if ((how & 16) == 0) checksum(line, place, which == 7 || which == 8);
}

void check_text(const std::string& text, std::size_t most) {
  expect(text.size() <= most);
  for (const char c : text) expect(std::iscntrl(static_cast<unsigned char>(c)) == 0);
}

void look(pool::Pool& pool, Input& input) {
  std::set<std::uint32_t> slots;
  for (const pool::ProcessRecord& record : pool.members().processes()) {
    expect(record.slot < pool.info().max_processes && slots.insert(record.slot).second);
    check_text(record.host, 56);
    check_text(record.job, 112);
    check_text(record.program, 40);
    check_text(record.activity, 168);
    expect(!pool.describe(pool::make_token(record.generation, record.slot)).empty());
  }
  const std::uint64_t token = input.lie(1ull << 17);
  (void)pool.alive(token);
  expect(!pool.describe(token).empty());
  expect(pool.members().local_processes() <= pool.info().max_processes);
}

void join(const PoolInMemory& file, const pool::Caller& self, Input& input) {
  auto attached = pool::attach_as({.spec = file.spec(), .rank = 3, .job = "now"}, self);
  if (!attached) return expect(is_told(attached.error()));
  pool::Pool& pool = **attached;
  expect(pool.slot() < file.superblock().max_processes);
  expect(pool.node() < file.superblock().max_nodes && pool.token() != 0);
  expect(pool.alive(pool.token()));
  look(pool, input);
  const auto reaped = pool.reclaim().reap([](const std::set<std::uint64_t>& tokens) {
    for (const std::uint64_t token : tokens) expect(pool::slot_of(token) < 5);
  });
  if (!reaped) expect(is_told(reaped.error()));
  pool.publish_activity("looks");
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  static const pool::Caller self = myself();
  restart_time();
  Input input(data, size);
  const std::uint8_t what = input.byte();
  const PoolInMemory& file = pool_of((what & 1) != 0);
  file.restore();
  for (int lines = 0; lines < 24 && input.left() > 3; ++lines) {
    if (input.below(8) == 0) {
      impersonate(file, self, input);
    } else {
      write_line(file, input);
    }
  }
  if ((what & 6) == 0) {
    join(file, self, input);
  } else if ((what & 6) == 2) {
    const auto occupant = pool::living_occupant(file.spec());
    if (!occupant) expect(is_told(occupant.error()));
  } else {
    auto observer = pool::Pool::attach({.spec = file.spec(), .observer = true});
    need(observer);
    look(**observer, input);
  }
  return 0;
}
