#include "coll/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string>

#include "base/checked.hpp"
#include "base/checksum.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "coll/direct.hpp"
#include "coll/flagged_program.hpp"
#include "coll/layout.hpp"
#include "coll/planning.hpp"
#include "coll/slots.hpp"
#include "coll/switch_interface.hpp"
#include "coll/tuning_store.hpp"

namespace penstock::coll {

namespace {

const PlanOverride& plan_override() {
  static const PlanOverride taken = [] {
    auto parsed = parse_plan_override(base::env_text("PENSTOCK_COLL_PLAN"));
    if (parsed) return *parsed;
    base::log(base::Level::error, "PENSTOCK_COLL_PLAN is not used: {}", parsed.error().message);
    return PlanOverride{};
  }();
  return taken;
}

std::uint64_t plan_hash() {
  const std::string text = base::env_text("PENSTOCK_COLL_PLAN");
  return base::xxh64(text.data(), text.size(), 0);
}

bool wants_naive() {
  return plan_override().variant == Variant::naive;
}

Devices devices_of(const device::Striping& striping) {
  Devices devices{
      .count = striping.parts, .stripe_bytes = striping.stripe_bytes, .sequential = wants_naive()};
  const std::uint32_t most = plan_override().devices;
  if (most != 0) devices.count = std::min(devices.count, most);
  return devices;
}

Shape shape_of(const Offer& first, std::uint32_t ranks) {
  return {.slot_bytes = first.slot_bytes,
          .eager_bytes = first.eager_bytes,
          .devices = first.devices,
          .area_slots = first.area_slots,
          .sequential = wants_naive(),
          .direct = first.direct != 0,
          .flagged_bytes = first.direct != 0 ? flagged_bytes_for(ranks, first.flagged_bytes) : 0,
          .late_slots = first.late_slots != 0};
}

/// True if GPUs see the stores of hosts and of other GPUs, and calls need not be compared.
bool can_be_direct(const pool::Pool& pool, std::uint32_t ranks, const Agreement::Wishes& wishes) {
  const coherence::Mode mode = pool.info().mode;
  return wishes.direct != 0 && !wishes.check && ranks <= max_direct_ranks &&
         (mode == coherence::Mode::hardware || mode == coherence::Mode::uncached);
}

/// Options::flagged_bytes. A launch that waits would waste the time slices of a shared GPU.
std::uint64_t longest_flagged(const std::vector<Offer>& offers) {
  std::set<std::uint64_t> gpus;
  std::uint64_t longest = max_flagged_read;
  bool anyhow = true;
  for (const Offer& offer : offers) {
    gpus.insert(offer.gpu);
    longest = std::min<std::uint64_t>(longest, offer.flagged_bytes);
    anyhow = anyhow && offer.flagged_anyhow != 0;
  }
  return anyhow || gpus.size() == offers.size() ? longest : 0;
}

constexpr std::uint64_t hardware_eager_lines = 8;

/// Pool bytes from which the slot size is computed. A job has a communicator for each group of its
/// ranks, so each takes less the fuller the pool is.
std::uint64_t share_of(const arena::Arena& arena) {
  const arena::Stats stats = arena.stats();
  const std::uint64_t left = stats.bytes_total - std::min(stats.bytes_used, stats.bytes_total);
  return std::min(stats.bytes_total, 2 * left);
}

/// After the words follow one record for each area (the words' own first), then the tuning table.
std::uint64_t rest_begin(std::uint32_t ranks, const Shape& shape) {
  return Communicator::bytes(ranks, shape);
}
std::uint64_t records_of(std::uint32_t ranks, const Shape& shape) {
  return 1 + Communicator::slot_areas(ranks, shape).size();
}
std::uint64_t records_bytes(std::uint32_t ranks, const Shape& shape) {
  return records_of(ranks, shape) * sizeof(AreaRecord);
}

/// Reads the records and `bytes` after them. Empty if they do not lie in the pool.
std::vector<std::byte> read_rest(const pool::Pool& pool, const Offer& first, std::uint32_t ranks,
                                 std::uint64_t bytes) {
  const Shape shape = shape_of(first, ranks);
  const std::uint64_t begin = first.area + rest_begin(ranks, shape);
  std::vector<std::byte> rest(records_bytes(ranks, shape) + bytes);
  if (!base::range_inside(begin, rest.size(), pool.info().bytes)) return {};
  pool.memory().observe_bulk(rest.data(), pool.base() + begin, rest.size());
  return rest;
}

std::vector<AreaRecord> records_in(const std::vector<std::byte>& rest, std::uint64_t number) {
  std::vector<AreaRecord> records(rest.empty() ? 0 : number);
  std::memcpy(records.data(), rest.data(), records.size() * sizeof(AreaRecord));
  return records;
}

}  // namespace

Result<void> Agreement::offer(Space space, const Wishes& wishes) {
  space_.emplace(std::move(space));
  fixed_slots_ = wishes.slot_bytes != 0;
  const pool::Pool& pool = space_->arena.pool();
  own_.pool_id = pool.info().id;
  own_.token = pool.token();
  own_.node = pool.node();
  own_.plan = plan_hash();
  own_.check = wishes.check ? 1 : 0;
  own_.by_gpu = wishes.by_gpu ? 1 : 0;
  own_.gpu = wishes.gpu;
  own_.direct = can_be_direct(pool, ranks_, wishes) ? wishes.direct : 0;
  own_.knows_switches = switch_ != nullptr ? 1 : 0;
  own_.flagged_bytes = own_.direct != 0 ? wishes.flagged_bytes : 0;
  own_.flagged_anyhow = wishes.flagged_anyhow ? 1 : 0;
  if (self_ != 0) return {};
  // The switch needs host threads that write packets to it.
  if (own_.direct != 0 && switch_ != nullptr && switch_->does_all(space_->arena)) own_.direct = 0;
  const Shape wide = shape_on(devices_of(pool.info().striping), wishes);
  auto made = make_areas(wide, wishes);
  if (!made && wide.devices > 1) made = make_areas(shape_on({}, wishes), wishes);
  if (made) ask_switch(wishes);
  return made;
}

Shape Agreement::shape_on(const Devices& devices, const Wishes& wishes) const {
  Shape taken = shape_for(ranks_, share_of(space_->arena), devices);
  taken.direct = own_.direct != 0;
  taken.flagged_bytes = taken.direct ? flagged_bytes_for(ranks_, own_.flagged_bytes) : 0;
  // Between coherent caches, tagged lines come from the writer's cache one at a time. Longer
  // payloads arrive sooner through slots, which bypass the caches.
  if (space_->arena.pool().info().mode == coherence::Mode::hardware)
    taken.eager_bytes = hardware_eager_lines * coherence::tagged_bytes;
  if (wishes.slot_bytes != 0) {
    taken.slot_bytes = wishes.slot_bytes;
    if (taken.devices > 1) taken.area_slots = area_slots_of(devices.stripe_bytes, taken.slot_bytes);
    if (taken.area_slots == 0) taken.devices = 1;
  }
  taken.late_slots = wishes.late_slots && taken.devices == 1 && !wants_switch();
  return taken;
}

/// If the switch does not serve, collectives use the plain pool.
void Agreement::ask_switch(const Wishes& wishes) {
  arena::Arena& arena = space_->arena;
  if (!wants_switch() || own_.direct != 0 || ranks_ < 2) return;
  const auto stats = arena.stats();
  const std::uint64_t usable = stats.bytes_total / wishes.max_pool_parts;
  const std::uint64_t left = usable - std::min(stats.bytes_used, usable);
  if (const auto area = switch_->ask(*space_, ranks_, left, own_)) made_.push_back(*area);
}

bool Agreement::wants_switch() const {
  return switch_ != nullptr && switch_->is_wanted(space_->arena);
}

/// Takes no memory if there is not enough for all areas.
Result<void> Agreement::make_areas(const Shape& shape, const Wishes& wishes) {
  const auto slot_areas = Communicator::slot_areas(ranks_, shape);
  const auto table = tuning_in_force(space_->arena);
  const std::vector<std::byte> tuning = table ? encode(*table) : std::vector<std::byte>{};
  const std::uint64_t words = base::align_up(
      rest_begin(ranks_, shape) + records_bytes(ranks_, shape) + tuning.size(), line_bytes);
  std::uint64_t bytes = words;
  for (const auto& area : slot_areas) bytes += area.bytes;
  const auto stats = space_->arena.stats();
  // If a communicator may use the whole pool, the arena's own error says what to do.
  const std::uint64_t usable = stats.bytes_total / wishes.max_pool_parts;
  if (wishes.max_pool_parts > 1 && stats.bytes_used + bytes > usable)
    return fail(ErrorCode::no_space,
                "a communicator of {} ranks needs {} bytes of the pool, and {} are left for it",
                ranks_, bytes, usable - std::min(stats.bytes_used, usable));
  made_.push_back(PENSTOCK_TRY(space_->make(words, std::nullopt)));
  for (const auto& area : slot_areas) {
    auto made = space_->make(area.bytes, area.device);
    if (!made) {
      give_back();
      return unexpected(made.error());
    }
    made_.push_back(*made);
  }
  own_.area = made_.front().offset;
  own_.slot_bytes = shape.slot_bytes;
  own_.eager_bytes = shape.eager_bytes;
  own_.devices = shape.devices;
  own_.area_slots = shape.area_slots;
  own_.late_slots = shape.late_slots ? 1 : 0;
  own_.tuning_bytes = tuning.size();
  publish(shape, tuning);
  return {};
}

void Agreement::publish(const Shape& shape, const std::vector<std::byte>& tuning) {
  const auto& memory = space_->arena.pool().memory();
  const std::vector<std::byte> zeros(Communicator::zeroed_bytes(ranks_, shape));
  memory.publish_bulk(made_.front().data, zeros.data(), zeros.size());
  std::vector<AreaRecord> records;
  for (const auto& area : made_) records.push_back({area.offset, area.generation, area.slot});
  std::vector<std::byte> rest(records_bytes(ranks_, shape));
  std::memcpy(rest.data(), records.data(), rest.size());
  rest.insert(rest.end(), tuning.begin(), tuning.end());
  memory.publish_bulk(made_.front().data + rest_begin(ranks_, shape), rest.data(), rest.size());
  memory.full_fence();
}

/// Recomputes the slot size when the slots are taken: others may have used the pool since the
/// offer.
std::function<Result<TakenSlots>()> Agreement::taker_of_slots() const {
  return [space = *space_, ranks = ranks_, offered = own_.slot_bytes,
          fixed = fixed_slots_]() -> Result<TakenSlots> {
    const Shape shape = shape_for(ranks, share_of(space.arena));
    const std::uint64_t slot_bytes = fixed ? offered : std::min(offered, shape.slot_bytes);
    const auto made =
        PENSTOCK_TRY(space.make(Slots::count(ranks, shape) * slot_bytes, std::nullopt));
    return TakenSlots{{made.offset, made.generation, made.slot}, slot_bytes};
  };
}

Result<void> Agreement::check(const std::vector<Offer>& offers, const char* noun) const {
  const Offer& mine = offers[self_];
  for (std::uint32_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& offer = offers[rank];
    if (offer.pool_id != mine.pool_id)
      return fail(ErrorCode::mismatch,
                  "rank {} of the {} has attached another pool than rank {}: PENSTOCK_POOL must "
                  "name the same one on all hosts",
                  rank, noun, self_);
    if (offer.check != mine.check)
      return fail(ErrorCode::mismatch,
                  "rank {} of the {} compares calls and rank {} does not, or the other way round",
                  rank, noun, self_);
    if (offer.plan != mine.plan)
      return fail(ErrorCode::mismatch,
                  "PENSTOCK_COLL_PLAN is not the same on ranks {} and {} of the {}", rank, self_,
                  noun);
  }
  if (offers.front().area == Offer::none)
    return fail(ErrorCode::no_space,
                "{}: rank 0 found no room for it in the pool; its own message says how much is "
                "needed",
                noun);
  return {};
}

Options Agreement::options(pool::Pool& pool, const std::vector<Offer>& offers) const {
  const Offer& first = offers.front();
  Options options{.area = first.area,
                  .self = self_,
                  .shape = shape_of(first, ranks_),
                  .plan_override = plan_override(),
                  .check = first.check != 0};
  for (const Offer& offer : offers) {
    options.tokens.push_back(offer.token);
    options.nodes.push_back(offer.node);
  }
  options.direct = std::all_of(offers.begin(), offers.end(),
                               [](const Offer& offer) { return offer.direct != 0; });
  options.flagged_bytes = longest_flagged(offers);
  const auto by_gpu = std::count_if(offers.begin(), offers.end(),
                                    [](const Offer& offer) { return offer.by_gpu != 0; });
  options.by_gpus = by_gpu != 0;
  options.mixed = by_gpu != 0 && by_gpu != std::ssize(offers);
  options.shares_gpu = std::count_if(offers.begin(), offers.end(), [&](const Offer& offer) {
                         return offer.by_gpu != 0 && offer.gpu == own_.gpu;
                       }) > 1;
  const bool all_know = std::all_of(offers.begin(), offers.end(),
                                    [](const Offer& offer) { return offer.knows_switches != 0; });
  // Without them rank 0 still has the switch let go of the memory that it was asked to serve.
  if (switch_ != nullptr) switch_->complete(options, all_know ? first : Offer{});
  if (self_ == 0 && options.shape.late_slots) options.take_slots = taker_of_slots();
  const std::uint64_t tuning = std::min<std::uint64_t>(first.tuning_bytes, max_tuning_bytes);
  const auto rest = read_rest(pool, first, ranks_, tuning);
  const auto records = records_in(rest, records_of(ranks_, options.shape));
  for (std::size_t i = 1; i < records.size(); ++i) options.slot_areas.push_back(records[i].offset);
  if (tuning == 0 || rest.empty()) return options;
  auto decoded =
      decode(std::span<const std::byte>(rest).subspan(records_bytes(ranks_, options.shape)));
  if (decoded)
    options.tuning = std::make_shared<Tuning>(*std::move(decoded));
  else
    base::log(base::Level::warn, "rank 0's tuning table of collectives: {}; the built-in is used",
              decoded.error().message);
  return options;
}

Result<std::vector<arena::Object>> Agreement::areas(const std::vector<Offer>& offers) const {
  const Offer& first = offers.front();
  arena::Arena& arena = space_->arena;
  const auto rest = read_rest(arena.pool(), first, ranks_, 0);
  std::vector<arena::Object> areas;
  for (const AreaRecord& record : records_in(rest, records_of(ranks_, shape_of(first, ranks_)))) {
    if (const auto area = find_area(arena, record)) areas.push_back(*area);
  }
  if (!areas.empty() && areas.size() == records_of(ranks_, shape_of(first, ranks_)) &&
      areas.front().offset == first.area)
    return areas;
  return fail(ErrorCode::wrong_format,
              "the memory that rank 0 has made at pool offset {} is not there any more: the pool "
              "was damaged; make it anew: penstock pool create SPEC --overwrite",
              first.area);
}

std::optional<arena::Object> find_area(const arena::Arena& arena, const AreaRecord& record) {
  const auto area = arena.find(static_cast<std::uint32_t>(record.slot), record.generation);
  return area && area->offset == record.offset ? area : std::nullopt;
}

Agreement::Space space_in(arena::Arena& arena, std::string name) {
  return {.arena = arena,
          .make =
              [&arena, name = std::move(name), made = std::uint64_t{0}](
                  std::uint64_t bytes, std::optional<std::uint32_t> part) mutable {
                const auto near = arena.pool().own_part(made++);
                return arena.create(fmt::format("{}.{}", name, made), bytes,
                                    {.lifetime = arena::Lifetime::process,
                                     .alignment = 4096,
                                     .zero = false,
                                     .part = part,
                                     .near = near});
              },
          .give_back = [&arena](const arena::Object& area) { (void)arena.destroy(area); }};
}

void Agreement::give_back() {
  // The switch may still store there, so this process keeps the memory.
  if (switch_ != nullptr && !switch_->withdraw()) made_.pop_back();
  for (const auto& area : made_) space_->give_back(area);
  made_.clear();
}

}  // namespace penstock::coll
