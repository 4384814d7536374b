#include "bench/stream/target.hpp"

#include <array>
#include <charconv>

#include "base/format.hpp"
#include "bench/stream/targets.hpp"
#include "pool/pool.hpp"

namespace penstock::bench::stream {

namespace {

using Kind = TargetSpec::Kind;

struct Form {
  const char* name;
  Kind kind;
  Promise promise;
};
constexpr std::array<Form, 9> forms = {{
    {"memory", Kind::memory, Promise::none},
    {"numa", Kind::numa, Promise::none},
    {"pmem", Kind::pmem, Promise::none},
    {"pmem+persist", Kind::pmem, Promise::persist},
    {"pmem+tx", Kind::pmem, Promise::transaction},
    {"pmem+tx-nosnap", Kind::pmem, Promise::transaction_no_copy},
    {"pool", Kind::pool, Promise::none},
    {"pool+observe", Kind::pool, Promise::observe},
    {"pool+tx", Kind::pool, Promise::transaction},
}};

const char* form_name(const TargetSpec& spec) {
  for (const Form& form : forms)
    if (form.kind == spec.kind && form.promise == spec.promise) return form.name;
  return "?";
}

Result<TargetSpec> parse_one(const std::string& text) {
  const auto colon = text.find(':');
  const std::string name = text.substr(0, colon);
  TargetSpec spec;
  bool known = false;
  for (const Form& form : forms) {
    if (name != form.name) continue;
    spec.kind = form.kind;
    spec.promise = form.promise;
    known = true;
  }
  if (colon != text.npos) spec.place = text.substr(colon + 1);
  const bool named = !spec.place.empty();
  if (spec.kind == Kind::numa) {
    const char* const end = spec.place.data() + spec.place.size();
    const auto [stopped, error] = std::from_chars(spec.place.data(), end, spec.node);
    known = known && named && error == std::errc() && stopped == end && spec.node >= 0;
  }
  if (spec.kind == Kind::pmem) known = known && named;
  if (spec.kind == Kind::memory) known = known && colon == text.npos;
  if (known) return spec;
  return fail(ErrorCode::invalid_argument,
              "'{}' is no target; they are memory, numa:NODE, pmem:FOLDER, pmem+persist:FOLDER, "
              "pmem+tx:FOLDER, pmem+tx-nosnap:FOLDER, pool[:SPEC], pool+observe[:SPEC], "
              "pool+tx[:SPEC]: --target numa:0",
              text);
}

Result<std::vector<coherence::Mode>> modes_of(const TargetSpec& spec,
                                              const TargetOptions& options) {
  if (!spec.place.empty()) {
    const auto found = pool::inspect(spec.place);
    if (found) return std::vector{found->mode};
    if (found.error().code != ErrorCode::not_found) return unexpected(found.error());
  }
  if (!options.modes.empty()) return options.modes;
  // In hardware mode there is nothing to invalidate.
  if (spec.promise == Promise::observe) return std::vector{coherence::Mode::software};
  return std::vector{coherence::Mode::hardware, coherence::Mode::software};
}

/// The stores of a series: software mode can publish by either.
std::vector<Store> stores_of(const TargetSpec& spec, const TargetOptions& options) {
  const bool either = spec.promise == Promise::none || spec.promise == Promise::observe;
  if (spec.kind == Kind::pmem || !either) return {Store::plain};
  // Uncached memory has no cache to go past: its publish_bulk is plain stores.
  if (spec.mode == coherence::Mode::uncached) return {Store::plain};
  if (!options.stores.empty()) return options.stores;
  if (spec.mode == coherence::Mode::software) return {Store::past_the_cache, Store::plain};
  return {Store::plain};
}

}  // namespace

std::string TargetSpec::name() const {
  std::string text = form_name(*this);
  if (kind == Kind::numa) text += fmt::format(":{}", node);
  if (kind == Kind::pmem && promise == Promise::none)
    text += hoisted ? ", hoisted" : ", D_RW an element";
  if (mode) text += fmt::format(", {}", coherence::mode_name(*mode));
  if (kind != Kind::pmem && promise != Promise::transaction)
    text += fmt::format(", {}", store_name(store));
  return text;
}

const char* store_name(Store store) {
  return store == Store::plain ? "plain" : "nt";
}

Result<Store> parse_store(std::string_view text) {
  if (text == "plain") return Store::plain;
  if (text == "nt") return Store::past_the_cache;
  return fail(ErrorCode::invalid_argument,
              "'{}' is no way to store; they are plain and nt (non-temporal): --store plain", text);
}

Result<std::vector<TargetSpec>> parse_targets(const std::string& text,
                                              const TargetOptions& options) {
  const TargetSpec one = PENSTOCK_TRY(parse_one(text));
  std::vector<TargetSpec> places = {one};
  if (one.kind == Kind::pmem && one.promise == Promise::none) {
    places.push_back(one);
    places[1].hoisted = false;
  }
  if (one.kind == Kind::pool) {
    places.clear();
    for (const coherence::Mode mode : PENSTOCK_TRY(modes_of(one, options))) {
      places.push_back(one);
      places.back().mode = mode;
    }
  }
  std::vector<TargetSpec> specs;
  for (const TargetSpec& place : places)
    for (const Store store : stores_of(place, options)) {
      specs.push_back(place);
      specs.back().store = store;
    }
  return specs;
}

void Target::fill(Part part) {
  const Arrays at = arrays();
  for (std::uint64_t j = part.first; j < part.first + part.count; ++j) {
    at.a[j] = 1.0;
    at.b[j] = 2.0;
    at.c[j] = 0.0;
  }
  for (double* const array : {at.a, at.b, at.c})
    seal(array + part.first, part.count * sizeof(double));
}

void Target::double_a(Part part) {
  double* const a = arrays().a;
  for (std::uint64_t j = part.first; j < part.first + part.count; ++j) a[j] = 2.0 * a[j];
  seal(a + part.first, part.count * sizeof(double));
}

Result<void> Target::run(const Share& share) {
  run_plain(share);
  seal(share.written(), share.bytes());
  return {};
}

Result<Errors> Target::compare(const Values& expected) {
  const Arrays at = arrays();
  const auto error = [&](const double* array, double value) {
    ErrorSum sum(value);
    sum.add(array, at.elements);
    return sum.mean();
  };
  return Errors{error(at.a, expected.a), error(at.b, expected.b), error(at.c, expected.c)};
}

Result<std::unique_ptr<Target>> open_target(const TargetSpec& spec, std::uint64_t elements,
                                            unsigned threads) {
  switch (spec.kind) {
    case Kind::memory:
      return open_memory(spec, elements);
    case Kind::numa:
      return open_numa(spec, elements);
    case Kind::pmem:
      return open_pmem(spec, elements);
    case Kind::pool:
      return spec.promise == Promise::transaction ? open_pool_transactions(spec, elements, threads)
                                                  : open_pool(spec, elements);
  }
  return fail(ErrorCode::internal, "a target of an unknown kind");
}

namespace {

Result<std::uint64_t> room(const TargetSpec& spec) {
  switch (spec.kind) {
    case Kind::memory:
      return memory_room();
    case Kind::numa:
      return numa_room(spec);
    case Kind::pmem:
      return pmem_room(spec);
    case Kind::pool:
      return pool_room(spec);
  }
  return 0;
}

}  // namespace

Result<std::uint64_t> max_elements(const TargetSpec& spec) {
  const std::uint64_t bytes = PENSTOCK_TRY(room(spec));
  // An undo log holds the old contents of the arrays that a kernel writes: one array more.
  const std::uint64_t arrays = spec.promise == Promise::transaction ? 5 : 3;
  return bytes / (arrays * sizeof(double)) / line_elements * line_elements;
}

}  // namespace penstock::bench::stream
