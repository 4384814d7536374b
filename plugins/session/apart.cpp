#include "apart.hpp"

#include <array>
#include <cstring>
#include <type_traits>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::plugin {

namespace {

static_assert(std::is_trivially_copyable_v<Apart> && sizeof(Apart) == 16);
using Line = std::array<std::byte, coherence::line_bytes>;

/// A key may be longer than the names of a pool.
std::string name_of(const Launch& launch, std::int32_t rank) {
  const std::string world = launch.job + '\0' + launch.world;
  return fmt::format("penstock.apart.{:016x}.{}", base::xxh64(world.data(), world.size(), 0), rank);
}

}  // namespace

void announce_apart(const Session& session, const Apart& apart) {
  if (session.launch.rank < 0 || session.launch.job.empty()) return;
  Line line{};
  std::memcpy(line.data(), &apart, sizeof apart);
  const auto object =
      session.arena->create(name_of(session.launch, session.launch.rank), line.size(),
                            {.lifetime = arena::Lifetime::process, .contents = line.data()});
  if (!object && object.error().code != ErrorCode::already_exists)
    base::log(base::Level::info, "the others are not told that this rank takes no part: {}",
              object.error().message);
}

Apart announced_apart(const Session& session, std::int32_t rank) {
  if (session.launch.job.empty()) return {};
  const auto object = session.arena->open(name_of(session.launch, rank));
  if (!object || object->bytes != coherence::line_bytes) return {};
  Line line{};
  session.pool->memory().observe_line(line.data(), object->data);
  Apart apart;
  std::memcpy(static_cast<void*>(&apart), line.data(), sizeof apart);
  if (apart.why < Apart::Why::none || apart.why > Apart::Why::own_choice)
    return {.why = Apart::Why::unloaded};
  return apart;
}

}  // namespace penstock::plugin
