#include "offload/directory.hpp"

#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "pool/checksummed_line.hpp"

namespace penstock::offload {

namespace {

constexpr const char* object_name = "penstock.switch";
constexpr std::uint64_t header_magic = 0x6863746977535350;  // "PSSwitch"
constexpr std::uint64_t claim_magic = 0x6d69616c43505350;   // "PSPClaim"

struct HeaderLine {
  std::uint64_t magic;
  std::uint32_t version, processes;
  std::uint64_t more[5];
  std::uint64_t checksum;
};
static_assert(sizeof(HeaderLine) == coherence::line_bytes);

struct ClaimLine {
  std::uint64_t magic;
  std::uint32_t version, leaves;
  std::uint64_t token;
  std::uint64_t more[4];
  std::uint64_t checksum;
};
static_assert(sizeof(ClaimLine) == coherence::line_bytes);

/// Processes in slots behind these make communicators that no switch serves.
std::uint32_t processes_of(const pool::Pool& pool) {
  return std::min(pool.info().max_processes, 1024u);
}

tl::unexpected<Error> of_another_version(const pool::Pool& pool, std::uint32_t version) {
  return fail(ErrorCode::mismatch,
              "pool {} was served by a switch of version {}, and this Penstock has version {}: "
              "install the same version on all hosts, or make the pool anew",
              pool.info().spec, version, protocol_version);
}

}  // namespace

std::string text_of(const Role& role) {
  if (role.number != 0) return fmt::format("leaf {} of {}", role.number - 1, role.leaves);
  if (role.leaves == 0) return "switch";
  return fmt::format("spine of {} {}", role.leaves, role.leaves == 1 ? "leaf" : "leaves");
}

Result<Directory> Directory::checked(pool::Pool& pool, const arena::Object& object) {
  HeaderLine header{};
  if (object.bytes >= sizeof header)
    pool.memory().observe_line(&header, pool.base() + object.offset);
  const bool whole =
      header.magic == header_magic && header.checksum == pool::line_checksum(&header, 0);
  if (whole && header.version != protocol_version) return of_another_version(pool, header.version);
  if (!whole || header.processes != processes_of(pool) ||
      object.bytes != bytes_for(header.processes))
    return fail(ErrorCode::wrong_format, "the object {} of pool {} is damaged: make the pool anew",
                object_name, pool.info().spec);
  return Directory(pool, object, header.processes);
}

Result<std::optional<Directory>> Directory::find(arena::Arena& arena) {
  auto object = arena.open(object_name);
  if (!object && object.error().code == ErrorCode::not_found) return std::nullopt;
  if (!object) return unexpected(object.error());
  return std::optional(PENSTOCK_TRY(checked(arena.pool(), *object)));
}

/// Publishes the header before the name: a process that finds the name finds a whole header.
Result<Directory> Directory::find_or_make(arena::Arena& arena) {
  pool::Pool& pool = arena.pool();
  if (auto found = PENSTOCK_TRY(find(arena))) return *found;
  const std::uint32_t processes = processes_of(pool);
  std::vector<std::byte> contents(bytes_for(processes));
  HeaderLine header{.magic = header_magic, .version = protocol_version, .processes = processes};
  header.checksum = pool::line_checksum(&header, 0);
  std::memcpy(contents.data(), &header, sizeof header);
  auto made = arena.create(object_name, contents.size(), {.contents = contents.data()});
  if (!made && made.error().code != ErrorCode::already_exists) return unexpected(made.error());
  const auto found = PENSTOCK_TRY(find(arena));  // another switch may have made it just before
  if (found) return *found;
  return fail(ErrorCode::unavailable, "the object {} of pool {} appeared and vanished: try again",
              object_name, pool.info().spec);
}

std::optional<Claim> Directory::claim(std::uint32_t number) const {
  const auto line = pool::observe_checksummed_line<ClaimLine>(pool_->memory(), pool_->base(),
                                                              at(first_claim + number));
  if (!line) return std::nullopt;
  if (line->magic != claim_magic) return Claim{};
  return Claim{line->token, line->version, line->leaves};
}

void Directory::publish_claim(std::uint32_t number, const Claim& claim) const {
  const ClaimLine line{
      .magic = claim_magic, .version = claim.version, .leaves = claim.leaves, .token = claim.token};
  pool::publish_checksummed_line(pool_->memory(), pool_->base(), at(first_claim + number), line);
}

namespace {

/// Refuses a claim that another living process holds.
Result<void> refuse_if_alive(const pool::Pool& pool, const Role& role, const Claim& claim) {
  if (claim.token == 0 || claim.token == pool.token() || !pool.alive(claim.token)) return {};
  if (claim.version != protocol_version) return of_another_version(pool, claim.version);
  return fail(ErrorCode::already_exists,
              "pool {} has a {} already: {}; end that one first (SIGTERM), or serve another pool",
              pool.info().spec, role.number == 0 ? "switch" : text_of(role),
              pool.describe(claim.token));
}

/// All living switches of the pool must belong to one tree.
Result<void> check_tree(const Directory& directory, const Role& role) {
  pool::Pool& pool = directory.pool();
  for (std::uint32_t number = 0; number < max_claims; ++number) {
    if (number == role.number) continue;
    const auto other = directory.claim(number);
    if (!other || other->token == 0 || !pool.alive(other->token)) continue;
    if (other->leaves == role.leaves) continue;
    return fail(ErrorCode::mismatch,
                "a {} does not fit the {} that serves pool {} ({}): name the same number of leaves",
                text_of(role), text_of({number, other->leaves}), pool.info().spec,
                pool.describe(other->token));
  }
  return {};
}

Result<void> take_within(std::uint64_t timeout_ns, const Directory& directory, const Role& role) {
  pool::Pool& pool = directory.pool();
  const auto guard = PENSTOCK_TRY(pool.lock(timeout_ns));
  // A torn line belongs to a process that was killed while it took the claim.
  if (const auto claim = directory.claim(role.number))
    PENSTOCK_TRY(refuse_if_alive(pool, role, *claim));
  PENSTOCK_TRY(check_tree(directory, role));
  pool.confirm();  // a process that was declared dead must not take a claim
  directory.publish_claim(role.number, {pool.token(), protocol_version, role.leaves});
  return {};
}

}  // namespace

Result<void> take_claim(const Directory& directory, const Role& role) {
  return take_within(0, directory, role);
}

Result<void> keep_claim(const Directory& directory, const Role& role) {
  const auto claim = directory.claim(role.number);
  if (claim && claim->token == directory.pool().token()) return {};
  constexpr std::uint64_t patience_ns = 1'000'000'000;  // ranks wait for a switch that serves them
  return take_within(patience_ns, directory, role);
}

Result<void> give_claim_back(const Directory& directory, const Role& role) {
  pool::Pool& pool = directory.pool();
  const auto guard = PENSTOCK_TRY(pool.lock());
  const auto claim = directory.claim(role.number);
  if (!claim || claim->token != pool.token()) return {};
  pool.confirm();  // as in take_claim()
  directory.publish_claim(role.number, {0, protocol_version, 0});
  return {};
}

Result<std::optional<Serving>> serving(arena::Arena& arena) {
  const auto directory = PENSTOCK_TRY(Directory::find(arena));
  if (!directory) return std::nullopt;
  Serving found{*directory, {}};
  std::uint32_t leaves = 0;
  for (std::uint32_t number = 0; number <= leaves; ++number) {
    const auto claim = directory->claim(number);
    const bool lives = claim && claim->token != 0 && arena.pool().alive(claim->token);
    if (!lives && number == 0) return std::nullopt;
    if (lives && claim->version != protocol_version)
      return of_another_version(arena.pool(), claim->version);
    if (number == 0) leaves = std::min(claim->leaves, max_leaves);
    if (!lives || claim->leaves != leaves)
      return fail(ErrorCode::unavailable,
                  "a spine serves pool {}, and its {} does not; start it: penstock switch {} "
                  "--leaves {} --leaf {}",
                  arena.pool().info().spec, text_of({number, leaves}), arena.pool().info().spec,
                  leaves, number - 1);
    found.tokens.push_back(claim->token);
  }
  return std::optional(std::move(found));
}

}  // namespace penstock::offload
