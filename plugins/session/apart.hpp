// Ranks that do not take part like the others in libpenstock-mpi.so: their calls do not come to it,
// or they have chosen other collectives for the pool. The other ranks must know this before they
// wait for them in the pool. The provider tells it, for the MPI of every rank loads the provider
// before MPI_Init returns.
#pragma once

#include <cstdint>
#include <optional>

#include "session.hpp"

namespace penstock::plugin {

struct Apart {
  enum class Why : std::uint8_t {
    none,       ///< the rank takes part like the others
    unloaded,   ///< the library is not in the process
    unseen,     ///< it is, but the program's calls bypass it
    own_choice  ///< PENSTOCK_COLL is set
  };
  Why why = Why::none;
  std::uint64_t calls = 0;  ///< own_choice: the collectives for the pool

  bool operator==(const Apart&) const = default;
};

/// Tells the other ranks about this process, for as long as it is attached to the pool.
void announce_apart(const Session& session, const Apart& apart);
/// Returns what a rank of this job and world has told.
Apart announced_apart(const Session& session, std::int32_t rank);

/// The provider finds this function of the library by its name.
inline constexpr const char* apart_symbol = "mpi_penstock_apart";
using AskApart = void(Apart* apart);

}  // namespace penstock::plugin
