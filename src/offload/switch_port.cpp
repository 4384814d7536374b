#include "offload/switch_port.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/checksum.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "coll/tuning.hpp"
#include "coll/tuning_store.hpp"
#include "offload/switch_run.hpp"

namespace penstock::offload {

namespace {

/// "always", "never" or "auto".
std::string wish_of_user() {
  const std::string text = base::env_text("PENSTOCK_COLL_SWITCH");
  if (text == "auto" || text == "always" || text == "never") return text;
  static std::atomic<bool> logged{false};
  if (!logged.exchange(true))
    base::log(base::Level::error,
              "PENSTOCK_COLL_SWITCH is not used: it is '{}', and auto, always or never is needed: "
              "export PENSTOCK_COLL_SWITCH=always, or unset it",
              text);
  return "auto";
}

bool names_switch(const std::shared_ptr<const coll::Tuning>& tuning) {
  return tuning != nullptr &&
         std::any_of(tuning->entries.begin(), tuning->entries.end(),
                     [](const coll::TuningEntry& entry) { return entry.in_switch; });
}

/// The region's shape, as every rank derives it from rank 0's offer.
Shape shape_of(const coll::Offer& first, std::uint32_t ranks) {
  return {.ranks = ranks,
          .leaves = first.switch_leaves,
          .window = coll::Shape{}.slots,
          .slot_bytes = first.slot_bytes,
          .communicator = first.communicator,
          .owner = first.token};
}

/// The shape of a new region, with an identity that no earlier region has.
Shape new_shape(const pool::Pool& pool, std::uint32_t ranks, const coll::Offer& own,
                std::uint32_t switches) {
  static std::atomic<std::uint64_t> made{0};
  const std::uint64_t name[] = {pool.token(), pool.info().id, ++made};
  coll::Offer offer = own;
  offer.communicator = static_cast<std::uint32_t>(base::xxh64(name, sizeof name, 0));
  offer.switch_leaves = switches - 1;
  return shape_of(offer, ranks);
}

class Port final : public coll::SwitchPort {
 public:
  bool is_wanted(arena::Arena& arena) const override {
    const std::string wish = wish_of_user();
    return wish == "always" || (wish == "auto" && names_switch(coll::tuning_in_force(arena)));
  }
  bool does_all(arena::Arena& arena) const override {
    if (wish_of_user() != "always") return false;
    const auto switches = serving(arena);
    return switches && *switches;
  }
  std::optional<arena::Object> ask(const coll::Agreement::Space& space, std::uint32_t ranks,
                                   std::uint64_t max_bytes, coll::Offer& offer) override;
  bool withdraw() override;
  void complete(coll::Options& options, const coll::Offer& first) const override;

 private:
  bool begin_to_ask(Serving switches, const Region& region);

  std::shared_ptr<Registration> registration_;
};

/// If anything fails, collectives use the plain pool.
std::optional<arena::Object> Port::ask(const coll::Agreement::Space& space, std::uint32_t ranks,
                                       std::uint64_t max_bytes, coll::Offer& offer) {
  arena::Arena& arena = space.arena;
  const std::string& spec = arena.pool().info().spec;
  auto switches = serving(arena);
  if (!switches || !*switches) {
    base::log(base::Level::warn, "collectives go through the plain pool: {}",
              switches ? fmt::format("no switch serves pool {}; start one: penstock switch {}",
                                     spec, spec)
                       : switches.error().message);
    return std::nullopt;
  }
  const Shape shape =
      new_shape(arena.pool(), ranks, offer, static_cast<std::uint32_t>((*switches)->tokens.size()));
  const std::uint64_t bytes = Region(0, shape).bytes();
  const auto made = bytes <= max_bytes ? space.make(bytes, std::nullopt)
                                       : fail(ErrorCode::no_space, "{} bytes are needed", bytes);
  if (!made) {
    base::log(base::Level::warn, "no room for a communicator of the switch: {}",
              made.error().message);
    return std::nullopt;
  }
  const Region region(made->offset, shape);
  if (!begin_to_ask(**std::move(switches), region)) {
    space.give_back(*made);
    return std::nullopt;
  }
  if (!registration_->served()) {
    base::log(base::Level::warn, "the switch does not serve a communicator: {}",
              registration_->why());
    return *made;
  }
  offer.switch_region = region.offset();
  offer.communicator = shape.communicator;
  offer.switch_leaves = shape.leaves;
  offer.always_in_switch = wish_of_user() == "always" ? 1 : 0;
  return *made;
}

bool Port::begin_to_ask(Serving switches, const Region& region) {
  describe(switches.directory.pool(), region);
  auto asked = Registration::ask(std::move(switches), region);
  if (asked) {
    registration_ = *std::move(asked);
    return true;
  }
  static std::atomic<bool> logged{false};  // a program may make thousands of communicators
  if (!logged.exchange(true))
    base::log(base::Level::warn, "{}: collectives of this and later ones go through the plain pool",
              asked.error().message);
  return false;
}

bool Port::withdraw() {
  constexpr std::uint64_t patience_ns = 2'000'000'000;
  base::Waiter waiter("the switch to let go of a communicator", patience_ns);
  const auto registration = std::exchange(registration_, nullptr);
  while (registration != nullptr && !registration->is_withdrawn())
    if (!waiter.pause()) return false;
  return true;
}

void Port::complete(coll::Options& options, const coll::Offer& first) const {
  if (first.switch_region != coll::Offer::none) {
    const auto ranks = static_cast<std::uint32_t>(options.tokens.size());
    options.in_switch = service_of(Region(first.switch_region, shape_of(first, ranks)));
    options.always_in_switch = first.always_in_switch != 0;
  }
  if (registration_ != nullptr) options.is_switch_withdrawn = withdrawal_of(registration_);
}

}  // namespace

std::shared_ptr<coll::SwitchPort> switch_port() {
  return std::make_shared<Port>();
}

coll::SwitchService service_of(const Region& region) {
  return {.offset = region.offset(),
          .bytes = region.bytes(),
          .open = [region](coll::State& state, bool inlines) {
            return std::make_unique<coll::SwitchRun>(state, region, inlines);
          }};
}

std::function<bool()> withdrawal_of(std::shared_ptr<Registration> registration) {
  return [registration = std::move(registration)] { return registration->is_withdrawn(); };
}

}  // namespace penstock::offload
