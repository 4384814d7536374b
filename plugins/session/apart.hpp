// Ranks that take no part in the work of libpenstock-mpi.so: their calls do not come to it, or they
// want none there. The others must know this before they wait for them. The provider tells them:
// the MPI of every rank loads it, before MPI_Init returns.
#pragma once

#include <cstdint>
#include <optional>

#include "session.hpp"

namespace penstock::plugin {

enum class Apart : std::uint8_t {
  unloaded = 1,    ///< the library is not in the process
  unseen,          ///< it is, but the program's calls pass it
  no_collectives,  ///< PENSTOCK_COLL=none
};
const char* apart_text(Apart why);

/// Tells it of this process, as long as that has attached the pool.
void tell_apart(const Session& session, Apart why);
/// Of a rank of this job; nullopt: it takes part, or has not begun.
std::optional<Apart> told_apart(const Session& session, std::int32_t rank);

/// The provider finds this function of the library by its name. It gives an Apart, or 0.
inline constexpr const char* apart_symbol = "mpi_penstock_apart";
using AskApart = int();

}  // namespace penstock::plugin
