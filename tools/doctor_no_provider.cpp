// Replaces doctor_provider.cpp in a build without the provider.
#include "doctor.hpp"

namespace penstock::tools {

void check_offer(Findings&, const std::string&) {}  // check_provider reports that there is none

}  // namespace penstock::tools
