// How the ranks of a communicator come to a switch: PENSTOCK_COLL_SWITCH and the tuning table say
// whether they want one, rank 0 asks it to serve a region, and all ranks open their executor there.
//
//     coll::Agreement agreement(ranks, self, offload::switch_port());
#pragma once

#include <functional>
#include <memory>

#include "coll/switch_interface.hpp"
#include "offload/region.hpp"
#include "offload/registration.hpp"

namespace penstock::offload {

/// For one Agreement.
std::shared_ptr<coll::SwitchPort> switch_port();

/// For Options::in_switch. The switch serves the region.
coll::SwitchService service_of(const Region& region);

/// For Options::is_switch_withdrawn.
std::function<bool()> withdrawal_of(std::shared_ptr<Registration> registration);

}  // namespace penstock::offload
